//! The command line.

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use std::path::PathBuf;

/// Runs Flyte 2: stores runs, queues their actions in Kubernetes and tells watchers what happens.
#[derive(Debug, Parser)]
#[command(name = "flyte-manager", version, about, long_about = None)]
pub struct Cli {
    /// The configuration file; config.yaml of the working directory when it is there.
    #[arg(long, short, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What to do; without a command the manager runs.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the manager (also without a command).
    Run,
    /// Read the configuration and test database, storage, cluster and ports; says what is wrong.
    Check,
    /// Bring the database's schema up to date and end.
    Migrate,
    /// Print the definition of the TaskAction resource, for kubectl apply -f -.
    Crd,
    /// Run one task on an embedded cluster in a temporary directory and show what happens.
    Demo,
    /// Print the shell's completions.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Move inputs and outputs of raw containers; run inside their Pods.
    #[command(hide = true)]
    Copilot {
        /// Which way.
        #[command(subcommand)]
        way: Copilot,
    },
}

/// Which way the copilot moves files.
#[derive(Debug, Subcommand)]
pub enum Copilot {
    /// Write each input as a file.
    Download {
        /// The URI of inputs.pb.
        #[arg(long)]
        inputs_uri: String,
        /// The directory to write to.
        #[arg(long)]
        dir: PathBuf,
        /// The form of the file with all inputs: JSON, YAML or PROTO.
        #[arg(long, default_value = "JSON")]
        format: String,
    },
    /// Wait for the end of the task, then make outputs.pb of the files that it left.
    Upload {
        /// The directory to read.
        #[arg(long)]
        dir: PathBuf,
        /// The URI that outputs.pb goes under.
        #[arg(long)]
        outputs_prefix: String,
        /// The task's interface: flyteidl2.core.TypedInterface in base 64.
        #[arg(long)]
        interface: String,
        /// The form of the files.
        #[arg(long, default_value = "JSON")]
        format: String,
    },
}
