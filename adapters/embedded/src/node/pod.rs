//! The life of one Pod on this node.

use super::agent::Context;
use super::command::{Mounts, argv, environment};
use super::runtime::{Exit, Process, ProcessSpec, Stop};
use super::status::{PodView, State};
use flyte_core::Timestamp;
use futures::stream::{FuturesUnordered, StreamExt};
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Sleep;

/// The most bytes of a message that a container leaves.
const MESSAGE_MAX_BYTES: usize = 4096;
/// The most bytes of its output that stand for a message it did not leave.
const LOG_MESSAGE_MAX_BYTES: usize = 2048;
/// The first and the longest wait before a container is started anew.
const RESTART_WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// How often and how long apart a status is written before it is given up until the next one.
const STATUS_TRIES: u32 = 5;
const STATUS_WAIT: Duration = Duration::from_millis(200);

/// How long after its start a process may take to listen to being asked to end, and how often it is looked at.
const LISTEN_PATIENCE: Duration = Duration::from_secs(2);
const LISTEN_INTERVAL: Duration = Duration::from_millis(20);

/// When the Pod has to be gone: `None` while it may stay.
pub type Deadline = watch::Receiver<Option<Grace>>;

/// How long a Pod has for its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace(pub Duration);

pub struct PodRun {
    pub context: Arc<Context>,
    pub pod: Pod,
    pub deletion: Deadline,
    pub view: PodView,
    pub dir: PathBuf,
}

/// Why the containers are told to end.
enum Why {
    Deleted,
    TooLong,
}

/// What a container left when it ended.
struct Ended {
    place: Place,
    exit: Exit,
    started: Timestamp,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Init(usize),
    Main(usize),
}

/// A container that runs: its end, and the way to tell it to.
struct Running {
    place: Place,
    stop: watch::Sender<Option<Stop>>,
}

type Ends = FuturesUnordered<futures::future::BoxFuture<'static, Ended>>;

impl PodRun {
    /// Takes the Pod through its life until its object is gone.
    pub async fn run(mut self) {
        let why = self.life().await;
        if let Some(why) = why {
            self.view.reason = match why {
                Why::Deleted => String::new(),
                Why::TooLong => "DeadlineExceeded".into(),
            };
        }
        self.finish();
        self.report().await;
        // The object stays until somebody deletes it; then it only waits for this node's word.
        while self.deletion.borrow_and_update().is_none() {
            if self.deletion.changed().await.is_err() {
                return;
            }
        }
        self.confirm_gone().await;
    }

    /// Runs the containers; why they were told to end, if they were.
    async fn life(&mut self) -> Option<Why> {
        let spec = self.pod.spec.clone().unwrap_or_default();
        let policy = spec.restart_policy.clone().unwrap_or_else(|| "Always".into());
        let mut ends: Ends = FuturesUnordered::new();
        let mut running: Vec<Running> = Vec::new();
        let deadline =
            spec.active_deadline_seconds.and_then(|s| u64::try_from(s).ok()).map(Duration::from_secs);
        let deadline = tokio::time::sleep(deadline.unwrap_or(Duration::from_secs(u64::from(u32::MAX))));
        tokio::pin!(deadline);
        let own_grace = self.own_grace();
        self.report().await;

        for (index, container) in spec.init_containers.iter().flatten().enumerate() {
            let place = Place::Init(index);
            if !self.start(place, container, &mut ends, &mut running) {
                self.view.phase = "Failed";
                self.stop_all(&mut ends, &mut running, Duration::ZERO).await;
                return None;
            }
            self.report().await;
            if is_sidecar(container) {
                continue;
            }
            loop {
                let ended = tokio::select! {
                    biased;
                    (why, grace) = told_to_end(&mut self.deletion, deadline.as_mut(), own_grace) => {
                        self.stop_all(&mut ends, &mut running, grace).await;
                        return Some(why);
                    }
                    Some(ended) = ends.next() => ended,
                };
                let code = ended.exit.code;
                let done = ended.place == place;
                self.note(ended, &mut running);
                if done && code != 0 {
                    self.view.phase = "Failed";
                    self.stop_all(&mut ends, &mut running, Duration::ZERO).await;
                    return None;
                }
                if done {
                    break;
                }
            }
        }
        self.view.initialized = true;
        for (index, container) in spec.containers.iter().enumerate() {
            self.start(Place::Main(index), container, &mut ends, &mut running);
        }
        self.view.phase = "Running";
        let mut waits: BTreeMap<usize, Duration> = BTreeMap::new();
        loop {
            self.report().await;
            if !running.iter().any(|running| matches!(running.place, Place::Main(_))) {
                let again = self.restartable(&policy);
                if again.is_empty() {
                    break;
                }
                let Some(wait) =
                    again.iter().map(|index| waits.get(index).copied().unwrap_or(RESTART_WAIT.0)).min()
                else {
                    break;
                };
                tokio::select! {
                    biased;
                    (why, grace) = told_to_end(&mut self.deletion, deadline.as_mut(), own_grace) => {
                        self.stop_all(&mut ends, &mut running, grace).await;
                        return Some(why);
                    }
                    () = tokio::time::sleep(wait) => {}
                }
                for index in again {
                    waits.insert(index, (wait * 2).min(RESTART_WAIT.1));
                    if let Some(view) = self.view.main.get_mut(index) {
                        view.restarts += 1;
                    }
                    if let Some(container) = spec.containers.get(index) {
                        self.start(Place::Main(index), container, &mut ends, &mut running);
                    }
                }
                continue;
            }
            tokio::select! {
                biased;
                (why, grace) = told_to_end(&mut self.deletion, deadline.as_mut(), own_grace) => {
                    self.stop_all(&mut ends, &mut running, grace).await;
                    return Some(why);
                }
                Some(ended) = ends.next() => self.note(ended, &mut running),
            }
        }
        // Sidecars end after the containers that they serve, and have the Pod's grace for their last work.
        self.stop_all(&mut ends, &mut running, own_grace).await;
        None
    }

