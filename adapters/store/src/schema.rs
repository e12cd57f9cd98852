//! The numbered migrations and their order.

use crate::clock::Clock;
use crate::error::bounded;
use turso::{Connection, Error};

/// All migrations, oldest first; a migration's number is its place, from 1.
const MIGRATIONS: [(&str, &str); 1] =
    [("0001_runs_and_actions", include_str!("../../../migrations/0001_runs_and_actions.sql"))];

/// The version of a database that all migrations were applied to.
pub const SCHEMA_VERSION: i64 = MIGRATIONS.len() as i64;

const VERSIONS: &str = "CREATE TABLE IF NOT EXISTS schema_migrations \
     (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL)";

/// Brings the schema up to date, each migration in a transaction of its own.
///
/// # Errors
/// A sentence; the database is as it was before the migration that failed.
pub(crate) async fn migrate(connection: &Connection, clock: &Clock) -> Result<(), String> {
    let said = |error: Error| bounded(&error.to_string());
    let tables = tables(connection).await.map_err(said)?;
    let known = tables.iter().any(|name| name == "schema_migrations");
    if !known && !tables.is_empty() {
        return Err(format!(
            "the file already holds tables of another program ({}); give flyte-manager a file of its own \
             (database.sqlite.file)",
            bounded(&tables.join(", "))
        ));
    }
    let found = if known { version(connection).await.map_err(said)? } else { 0 };
    if found > SCHEMA_VERSION {
        return Err(format!(
            "the database has schema version {found}, this program knows versions up to {SCHEMA_VERSION}; \
             start a newer flyte-manager or restore a backup of the older database"
        ));
    }
    for (index, (name, sql)) in MIGRATIONS.iter().enumerate().skip(usize::try_from(found).unwrap_or(0)) {
        apply(connection, index as i64 + 1, name, sql, clock)
            .await
            .map_err(|error| format!("{name}: {}", bounded(&error.to_string())))?;
    }
    Ok(())
}

async fn apply(
    connection: &Connection,
    version: i64,
    name: &str,
    sql: &str,
    clock: &Clock,
) -> Result<(), Error> {
    connection.execute("BEGIN IMMEDIATE", ()).await?;
    let applied = async {
        connection.execute(VERSIONS, ()).await?;
        connection.execute_batch(sql).await?;
        connection
            .execute(
                "INSERT INTO schema_migrations (version, name, applied_at) VALUES (?1, ?2, ?3)",
                (version, name, clock.now().to_string()),
            )
            .await?;
        connection.execute("COMMIT", ()).await
    }
    .await;
    if let Err(error) = applied {
        if !connection.is_autocommit().unwrap_or(true) {
            connection.execute("ROLLBACK", ()).await?;
        }
        return Err(error);
    }
    Ok(())
}

async fn tables(connection: &Connection) -> Result<Vec<String>, Error> {
    let mut rows = connection
        .query(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
            (),
        )
        .await?;
    let mut names = Vec::new();
    while let Some(row) = rows.next().await? {
        names.push(row.get::<String>(0)?);
    }
    Ok(names)
}

async fn version(connection: &Connection) -> Result<i64, Error> {
    let mut rows = connection.query("SELECT COALESCE(MAX(version), 0) FROM schema_migrations", ()).await?;
    let mut version = 0;
    while let Some(row) = rows.next().await? {
        version = row.get::<i64>(0)?;
    }
    Ok(version)
}
