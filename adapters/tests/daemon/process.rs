//! A daemon in a directory of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// How long anything may take on a slow machine before a test gives up; nothing waits that long when all is well.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const BINARY: &str = env!("CARGO_BIN_EXE_flyte-manager");

/// A directory with a configuration, and at times a daemon over it.
pub struct Daemon {
    pub dir: tempfile::TempDir,
    pub port: u16,
    child: Option<Child>,
}

impl Daemon {
    /// Configures a daemon on free ports, which does not run yet.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let [port, queue, health] = free_ports();
        let config = format!(
            "manager:\n  runsService: {{port: {port}}}\n  queueService: {{port: {queue}}}\n  executor: \
             {{healthProbePort: {health}, backoffBase: 100ms}}\n  kubernetes: {{mode: embedded}}\n"
        );
        std::fs::write(dir.path().join("config.yaml"), config).unwrap();
        Self { dir, port, child: None }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null());
        for (name, _) in
            std::env::vars().filter(|(name, _)| name.starts_with("FLYTE_") || name == "KUBECONFIG")
        {
            command.env_remove(name);
        }
        command
    }

    /// Starts the daemon and returns when it is ready.
    pub async fn start(&mut self) {
        let log = std::fs::File::options().create(true).append(true).open(self.path("log")).unwrap();
        self.child = Some(self.command(&[]).stderr(log).stdout(Stdio::null()).spawn().unwrap());
        let ready = async {
            while !matches!(crate::client::get(self.port, "/readyz").await, Ok((200, _))) {
                assert!(
                    self.child.as_mut().unwrap().try_wait().unwrap().is_none(),
                    "it ended: {}",
                    self.log()
                );
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, ready).await.expect("the daemon is not ready in time");
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Kills the daemon as a power loss would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Asks the daemon to end, and answers how it did.
    pub async fn terminate(&mut self) -> ExitStatus {
        let mut child = self.child.take().unwrap();
        assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
        let ended = async {
            loop {
                if let Some(status) = child.try_wait().unwrap() {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.expect("the daemon does not end")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
        // Processes of tasks outlive a killed daemon until its next start; none may outlive the tests.
        let marker = self.dir.path().display().to_string();
        for pid in processes_with(&marker) {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
    }
}

/// Processes whose command line or environment names something.
pub fn processes_with(text: &str) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let read = |path: &Path, file: &str| std::fs::read(path.join(file)).unwrap_or_default();
    entries
        .flatten()
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let bytes = [read(&entry.path(), "cmdline"), read(&entry.path(), "environ")].concat();
            String::from_utf8_lossy(&bytes).contains(text).then_some(pid)
        })
        .filter(|pid| *pid != std::process::id())
        .collect()
}

fn free_ports<const N: usize>() -> [u16; N] {
    // All are held at once, so that they differ.
    let held = [(); N].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    held.each_ref().map(|listener| listener.local_addr().unwrap().port())
}