    fn own_grace(&self) -> Duration {
        let seconds =
            self.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    }

    /// Containers that the policy wants to be started anew.
    fn restartable(&self, policy: &str) -> Vec<usize> {
        let wanted = |code: i32| match policy {
            "Always" => true,
            "OnFailure" => code != 0,
            _ => false,
        };
        let ended = self.view.main.iter().enumerate();
        ended.filter(|(_, view)| view.state.exit_code().is_some_and(wanted)).map(|(index, _)| index).collect()
    }

    /// Starts a container; `false` when it could not be started.
    fn start(
        &mut self,
        place: Place,
        container: &Container,
        ends: &mut Ends,
        running: &mut Vec<Running>,
    ) -> bool {
        let started = (self.context.now)();
        match self.spawn(container) {
            Ok(process) => {
                let (stop, stopped) = watch::channel(None);
                running.push(Running { place, stop });
                ends.push(Box::pin(until_end(process, stopped, place, started)));
                self.set(place, State::Running { since: started });
                true
            }
            Err(Fault::Config(message)) => {
                // As a kubelet does: it may be mended, so the container waits.
                self.set(place, State::Waiting { reason: "CreateContainerConfigError".into(), message });
                let (stop, mut stopped) = watch::channel(None);
                running.push(Running { place, stop });
                ends.push(Box::pin(async move {
                    while stopped.borrow_and_update().is_none() {
                        if stopped.changed().await.is_err() {
                            break;
                        }
                    }
                    Ended { place, exit: Exit { code: 137, signal: Some(9), out_of_memory: false }, started }
                }));
                true
            }
            Err(Fault::Start(message)) => {
                let exit = Exit { code: 128, signal: None, out_of_memory: false };
                self.set(
                    place,
                    State::Ended { exit, reason: "StartError".into(), message, started, ended: started },
                );
                false
            }
        }
    }

