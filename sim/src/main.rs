//! Simulates worlds from the command line.

use clap::Parser;
use sim::{Options, Outcome, run};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Runs the whole manager in simulated worlds and says what must not have been.
#[derive(Debug, Parser)]
#[command(name = "sim")]
struct Cli {
    /// One seed, shown in detail and run twice.
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds to run.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// How many runs each world creates.
    #[arg(long, default_value_t = 20)]
    runs: u64,
    /// Print what happens; RUST_LOG=sim=trace shows every event.
    #[arg(long, short)]
    verbose: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if cli.verbose {
        let filter = tracing_subscriber::EnvFilter::try_from_default_env();
        let filter =
            filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("sim=trace,flyte_kubernetes=debug"));
        tracing_subscriber::fmt().with_env_filter(filter).without_time().with_writer(std::io::stderr).init();
    }
    let world = |seed| run(Options { seed, faults: None, runs: cli.runs });
    if let Some(seed) = cli.seed {
        let outcome = world(seed);
        println!("{outcome:#?}");
        let again = world(seed);
        if again != outcome {
            println!("seed {seed} is not the same in a second run: {:x} and {:x}", outcome.hash, again.hash);
            return ExitCode::FAILURE;
        }
        return if outcome.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let mut bad: Vec<Outcome> = Vec::new();
    let mut fired: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
    let (mut simulated_s, mut requests, mut pods) = (0, 0, 0);
    for seed in cli.from..cli.from + cli.seeds {
        let outcome = world(seed);
        simulated_s += outcome.simulated_s;
        requests += outcome.requests;
        pods += outcome.pods;
        for (what, count) in &outcome.fired {
            let entry = fired.entry(what).or_default();
            entry.0 += count;
            entry.1 += 1;
        }
        if !outcome.violations.is_empty() {
            println!("seed {seed}: {}", outcome.violations.join("\n  "));
            bad.push(outcome);
        }
    }
    println!(
        "{} seeds, {simulated_s} simulated seconds, {requests} events, {pods} Pods, {} seeds with violations",
        cli.seeds,
        bad.len()
    );
    for (what, (count, worlds)) in fired {
        println!("  {what}: {count} times in {worlds} worlds");
    }
    if bad.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
