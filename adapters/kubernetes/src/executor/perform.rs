//! Commands, performed. Each can be done again without harm: objects are found by name and owner, deletions name a uid.

use super::Options;
use crate::labels::{ACTION_HASH, ATTEMPT};
use crate::pod_spec::{self, Recipe};
use crate::refusal::{self, is_already_exists, is_conflict, is_not_found, is_too_large};
use crate::settings::Settings;
use crate::task_action::TaskActionStatus;
use crate::{TaskAction, logs, outputs, project};
use flyte_core::plan::{self, Command};
use flyte_core::pod::{Finish, PodRef, conclude};
use flyte_core::transition::CreateRefusal;
use flyte_core::{ActionId, Failure, Input, Origin, Timestamp, naming};
use flyte_objects::Objects;
use flyte_proto::task;
use flyte_store::{ActionRow, ApplyError, Store};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::{Api, Client, ResourceExt};
use prost::Message;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How long a request to the cluster may take; what it did is found out by doing it again.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How often the log of a Pod is tried to be archived before the Pod is deleted without.
const ARCHIVE_TRIES: u32 = 3;
/// The largest inputs document that is read for a template.
const INPUTS_MAX_BYTES: u64 = 10 * 1024 * 1024;
/// How many transitions are read for a status.
const TRANSITIONS_MAX: usize = 1_000;

/// What a command brought.
pub struct Done {
    /// The action.
    pub hash: String,
    /// What was learnt.
    pub news: Vec<News>,
    /// Why it has to be tried again later.
    pub result: Result<(), String>,
}

/// Something that was learnt.
pub enum News {
    /// The action's newest row.
    Row(Arc<ActionRow>),
    /// A TaskAction as the cluster has it.
    TaskAction(Box<TaskAction>),
    /// There is no TaskAction of this uid.
    TaskActionGone(String),
    /// The TaskAction is on its way out.
    TaskActionDeleting,
    /// A Pod as the cluster has it.
    Pod(Box<Pod>),
    /// There is no such Pod.
    PodGone(PodRef),
    /// The Pod is on its way out.
    PodDeleting(PodRef, Timestamp),
    /// The log of this attempt is archived, or cannot be.
    Archived(u32),
}

/// Performs commands.
#[derive(Clone)]
pub struct Performer {
    inner: Arc<Options>,
}

impl Performer {
    pub fn new(options: Options) -> Self {
        Self { inner: Arc::new(options) }
    }

    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    pub fn namespace(&self) -> &str {
        &self.inner.namespace
    }

    /// Performs a command for an action.
    pub fn perform(
        &self,
        hash: String,
        row: Arc<ActionRow>,
        command: Command,
        archived: BTreeSet<u32>,
    ) -> impl Future<Output = Done> + Send + use<> {
        let work = Work { options: self.inner.clone(), row, archived, news: Vec::new() };
        async move { work.run(hash, command).await }
    }
}

struct Work {
    options: Arc<Options>,
    row: Arc<ActionRow>,
    archived: BTreeSet<u32>,
    news: Vec<News>,
}

type Outcome = Result<(), String>;

impl Work {
    async fn run(mut self, hash: String, command: Command) -> Done {
        let result = match tokio::time::timeout(REQUEST_TIMEOUT, self.command(command)).await {
            Ok(result) => result,
            Err(_) => Err("the cluster or the storage did not answer in time".into()),
        };
        Done { hash, news: self.news, result }
    }

    async fn command(&mut self, command: Command) -> Outcome {
        match command {
            Command::CreateTaskAction => self.create_task_action().await,
            Command::CreatePod { attempt, owner_uid } => self.create_pod(attempt, &owner_uid).await,
            Command::DeletePod(pod) => self.delete_pod(pod).await,
            Command::ConfirmGone { attempt, pod } => self.confirm_gone(attempt, pod).await,
            Command::Conclude { attempt, finish } => self.conclude(attempt, finish).await,
            Command::Apply(input) => self.apply(input).await,
            Command::Show(_) => self.show().await,
            Command::DeleteTaskAction { uid } => self.delete_task_action(uid).await,
        }
    }

    fn id(&self) -> &ActionId {
        &self.row.action.id
    }