    fn spawn(&self, container: &Container) -> Result<Box<dyn Process>, Fault> {
        let context = &self.context;
        let uid = self.pod.metadata.uid.clone().unwrap_or_default();
        let own = self.dir.join(&container.name);
        let dir = own.join("work");
        let io = |error: std::io::Error| {
            Fault::Start(format!("the directory of the container cannot be made: {error}"))
        };
        std::fs::create_dir_all(&dir).map_err(io)?;
        let log =
            context.logs.open(&uid, &container.name, &own.join("log"), context.now.clone()).map_err(io)?;
        let volumes = self.dir.join("volumes");
        let mounts = Mounts::of(&self.pod, container, &volumes, &self.message_file(&container.name));
        let mounts = mounts.map_err(Fault::Config)?;
        let mut env =
            environment(&self.pod, container, &context.environment, &mounts).map_err(Fault::Config)?;
        env.insert(context.marker.0.clone(), context.marker.1.clone());
        let dir = match container.working_dir.as_deref().map(|dir| (dir, mounts.replace(dir))) {
            Some((asked, real)) if asked != real => PathBuf::from(real),
            // A directory of the image, which is not here.
            _ => dir,
        };
        let argv = argv(container, &env, &mounts, context.own_program.as_deref());
        let memory = container
            .resources
            .as_ref()
            .and_then(|resources| resources.limits.as_ref()?.get("memory").cloned());
        let memory_max_bytes = memory.and_then(|quantity| quantity_bytes(&quantity.0));
        context.runtime.start(ProcessSpec { argv, env, dir, log, memory_max_bytes }).map_err(Fault::Start)
    }

    fn message_file(&self, container: &str) -> PathBuf {
        self.dir.join(container).join("termination-message")
    }

    fn set(&mut self, place: Place, state: State) {
        let view = match place {
            Place::Init(index) => self.view.init.get_mut(index),
            Place::Main(index) => self.view.main.get_mut(index),
        };
        if let Some(view) = view {
            view.state = state;
        }
    }

    /// Takes in that a container has ended.
    fn note(&mut self, ended: Ended, running: &mut Vec<Running>) {
        running.retain(|running| running.place != ended.place);
        let spec = self.pod.spec.clone().unwrap_or_default();
        let container = match ended.place {
            Place::Init(index) => spec.init_containers.iter().flatten().nth(index).cloned(),
            Place::Main(index) => spec.containers.get(index).cloned(),
        };
        let Some(container) = container else { return };
        let reason = match ended.exit {
            Exit { out_of_memory: true, .. } => "OOMKilled",
            Exit { code: 0, .. } => "Completed",
            Exit { .. } => "Error",
        };
        let message = self.message(&container, ended.exit);
        self.set(
            ended.place,
            State::Ended {
                exit: ended.exit,
                reason: reason.into(),
                message,
                started: ended.started,
                ended: (self.context.now)(),
            },
        );
    }

    fn message(&self, container: &Container, exit: Exit) -> String {
        let left = std::fs::read(self.message_file(&container.name)).unwrap_or_default();
        if !left.is_empty() {
            let end = left.len().min(MESSAGE_MAX_BYTES);
            return String::from_utf8_lossy(left.get(..end).unwrap_or_default()).into_owned();
        }
        if exit.code != 0 && container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError")
        {
            let uid = self.pod.metadata.uid.clone().unwrap_or_default();
            return self.context.logs.tail(&uid, &container.name, LOG_MESSAGE_MAX_BYTES);
        }
        String::new()
    }

    /// Asks all containers that run to end, and makes them after the grace.
    async fn stop_all(&mut self, ends: &mut Ends, running: &mut Vec<Running>, grace: Duration) {
        let tell = |running: &[Running], how| {
            for container in running {
                container.stop.send_replace(Some(how));
            }
        };
        tell(running, if grace.is_zero() { Stop::Kill } else { Stop::Ask });
        let over = tokio::time::sleep(grace);
        tokio::pin!(over);
        let mut killed = grace.is_zero();
        while !running.is_empty() {
            tokio::select! {
                biased;
                Some(ended) = ends.next() => self.note(ended, running),
                () = &mut over, if !killed => {
                    killed = true;
                    tell(running, Stop::Kill);
                }
                // A second deletion may leave no time.
                () = no_grace(&mut self.deletion), if !killed => {
                    killed = true;
                    tell(running, Stop::Kill);
                }
            }
        }
    }

    /// The final phase, when the containers have ended.
    fn finish(&mut self) {
        if self.view.phase == "Failed" {
            return;
        }
        let all_well = self.view.initialized
            && self.view.reason.is_empty()
            && self.view.main.iter().all(|view| view.state.exit_code() == Some(0));
        self.view.phase = if all_well { "Succeeded" } else { "Failed" };
    }

    fn api(&self) -> Api<Pod> {
        let namespace = self.pod.metadata.namespace.clone().unwrap_or_default();
        Api::namespaced(self.context.client.clone(), &namespace)
    }

