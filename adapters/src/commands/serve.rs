//! Runs the manager until a signal.

use crate::config::Config;
use crate::runtime::Manager;
use std::process::ExitCode;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Runs until SIGTERM or SIGINT; a second one ends at once.
pub async fn run(config: &Config) -> Result<ExitCode, String> {
    let mut signals = Signals::new()?;
    let manager = tokio::select! {
        biased;
        () = signals.any() => return Ok(ExitCode::SUCCESS),
        manager = Manager::start(config) => manager?,
    };
    let failure = tokio::select! {
        biased;
        () = signals.any() => None,
        reason = manager.failed() => Some(reason),
    };
    tokio::select! {
        biased;
        () = signals.any() => tracing::warn!("a second signal: ending at once"),
        () = manager.stop() => {}
    }
    match failure {
        None => Ok(ExitCode::SUCCESS),
        Some(reason) => Err(reason),
    }
}

/// The signals that end a daemon.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Self, String> {
        let listen = |kind| signal(kind).map_err(|error| format!("signals cannot be received: {error}"));
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn any(&mut self) {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
