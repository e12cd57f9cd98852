//! Tests what a start would need, one line for each.

use crate::cluster::{Choice, choose};
use crate::config::Config;
use crate::serve;
use flyte_objects::Objects;
use flyte_store::{Options as StoreOptions, Store};
use kube::Client;
use std::process::ExitCode;
use std::time::Duration;

/// How long a cluster may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Checks all and says what is wrong; the exit code is 1 when anything is.
pub async fn run(config: &Config) -> Result<ExitCode, String> {
    let mut wrong = 0;
    let mut say = |what: &str, result: Result<String, String>| match result {
        Ok(text) => println!("ok     {what}: {text}"),
        Err(text) => {
            wrong += 1;
            println!("WRONG  {what}: {text}");
        }
    };
    for warning in &config.warnings {
        println!("note   configuration: {warning}");
    }
    say("configuration", Ok("every key is known".into()));
    say("database", database(config).await);
    say(
        "storage",
        Objects::directory(&config.storage_dir)
            .map(|objects| format!("objects are kept under {}", objects.base_uri()))
            .map_err(|error| format!("{error}; set storage.dir")),
    );
    let choice = choose(&config.kubernetes).await.map_err(|error| error.to_string());
    let loopback_only = matches!(choice, Ok(Choice::Embedded { .. })) && !config.kubernetes.allow_remote;
    say("cluster", cluster(choice).await);
    for (what, listen) in
        [("runs service", &config.runs), ("queue service", &config.queue), ("health", &config.health)]
    {
        say(
            what,
            serve::listen(listen, loopback_only).map(|listener| format!("{} is free", listener.address)),
        );
    }
    if wrong == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    println!("{wrong} of these would keep flyte-manager from starting");
    Ok(ExitCode::FAILURE)
}

async fn database(config: &Config) -> Result<String, String> {
    let file = config.database_file.display().to_string();
    if !config.database_file.exists() {
        let dir = config.database_file.parent().filter(|dir| !dir.as_os_str().is_empty());
        return match dir.filter(|dir| !dir.is_dir()) {
            None => Ok(format!("{file} is not there yet and will be made")),
            Some(dir) => Err(format!(
                "the directory {} of {file} is not there; make it or set database.sqlite.file",
                dir.display()
            )),
        };
    }
    let store = Store::open(StoreOptions::file(file.clone())).await.map_err(|error| error.to_string())?;
    let probe = store.probe().await.map_err(|error| error.to_string());
    store.close().await;
    probe.map(|()| format!("{file} has schema version {}", flyte_store::SCHEMA_VERSION))
}

async fn cluster(choice: Result<Choice, String>) -> Result<String, String> {
    match choice? {
        Choice::Embedded { why } => Ok(format!("the embedded cluster, because {why}")),
        Choice::Cluster { config, why } => {
            let url = config.cluster_url.to_string();
            let client = Client::try_from(*config).map_err(|error| error.to_string())?;
            match tokio::time::timeout(PATIENCE, client.apiserver_version()).await {
                Ok(Ok(version)) => {
                    Ok(format!("{url} answers with version {}, because {why}", version.git_version))
                }
                Ok(Err(error)) => Err(format!("{url} does not answer: {error}")),
                Err(_) => Err(format!("{url} does not answer in time")),
            }
        }
    }
}
