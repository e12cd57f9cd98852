//! What the binary does.

mod check;
mod copilot;
mod demo;
mod serve;

use crate::cli::{Cli, Command};
use crate::config::Config;
use crate::telemetry;
use clap::CommandFactory;
use flyte_store::{Options as StoreOptions, Store};
use std::io::Write;
use std::process::ExitCode;

/// Does what the command line says. Whatever fails is said in a sentence on standard error.
pub fn run(cli: Cli) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("the runtime cannot be started: {error}")),
    };
    let result = runtime.block_on(command(cli));
    runtime.shutdown_background();
    match result {
        Ok(code) => code,
        Err(message) => fail(&message),
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("flyte-manager: {message}");
    ExitCode::FAILURE
}

async fn command(cli: Cli) -> Result<ExitCode, String> {
    let load = || {
        let config =
            Config::load(cli.config.as_deref(), std::env::vars()).map_err(|error| error.to_string())?;
        telemetry::start(config.logger);
        Ok::<_, String>(config)
    };
    match cli.command {
        None | Some(Command::Run) => serve::run(&load()?).await,
        Some(Command::Check) => check::run(&load()?).await,
        Some(Command::Migrate) => migrate(&load()?).await,
        Some(Command::Demo) => demo::run().await,
        Some(Command::Crd) => {
            let yaml = flyte_kubernetes::crd_yaml().map_err(|error| error.to_string())?;
            print(yaml.as_bytes())
        }
        Some(Command::Completions { shell }) => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "flyte-manager", &mut text);
            print(&text)
        }
        Some(Command::Copilot { way }) => copilot::run(way).await,
    }
}

async fn migrate(config: &Config) -> Result<ExitCode, String> {
    let file = config.database_file.display().to_string();
    let store = Store::open(StoreOptions::file(file.clone())).await.map_err(|error| error.to_string())?;
    store.close().await;
    println!("{file} has schema version {}", flyte_store::SCHEMA_VERSION);
    Ok(ExitCode::SUCCESS)
}

/// Writes to standard output; a reader that has gone away, such as `head`, is no failure.
fn print(bytes: &[u8]) -> Result<ExitCode, String> {
    match std::io::stdout().write_all(bytes) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(format!("cannot write: {error}")),
        _ => Ok(ExitCode::SUCCESS),
    }
}
