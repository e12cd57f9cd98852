//! The `flyte-manager` binary.

use clap::Parser;
use flyte_manager::cli::Cli;
use std::process::ExitCode;

fn main() -> ExitCode {
    flyte_manager::commands::run(Cli::parse())
}
