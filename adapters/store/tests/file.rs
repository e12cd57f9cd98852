//! The file: readable by others while it is open, and never spoilt.

mod common;

use common::*;
use flyte_store::{SCHEMA_VERSION, Store};
use std::path::Path;

/// Runs SQL with SQLite itself in a process of its own, as `sqlite3 flyte.db` does: file locks hold between processes
/// only. The columns of a row are separated by `|`.
fn sqlite(dir: &Path, sql: &str) -> Vec<String> {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "answers_sql_for_the_other_tests", "--ignored", "--nocapture"])
        .env("SQLITE_FILE", dir.join("flyte.db"))
        .env("SQLITE_SQL", sql)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text.lines().filter_map(|line| line.strip_prefix("row ")).map(str::to_string).collect()
}

#[test]
#[ignore = "the other tests run it in a process of its own"]
fn answers_sql_for_the_other_tests() {
    let (Some(file), Ok(sql)) = (std::env::var_os("SQLITE_FILE"), std::env::var("SQLITE_SQL")) else {
        return;
    };
    let connection = rusqlite::Connection::open(file).unwrap();
    println!();
    for sql in sql.split(';') {
        let mut statement = connection.prepare(sql).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let values = (0..columns).map(|index| match row.get(index).unwrap() {
                rusqlite::types::Value::Null => "NULL".to_string(),
                rusqlite::types::Value::Integer(number) => number.to_string(),
                rusqlite::types::Value::Real(number) => number.to_string(),
                rusqlite::types::Value::Text(text) => text,
                rusqlite::types::Value::Blob(bytes) => format!("{} bytes", bytes.len()),
            });
            println!("row {}", values.collect::<Vec<_>>().join("|"));
        }
    }
}

/// What a killed process leaves: the files as they are, the log not yet merged.
fn copy_of(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

#[tokio::test]
async fn sqlite_reads_live_rows_with_readable_values_while_the_store_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.create_run(new_run(&run_id("nightly"))).await.unwrap();
    let phases = "SELECT name, phase, json_extract(state, '$.phase') FROM actions";
    assert_eq!(sqlite(dir.path(), phases), ["a0|QUEUED|QUEUED"]);
    for (input, after) in [
        (created(), "a0|QUEUED|QUEUED"),
        (running(), "a0|RUNNING|RUNNING"),
        (succeeded(), "a0|SUCCEEDED|SUCCEEDED"),
    ] {
        store.apply(&run_id("nightly").root(), input).await.unwrap();
        assert_eq!(sqlite(dir.path(), phases), [after]);
    }
    assert_eq!(
        sqlite(dir.path(), "SELECT name, phase, task_name, labels, created_at, duration_ms FROM runs"),
        [r#"nightly|SUCCEEDED|hello.main|{"team":"blue"}|2026-03-01T12:00:01.000Z|1000"#]
    );
    assert_eq!(
        sqlite(dir.path(), "SELECT attempt, phase, pod, started_at IS NOT NULL FROM attempts"),
        ["1|SUCCEEDED|p|1"]
    );
    assert_eq!(
        sqlite(dir.path(), "SELECT phase FROM transitions ORDER BY id"),
        ["QUEUED", "INITIALIZING", "RUNNING", "SUCCEEDED"]
    );
    assert_eq!(sqlite(dir.path(), "PRAGMA integrity_check"), ["ok"]);
    store.close().await;
    assert_eq!(sqlite(dir.path(), phases), ["a0|SUCCEEDED|SUCCEEDED"]);
}

#[tokio::test]
async fn a_store_that_was_never_closed_is_read_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.create_run(new_run(&run_id("r"))).await.unwrap();
    let copy = copy_of(dir.path());
    let recovered = open(copy.path()).await;
    assert!(recovered.run(&run_id("r")).await.unwrap().is_some());
}

/// Answers one statement after the other from one connection, as an open shell does.
#[test]
#[ignore = "the other tests run it in a process of its own"]
fn a_shell_for_the_other_tests() {
    use std::io::BufRead;
    let Some(file) = std::env::var_os("SQLITE_FILE") else { return };
    let connection = rusqlite::Connection::open(file).unwrap();
    println!();
    for line in std::io::stdin().lock().lines() {
        let answer: String = connection.query_row(&line.unwrap(), [], |row| row.get(0)).unwrap();
        println!("row {answer}");
    }
}