    fn name(&self) -> String {
        self.pod.metadata.name.clone().unwrap_or_default()
    }

    /// Writes the status; what cannot be written now is written with the next one.
    async fn report(&self) {
        let patch = json!({
            "metadata": {"uid": self.pod.metadata.uid},
            "status": self.view.json((self.context.now)()),
        });
        for _ in 0..STATUS_TRIES {
            match self.api().patch_status(&self.name(), &PatchParams::default(), &Patch::Merge(&patch)).await
            {
                Ok(_) => return,
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return,
                Err(error) => {
                    tracing::debug!(%error, pod = %self.name(), "the status of a Pod could not be written");
                    tokio::time::sleep(STATUS_WAIT).await;
                }
            }
        }
    }

    /// Says that nothing of the Pod runs any more, which removes its object.
    async fn confirm_gone(&self) {
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions { uid: self.pod.metadata.uid.clone(), resource_version: None }),
            ..DeleteParams::default()
        };
        for _ in 0..STATUS_TRIES {
            match self.api().delete(&self.name(), &params).await {
                Ok(_) => return,
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return,
                Err(_) => tokio::time::sleep(STATUS_WAIT).await,
            }
        }
    }
}

enum Fault {
    /// What it needs is not there; it waits.
    Config(String),
    /// It cannot be started; it has failed.
    Start(String),
}

fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Returns when the Pod has to be gone at once.
async fn no_grace(deletion: &mut Deadline) {
    loop {
        if deletion.borrow_and_update().is_some_and(|grace| grace.0.is_zero()) {
            return;
        }
        if deletion.changed().await.is_err() {
            return;
        }
    }
}

/// The grace, once the Pod is to be gone. Never `None` when it returns, apart from the end of the node.
async fn deleted(deletion: &mut Deadline) -> Option<Duration> {
    loop {
        if let Some(grace) = *deletion.borrow_and_update() {
            return Some(grace.0);
        }
        if deletion.changed().await.is_err() {
            return Some(Duration::ZERO);
        }
    }
}

/// Returns when the containers have to end, with why and how long they have for it.
async fn told_to_end(
    deletion: &mut Deadline,
    deadline: Pin<&mut Sleep>,
    own_grace: Duration,
) -> (Why, Duration) {
    tokio::select! {
        biased;
        grace = deleted(deletion) => (Why::Deleted, grace.unwrap_or_default()),
        () = deadline => (Why::TooLong, own_grace),
    }
}

async fn until_end(
    mut process: Box<dyn Process>,
    mut stop: watch::Receiver<Option<Stop>>,
    place: Place,
    started: Timestamp,
) -> Ended {
    let began = tokio::time::Instant::now();
    loop {
        tokio::select! {
            biased;
            exit = process.wait() => return Ended { place, exit, started },
            changed = stop.changed() => {
                let how = if changed.is_ok() { *stop.borrow_and_update() } else { Some(Stop::Kill) };
                if how == Some(Stop::Ask) {
                    // A process that was only just started may not listen yet; asking would end it unheard.
                    let patience = tokio::time::sleep_until(began + LISTEN_PATIENCE);
                    tokio::pin!(patience);
                    while !process.listens() && !patience.is_elapsed() && stop.has_changed().is_ok_and(|changed| !changed) {
                        tokio::select! {
                            biased;
                            exit = process.wait() => return Ended { place, exit, started },
                            () = &mut patience => {}
                            () = tokio::time::sleep(LISTEN_INTERVAL) => {}
                        }
                    }
                }
                if let Some(how) = how {
                    process.stop(how);
                }
                if changed.is_err() {
                    let exit = process.wait().await;
                    return Ended { place, exit, started };
                }
            }
        }
    }
}

/// A Kubernetes quantity of memory in bytes.
fn quantity_bytes(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor: f64 = match unit {
        "" => 1.0,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        "Ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * factor;
    (bytes.is_finite() && bytes > 0.0).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_bytes() {
        for (text, bytes) in [
            ("128Mi", Some(134_217_728)),
            ("1G", Some(1_000_000_000)),
            ("5", Some(5)),
            ("x", None),
            ("1Xi", None),
        ] {
            assert_eq!(quantity_bytes(text), bytes);
        }
    }
}
