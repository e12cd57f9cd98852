//! One task from request to end, on an embedded cluster of its own, shown as it happens.

use crate::config::Config;
use crate::runtime::Manager;
use flyte_core::{Phase, Timestamp};
use flyte_proto::dataproxy::data_proxy_service_client::DataProxyServiceClient;
use flyte_proto::workflow::run_service_client::RunServiceClient;
use flyte_proto::{Raw, common, core as c, dataproxy as d, task, workflow as w};
use flyte_store::{Options as StoreOptions, Store};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};

/// How long the whole run may take on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// What the task is given, and what it has to make of it.
const NAME: &str = "Flyte";
const GREETING: &str = "Hello, Flyte!";

/// Runs it all; the exit code is 0 only when the run has succeeded with the right output and log.
pub async fn run() -> Result<ExitCode, String> {
    let dir = tempfile::tempdir().map_err(|error| format!("no temporary directory can be made: {error}"))?;
    let config = config(dir.path())?;
    println!("Starting flyte-manager with its embedded cluster in {}", dir.path().display());
    let manager = Manager::start(&config).await?;
    println!("It listens on {}; kubectl can look with", manager.runs_address);
    if let Some(kubeconfig) = &manager.kubeconfig {
        println!("  kubectl --kubeconfig {} get taskactions,pods", kubeconfig.display());
    }
    let endpoint = format!("http://{}", manager.runs_address);
    let shown = tokio::time::timeout(PATIENCE, show(&endpoint)).await;
    manager.stop().await;
    shown.map_err(|_| format!("the run did not end within {} s", PATIENCE.as_secs()))??;
    rows(&config).await?;
    println!("\nThe demo has succeeded.");
    Ok(ExitCode::SUCCESS)
}

fn config(dir: &Path) -> Result<Config, String> {
    let at = |name: &str| dir.join(name).display().to_string();
    let text = format!(
        "manager:\n  runsService: {{host: 127.0.0.1, port: 0}}\n  queueService: {{host: 127.0.0.1, port: 0}}\n  \
         executor: {{healthProbePort: 0}}\n  kubernetes: {{mode: embedded}}\ndatabase: {{sqlite: {{file: \"{}\"}}}}\n\
         storage: {{dir: \"{}\"}}\nlogger: {{level: 3}}\n",
        at("flyte.db"),
        at("data")
    );
    let config = Config::parse(&text, [])?;
    crate::telemetry::start(config.logger);
    Ok(config)
}

/// Creates the run, follows it to its end, and shows what it left.
async fn show(endpoint: &str) -> Result<(), String> {
    let channel = Endpoint::from_shared(endpoint.to_string())
        .map_err(|error| error.to_string())?
        .connect()
        .await
        .map_err(|error| format!("cannot connect to {endpoint}: {error}"))?;
    let mut runs = RunServiceClient::new(channel.clone());
    let said = |status: tonic::Status| format!("{}: {}", status.code(), status.message());
    let created = runs.create_run(request()).await.map_err(said)?.into_inner();
    let id = created
        .run
        .and_then(|run| run.action)
        .and_then(|action| action.id)
        .ok_or("the run has no identity")?;
    let run = id.run.clone().unwrap_or_default();
    println!("\nCreated run {} (a shell task with the input name = {NAME:?})\n", run.name);
    let phase = follow(&mut runs, &id).await?;
    if phase != Phase::Succeeded {
        return Err(format!("the run ended as {phase}"));
    }
    let greeting = output(channel.clone(), &id).await?;
    println!("\nOutput\n  greeting = {greeting:?}");
    if greeting != GREETING {
        return Err(format!("the output is {greeting:?}, not {GREETING:?}"));
    }
    let log = log(channel, &id).await?;
    println!("\nLog");
    log.lines().for_each(|line| println!("  {line}"));
    if !log.contains(&format!("greeting {NAME}")) {
        return Err("the log does not hold what the task has printed".into());
    }
    Ok(())
}

/// Prints each transition as it arrives; answers the last phase.
async fn follow(
    runs: &mut RunServiceClient<Channel>,
    id: &common::ActionIdentifier,
) -> Result<Phase, String> {
    let said = |status: tonic::Status| format!("{}: {}", status.code(), status.message());
    let request = w::WatchActionDetailsRequest { action_id: Some(id.clone()) };
    let mut stream = runs.watch_action_details(request).await.map_err(said)?.into_inner();
    let (mut printed, mut last) = (0, Phase::Queued);
    while let Some(message) = stream.message().await.map_err(said)? {
        let details = message.details.unwrap_or_default();
        let transitions: Vec<(u32, &w::PhaseTransition)> = details
            .attempts
            .iter()
            .flat_map(|attempt| attempt.phase_transitions.iter().map(move |found| (attempt.attempt, found)))
            .collect();
        for (attempt, transition) in transitions.iter().skip(printed) {
            let time = transition.start_time.unwrap_or_default();
            let at = Timestamp::from_ms(time.seconds * 1_000 + i64::from(time.nanos) / 1_000_000);
            last = Phase::from_number(transition.phase).unwrap_or(last);
            println!("  {at}  attempt {attempt}  {last}");
        }
        printed = printed.max(transitions.len());
        if let Some(w::action_details::Result::ErrorInfo(error)) = details.result {
            println!("  {}: {}", error.code, error.message);
        }
    }
    Ok(last)
}