#[tokio::test]
async fn an_open_shell_sees_new_rows_and_takes_nothing_away() {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let id = run_id("r");
    store.create_run(new_run(&id)).await.unwrap();
    let mut shell = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_shell_for_the_other_tests", "--ignored", "--nocapture"])
        .env("SQLITE_FILE", dir.path().join("flyte.db"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut questions = shell.stdin.take().unwrap();
    let mut answers = BufReader::new(shell.stdout.take().unwrap()).lines();
    let mut ask = || {
        writeln!(questions, "SELECT group_concat(phase) FROM actions").unwrap();
        answers.find_map(|line| line.unwrap().strip_prefix("row ").map(str::to_string)).unwrap()
    };
    assert_eq!(ask(), "QUEUED");
    for (input, seen) in [(created(), "QUEUED"), (running(), "RUNNING"), (succeeded(), "SUCCEEDED")] {
        store.apply(&id.root(), input).await.unwrap();
        assert_eq!(ask(), seen);
        // Others come and go meanwhile.
        assert_eq!(sqlite(dir.path(), "SELECT phase FROM runs"), [seen]);
    }
    drop(questions);
    shell.wait().unwrap();
    store.create_run(new_run(&run_id("after"))).await.unwrap();
    let copy = copy_of(dir.path());
    let recovered = open(copy.path()).await;
    assert!(recovered.run(&run_id("after")).await.unwrap().is_some(), "what was acknowledged is on the disk");
}

#[tokio::test]
async fn sqlite_may_read_and_merge_what_a_killed_manager_left() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.create_run(new_run(&run_id("r"))).await.unwrap();
    let copy = copy_of(dir.path());
    assert_eq!(sqlite(copy.path(), "SELECT name FROM runs"), ["r"]);
    let recovered = open(copy.path()).await;
    assert!(recovered.run(&run_id("r")).await.unwrap().is_some());
    recovered.create_run(new_run(&run_id("s"))).await.unwrap();
    assert_eq!(sqlite(copy.path(), "SELECT name FROM runs ORDER BY name"), ["r", "s"]);
    assert_eq!(sqlite(copy.path(), "PRAGMA integrity_check"), ["ok"]);
}

#[tokio::test]
async fn a_second_manager_is_refused_while_the_first_has_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let path = options(dir.path()).path;
    assert_eq!(
        Store::open(options(dir.path())).await.err().unwrap().to_string(),
        format!(
            "failed to open the database {path}: another flyte-manager uses it; stop that one or set \
             database.sqlite.file to another file"
        )
    );
    store.close().await;
    open(dir.path()).await;
}

#[tokio::test]
async fn a_newer_database_is_refused_and_left_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).await.close().await;
    sqlite(dir.path(), "INSERT INTO schema_migrations VALUES (9999, 'later', '2030-01-01T00:00:00.000Z')");
    let error = Store::open(options(dir.path())).await.err().unwrap().to_string();
    assert_eq!(
        error,
        format!(
            "failed to run migrations: the database has schema version 9999, this program knows versions up to \
             {SCHEMA_VERSION}; start a newer flyte-manager or restore a backup of the older database"
        )
    );
    assert_eq!(sqlite(dir.path(), "SELECT version FROM schema_migrations ORDER BY version"), ["1", "9999"]);
}

#[tokio::test]
async fn the_database_of_another_program_is_refused_and_left_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    sqlite(dir.path(), "CREATE TABLE songs (title TEXT)");
    let error = Store::open(options(dir.path())).await.err().unwrap().to_string();
    assert_eq!(
        error,
        "failed to run migrations: the file already holds tables of another program (songs); give flyte-manager a \
         file of its own (database.sqlite.file)"
    );
    assert_eq!(sqlite(dir.path(), "SELECT name FROM sqlite_schema"), ["songs"]);
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_left_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = b"this is a letter to my aunt, not a database. ".repeat(200);
    std::fs::write(dir.path().join("flyte.db"), &bytes).unwrap();
    assert!(Store::open(options(dir.path())).await.is_err());
    assert!(std::fs::read(dir.path().join("flyte.db")).unwrap() == bytes);
}