    fn task_actions(&self) -> Api<TaskAction> {
        Api::namespaced(self.options.client.clone(), &self.options.namespace)
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.options.client.clone(), &self.options.namespace)
    }

    /// Hands an input to the action. One that it does not take is no trouble: the next plan sees why.
    async fn apply(&mut self, input: Input) -> Outcome {
        match self.options.store.apply(self.id(), input).await {
            Ok(row) | Err(ApplyError::Refused(_, row)) => {
                self.news.push(News::Row(row));
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    async fn refused(&mut self, refusal: CreateRefusal) -> Outcome {
        let said = match &refusal {
            CreateRefusal::Quota(message) | CreateRefusal::Denied(message) => message.clone(),
            CreateRefusal::Transient { message, .. } => message.clone(),
            CreateRefusal::Impossible(failure) => failure.message.clone(),
        };
        let attempt = self.row.action.attempt();
        if attempt.pod.is_some() {
            // The Pod is there and only its TaskAction is missing; the attempt does not suffer from that.
            return Err(said);
        }
        self.apply(Input::CreateRefused { attempt: attempt.number, refusal }).await
    }

    async fn create_task_action(&mut self) -> Outcome {
        let object = project::task_action(&self.row, &self.options.namespace);
        match self.task_actions().create(&PostParams::default(), &object).await {
            Ok(object) => {
                self.news.push(News::TaskAction(Box::new(object)));
                Ok(())
            }
            Err(error) if is_already_exists(&error) => self.adopt_task_action().await,
            Err(error) => self.refused(refusal::of(&error)).await,
        }
    }

    /// One of that name is there: ours from an earlier try, or somebody else's.
    async fn adopt_task_action(&mut self) -> Outcome {
        let name = naming::task_action_name(self.id());
        match self.task_actions().get_opt(&name).await {
            Ok(Some(object))
                if object.labels().get(ACTION_HASH) == Some(&naming::identity_hash(self.id())) =>
            {
                self.news.push(News::TaskAction(Box::new(object)));
                Ok(())
            }
            Ok(Some(_)) => {
                let message = format!("A TaskAction named {name} that is not ours is in the way; delete it");
                self.refused(CreateRefusal::Transient { message, retry_after_ms: None }).await
            }
            Ok(None) => Err("the TaskAction that was in the way is gone".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn create_pod(&mut self, attempt: u32, owner_uid: &str) -> Outcome {
        let pod = match self.pod(attempt, owner_uid).await? {
            Ok(pod) => pod,
            Err(failure) => return self.refused(CreateRefusal::Impossible(failure)).await,
        };
        match self.pods().create(&PostParams::default(), &pod).await {
            Ok(object) => {
                let reference = PodRef { name: object.name_any(), uid: object.uid().unwrap_or_default() };
                self.news.push(News::Pod(Box::new(object)));
                self.apply(Input::PodCreated { attempt, pod: reference }).await
            }
            Err(error) if is_already_exists(&error) => self.adopt_pod(attempt).await,
            Err(error) => self.refused(refusal::of(&error)).await,
        }
    }

    async fn adopt_pod(&mut self, attempt: u32) -> Outcome {
        let name = naming::pod_name(self.id(), attempt);
        match self.pods().get_opt(&name).await {
            Ok(Some(object))
                if object.labels().get(ACTION_HASH) == Some(&naming::identity_hash(self.id()))
                    && object.labels().get(ATTEMPT) == Some(&attempt.to_string()) =>
            {
                // The next plan sees it and takes it, or waits until it is gone.
                self.news.push(News::Pod(Box::new(object)));
                Ok(())
            }
            Ok(Some(_)) => {
                let message = format!("A Pod named {name} that is not ours is in the way; delete it");
                self.refused(CreateRefusal::Transient { message, retry_after_ms: None }).await
            }
            Ok(None) => Err("the Pod that was in the way is gone".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The Pod of an attempt, or the user's failure when the specification makes none.
    async fn pod(&self, attempt: u32, owner_uid: &str) -> Result<Result<Pod, Failure>, String> {
        let store = &self.options.store;
        let spec = store.spec(&self.row.spec_digest).await.map_err(|error| error.to_string())?;
        let run = store.run(&self.id().run).await.map_err(|error| error.to_string())?;
        let unreadable = |what: &str, error: &dyn std::fmt::Display| {
            Failure::permanent(Origin::User, "SpecUnreadable", format!("The {what} cannot be read: {error}"))
        };
        let spec = match task::TaskSpec::decode(spec.as_ref().map_or(&[][..], |spec| spec.bytes.as_ref())) {
            Ok(spec) => spec,
            Err(error) => return Ok(Err(unreadable("task", &error))),
        };
        let run_spec = match task::RunSpec::decode(run.as_ref().map_or(&[][..], |run| run.run_spec.as_ref()))
        {
            Ok(run_spec) => run_spec,
            Err(error) => return Ok(Err(unreadable("run's specification", &error))),
        };
        let mut inputs = std::collections::BTreeMap::new();
        if pod_spec::needs_inputs(&spec) {
            let uri = &self.row.action.input_uri;
            let read = self.options.objects.get(uri, INPUTS_MAX_BYTES).await;
            let bytes = match read {
                Ok(Some(bytes)) => bytes,
                Ok(None) => {
                    return Ok(Err(unreadable("task's inputs", &format!("there is no object '{uri}'"))));
                }
                Err(flyte_objects::ObjectError::Failed { reason, .. }) => return Err(reason),
                Err(error) => return Ok(Err(unreadable("task's inputs", &error))),
            };
            match task::Inputs::decode(bytes) {
                Ok(read) => inputs = pod_spec::texts(&read),
                Err(error) => return Ok(Err(unreadable("task's inputs", &error))),
            }
        }
        Ok(pod_spec::build(&Recipe {
            row: &self.row,
            spec: &spec,
            run_spec: &run_spec,
            attempt,
            owner_uid,
            inputs,
            namespace: &self.options.namespace,
            settings: &self.options.settings,
        }))
    }

    async fn delete_pod(&mut self, pod: PodRef) -> Outcome {
        let attempt = pod.name.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        if attempt > 0 && !self.archived.contains(&attempt) {
            self.archive(&pod, attempt).await;
        }
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(pod.uid.clone()), resource_version: None }),
            ..DeleteParams::default()
        };
        match self.pods().delete(&pod.name, &params).await {
            Ok(_) => {
                let now = self.options.store.clock().now();
                self.news.push(News::PodDeleting(pod, now));
                Ok(())
            }
            // Another Pod of that name is not the one that was meant, which is gone.
            Err(error) if is_not_found(&error) || is_conflict(&error) => {
                self.news.push(News::PodGone(pod));
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Keeps the log before its Pod is deleted; a log that cannot be kept does not keep the Pod.
    async fn archive(&mut self, pod: &PodRef, attempt: u32) {
        let uri = format!("{}/logs.txt", self.row.action.output_prefix(attempt));
        let Options { client, namespace, objects, .. } = self.options.as_ref();
        let objects: &Objects = objects;
        for tries in 0..ARCHIVE_TRIES {
            match logs::archive(client, namespace, &pod.name, objects, &uri).await {
                Ok(()) => break,
                Err(reason) => {
                    tracing::warn!(%reason, pod = %pod.name, tries, "the log of a Pod could not be archived");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
        self.news.push(News::Archived(attempt));
    }

    async fn confirm_gone(&mut self, attempt: u32, pod: PodRef) -> Outcome {
        match self.pods().get_opt(&pod.name).await {
            Ok(Some(object)) if object.uid().as_deref() == Some(pod.uid.as_str()) => {
                self.news.push(News::Pod(Box::new(object)));
                Ok(())
            }
            Ok(_) => {
                self.news.push(News::PodGone(pod));
                self.conclude(attempt, plan::vanished("is gone")).await
            }
            Err(error) => Err(error.to_string()),
        }
    }

    async fn conclude(&mut self, attempt: u32, finish: Finish) -> Outcome {
        let action = &self.row.action;
        let prefix = action.output_prefix(attempt);
        let found = outputs::find(&self.options.objects, &prefix).await.map_err(|error| error.to_string())?;
        let failure = conclude(&finish, &found, action.policy.outputs_needed).err();
        self.apply(Input::AttemptEnded {
            attempt,
            started_at: finish.started_at,
            finished_at: finish.finished_at,
            failure,
        })
        .await
    }

    async fn show(&mut self) -> Outcome {
        let transitions = self
            .options
            .store
            .transitions(self.id(), 0, TRANSITIONS_MAX)
            .await
            .map_err(|error| error.to_string())?;
        let status = project::status(&self.row, &transitions, None);
        match self.patch_status(&status).await {
            Err(error) if is_too_large(&error) => match self.patch_status(&status.trimmed()).await {
                Err(error) => self.not_shown(&error),
                Ok(object) => {
                    self.news.push(News::TaskAction(Box::new(object)));
                    Ok(())
                }
            },
            Err(error) => self.not_shown(&error),
            Ok(object) => {
                self.news.push(News::TaskAction(Box::new(object)));
                Ok(())
            }
        }
    }

    fn not_shown(&mut self, error: &kube::Error) -> Outcome {
        // A TaskAction that is gone is made again by the next plan once the watch tells.
        if is_not_found(error) {
            return Err("the TaskAction is gone".into());
        }
        Err(error.to_string())
    }

    async fn patch_status(&self, status: &TaskActionStatus) -> Result<TaskAction, kube::Error> {
        let name = naming::task_action_name(self.id());
        let mut value = serde_json::to_value(status).map_err(kube::Error::SerdeError)?;
        if let Some(fields) = value.as_object_mut() {
            // A merge keeps what it does not name: what no longer holds has to be taken out.
            for field in ["errorState", "stateJson", "phaseHistory"] {
                fields.entry(field).or_insert(serde_json::Value::Null);
            }
        }
        let patch = json!({"status": value});
        self.task_actions().patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch)).await
    }

    async fn delete_task_action(&mut self, uid: String) -> Outcome {
        let name = naming::task_action_name(self.id());
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(uid.clone()), resource_version: None }),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        match self.task_actions().delete(&name, &params).await {
            Ok(either) => {
                match either.left() {
                    // It stays until others have taken their finalizers off.
                    Some(object) if object.metadata.deletion_timestamp.is_some() => {
                        self.news.push(News::TaskActionDeleting);
                    }
                    _ => self.news.push(News::TaskActionGone(uid)),
                }
                Ok(())
            }
            Err(error) if is_not_found(&error) || is_conflict(&error) => {
                self.news.push(News::TaskActionGone(uid));
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        }
    }
}
