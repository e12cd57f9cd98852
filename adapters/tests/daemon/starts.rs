//! Starts that cannot be: each says what is wrong, on what, and what to do, and ends with code 1.

use crate::process::Daemon;

fn refused(daemon: &Daemon, args: &[&str]) -> String {
    let output = daemon.command(args).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_wrong_key_is_named_with_its_line_and_the_nearest_one() {
    let daemon = Daemon::new();
    std::fs::write(daemon.path("wrong.yaml"), "logger:\n  levle: 4\n").unwrap();
    assert_eq!(
        refused(&daemon, &["--config", "wrong.yaml"]),
        "flyte-manager: the configuration wrong.yaml is wrong:\nlogger.levle (line 2) is not a key of the configuration; \
         did you mean logger.level?\n"
    );
    assert!(refused(&daemon, &["--config", "none.yaml"]).contains("cannot read the configuration none.yaml"));
}

#[test]
fn a_kubeconfig_that_is_missing_or_broken_is_named() {
    let daemon = Daemon::new();
    std::fs::write(daemon.path("broken"), "{{{").unwrap();
    for file in ["missing", "broken"] {
        let text = format!("manager: {{kubernetes: {{kubeconfig: {file}}}}}\n");
        std::fs::write(daemon.path("cluster.yaml"), text).unwrap();
        let said = refused(&daemon, &["--config", "cluster.yaml"]);
        assert!(said.starts_with("flyte-manager: failed to get Kubernetes config: "), "{said}");
        assert!(said.contains(&format!("check manager.kubernetes.kubeconfig ({file})")), "{said}");
    }
}

#[test]
fn a_port_that_is_taken_is_named_with_its_key() {
    let daemon = Daemon::new();
    let _taken = std::net::TcpListener::bind(("127.0.0.1", daemon.port)).unwrap();
    let said = refused(&daemon, &[]);
    assert!(
        said.contains(&format!(
            "address already in use: 127.0.0.1:{} (manager.runsService.port)",
            daemon.port
        )),
        "{said}"
    );
    let check = daemon.command(&["check"]).output().unwrap();
    assert_eq!(check.status.code(), Some(1));
    assert!(String::from_utf8(check.stdout).unwrap().contains("WRONG  runs service: address already in use"));
}

#[test]
fn a_database_that_cannot_be_migrated_is_left_as_it_was() {
    let daemon = Daemon::new();
    let bytes = b"not a database at all, and rather longer than a header of one hundred bytes would be, to be sure of it".repeat(50);
    std::fs::write(daemon.path("flyte.db"), &bytes).unwrap();
    let said = refused(&daemon, &[]);
    assert!(said.contains("flyte.db"), "{said}");
    assert!(std::fs::read(daemon.path("flyte.db")).unwrap() == bytes);
}

#[test]
fn the_other_commands_answer() {
    let daemon = Daemon::new();
    let output = |args: &[&str]| String::from_utf8(daemon.command(args).output().unwrap().stdout).unwrap();
    let published = include_str!("../../../crds/flyte.org_taskactions.yaml");
    assert_eq!(output(&["crd"]), published);
    assert_eq!(output(&["migrate"]), "flyte.db has schema version 1\n");
    assert!(output(&["check"]).contains("ok     database: flyte.db has schema version 1"));
    assert!(output(&["completions", "bash"]).contains("flyte-manager"));
    assert!(output(&["--version"]).starts_with("flyte-manager "));
    assert!(output(&["--help"]).contains("Usage: flyte-manager"));
}
