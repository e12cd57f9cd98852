//! What the manager says of itself: log lines on standard error.

use crate::config::Logger;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// Starts the log. `RUST_LOG`, when it is set, wins over the configured level.
pub fn start(logger: Logger) {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(directives(logger.level)));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_span_events(FmtSpan::NONE)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_target(logger.show_source)
        .with_file(logger.show_source)
        .with_line_number(logger.show_source);
    // A second start in one process, as tests do it, changes nothing.
    let _ = if logger.json { builder.json().try_init() } else { builder.try_init() };
}

/// The older manager's numbers (those of logrus) as levels. Libraries are quiet below debug.
fn directives(level: u8) -> &'static str {
    match level {
        0..=2 => "error",
        3 => "warn",
        4 => {
            "warn,flyte_manager=info,flyte_core=info,flyte_store=info,flyte_kubernetes=info,flyte_embedded=info,flyte_rpc=info"
        }
        5 => {
            "info,flyte_manager=debug,flyte_core=debug,flyte_store=debug,flyte_kubernetes=debug,flyte_embedded=debug,flyte_rpc=debug"
        }
        _ => {
            "debug,flyte_manager=trace,flyte_core=trace,flyte_store=trace,flyte_kubernetes=trace,flyte_embedded=trace,flyte_rpc=trace"
        }
    }
}