async fn output(channel: Channel, id: &common::ActionIdentifier) -> Result<String, String> {
    let request = d::GetActionDataRequest { action_id: Some(id.clone()), run_source: 0 };
    let data = DataProxyServiceClient::new(channel).get_action_data(request).await;
    let data = data.map_err(|status| status.message().to_string())?.into_inner();
    let outputs = data.outputs.unwrap_or_default().decode().map_err(|error| error.to_string())?;
    let literal =
        outputs.literals.into_iter().find(|literal| literal.name == "greeting").and_then(|found| found.value);
    if let Some(c::literal::Value::Scalar(scalar)) = literal.and_then(|literal| literal.value)
        && let Some(c::scalar::Value::Primitive(primitive)) = scalar.value
        && let Some(c::primitive::Value::StringValue(text)) = primitive.value
    {
        return Ok(text);
    }
    Err("the run has no output 'greeting'".into())
}

async fn log(channel: Channel, id: &common::ActionIdentifier) -> Result<String, String> {
    let said = |status: tonic::Status| status.message().to_string();
    let request =
        d::TailLogsRequest { action_id: Some(id.clone()), attempt: 1, ..d::TailLogsRequest::default() };
    let mut stream =
        DataProxyServiceClient::new(channel).tail_logs(request).await.map_err(said)?.into_inner();
    let mut text = String::new();
    while let Some(message) = stream.message().await.map_err(said)? {
        text.extend(message.logs.into_iter().flat_map(|logs| logs.lines).map(|line| line.message));
    }
    Ok(text)
}

/// Shows what the database has kept.
async fn rows(config: &Config) -> Result<(), String> {
    let file = config.database_file.display().to_string();
    let store = Store::open(StoreOptions::file(file)).await.map_err(|error| error.to_string())?;
    for sql in [
        "SELECT name, project, domain, phase, created_at, ended_at FROM runs",
        "SELECT name, phase, state FROM actions",
        "SELECT attempt, phase, at FROM transitions ORDER BY id",
    ] {
        println!("\nsqlite> {sql};");
        let rows = store.select(sql).await.map_err(|error| error.to_string())?;
        if rows.is_empty() {
            return Err(format!("the database has no rows for: {sql}"));
        }
        rows.iter().for_each(|row| println!("  {}", row.join("|")));
    }
    store.close().await;
    Ok(())
}

/// A raw container task as the SDK's ContainerTask makes it: a shell that reads an input and leaves a file.
fn request() -> w::CreateRunRequest {
    let text = || c::LiteralType {
        r#type: Some(c::literal_type::Type::Simple(c::SimpleType::String.into())),
        ..c::LiteralType::default()
    };
    let variable = |name: &str| c::VariableMap {
        variables: vec![c::VariableEntry {
            key: name.into(),
            value: Some(c::Variable { r#type: Some(text()), ..c::Variable::default() }),
        }],
    };
    let script = "echo \"greeting {{.inputs.name}} from $(uname -s)\"; sleep 1; \
                  printf 'Hello, %s!' '{{.inputs.name}}' > /var/outputs/greeting";
    let template = c::TaskTemplate {
        id: Some(c::Identifier {
            resource_type: c::ResourceType::Task.into(),
            project: "flytesnacks".into(),
            domain: "development".into(),
            name: "demo.greet".into(),
            version: "v1".into(),
            org: String::new(),
        }),
        r#type: "raw-container".into(),
        interface: Some(c::TypedInterface {
            inputs: Some(variable("name")),
            outputs: Some(variable("greeting")),
        }),
        target: Some(c::task_template::Target::Container(c::Container {
            image: "busybox".into(),
            args: ["/bin/sh", "-c", script].map(str::to_string).to_vec(),
            data_config: Some(c::DataLoadingConfig {
                enabled: true,
                input_path: "/var/inputs".into(),
                output_path: "/var/outputs".into(),
                ..c::DataLoadingConfig::default()
            }),
            ..c::Container::default()
        })),
        ..c::TaskTemplate::default()
    };
    let spec = task::TaskSpec {
        task_template: Some(template),
        short_name: "greet".into(),
        ..task::TaskSpec::default()
    };
    let value = c::Literal {
        value: Some(c::literal::Value::Scalar(Box::new(c::Scalar {
            value: Some(c::scalar::Value::Primitive(c::Primitive {
                value: Some(c::primitive::Value::StringValue(NAME.into())),
            })),
        }))),
        ..c::Literal::default()
    };
    let inputs = task::Inputs {
        literals: vec![task::NamedLiteral { name: "name".into(), value: Some(value) }],
        ..task::Inputs::default()
    };
    w::CreateRunRequest {
        id: Some(w::create_run_request::Id::ProjectId(common::ProjectIdentifier {
            organization: String::new(),
            domain: "development".into(),
            name: "flytesnacks".into(),
        })),
        task: Some(w::create_run_request::Task::TaskSpec(Raw::from(spec))),
        input_wrapper: Some(w::create_run_request::InputWrapper::Inputs(Raw::from(inputs))),
        run_spec: Some(Raw::from(task::RunSpec::default())),
        source: w::RunSource::Cli.into(),
        run_start_time: None,
    }
}
