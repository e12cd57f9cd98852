//! Where processes are started.

use super::logs::LogWriter;
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A process to start.
pub struct ProcessSpec {
    /// The command and its arguments.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// The working directory; it exists.
    pub dir: PathBuf,
    /// Where its output goes.
    pub log: LogWriter,
    /// The most memory that it and what it starts may have, in bytes.
    pub memory_max_bytes: Option<u64>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit code; 128 and the signal's number when a signal ended it.
    pub code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether it was ended because it had too much memory.
    pub out_of_memory: bool,
}

/// How a process is told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It is asked to (SIGTERM).
    Ask,
    /// It is made to (SIGKILL).
    Kill,
}

/// A process that was started, with everything that it starts.
pub trait Process: Send {
    /// Tells the whole group to end.
    fn stop(&self, how: Stop);
    /// Whether it would notice being asked to end; without a way to tell, it would.
    fn listens(&self) -> bool {
        true
    }
    /// Returns when the process has ended, its group is gone and its output is in the log. May be dropped and called
    /// again.
    fn wait(&mut self) -> BoxFuture<'_, Exit>;
}

/// Starts processes.
pub trait Runtime: Send + Sync {
    /// Starts one.
    ///
    /// # Errors
    /// A sentence that says why it could not be started.
    fn start(&self, spec: ProcessSpec) -> Result<Box<dyn Process>, String>;
}
