use super::*;
use crate::failure::Origin;
use crate::pod::{Condition, Container, ContainerState, Terminated};
use crate::transition::CreateRefusal;
use crate::{NewAction, Policy, RunId, step};
use proptest::prelude::*;
use std::collections::BTreeMap;

const T0: i64 = 1_772_366_400_000;

fn action(policy: Policy) -> Action {
    let new = NewAction {
        id: RunId::new("local", "p", "d", "r").root(),
        parent: None,
        kind: Kind::Task,
        group: String::new(),
        input_uri: "mem://x/i".into(),
        run_output_base: "mem://x/r".into(),
        policy,
        recorded: None,
        request_digest: String::new(),
    };
    Action::admit(new, Timestamp::from_ms(T0))
}

/// How the Pods of a script end, in turn.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Succeeds,
    Fails,
    Evicted,
    /// It is gone without a trace.
    Vanishes,
    /// Its image is never there.
    NoImage,
    /// It never finds a node and is let go when somebody says so.
    Waits,
    /// It goes on until it is told to end.
    RunsOn,
}

/// A cluster that does what it is told, one tick after the other.
struct Cluster {
    now: Timestamp,
    task_action: Option<TaskActionView>,
    pods: BTreeMap<String, (PodView, u32)>,
    fates: Vec<Fate>,
    uids: u32,
    created: Vec<u32>,
    /// Refusals of the next creations.
    refusals: Vec<CreateRefusal>,
}

impl Cluster {
    fn new(fates: Vec<Fate>, refusals: Vec<CreateRefusal>) -> Self {
        Self {
            now: Timestamp::from_ms(T0),
            task_action: None,
            pods: BTreeMap::new(),
            fates,
            uids: 0,
            created: Vec::new(),
            refusals,
        }
    }

    fn view(&self) -> ClusterView {
        ClusterView {
            task_action: self.task_action.clone(),
            pods: self.pods.values().map(|(pod, _)| pod.clone()).collect(),
        }
    }

    fn uid(&mut self) -> String {
        self.uids += 1;
        format!("u{}", self.uids)
    }

    /// Performs a command; the input that it brings, if any.
    fn perform(&mut self, action: &Action, command: Command) -> Option<Input> {
        match command {
            Command::CreateTaskAction => {
                assert!(self.task_action.is_none());
                let uid = self.uid();
                self.task_action = Some(TaskActionView { uid, deleting: false, shown: None });
                None
            }
            Command::CreatePod { attempt, owner_uid } => {
                assert_eq!(self.task_action.as_ref().map(|object| &object.uid), Some(&owner_uid));
                if let Some(refusal) = self.refusals.pop() {
                    return Some(Input::CreateRefused { attempt, refusal });
                }
                let live = |pod: &PodView| pod.observation.deletion_at.is_none();
                assert!(!self.pods.values().any(|(pod, _)| live(pod)), "two live Pods (S3)");
                assert!(!self.created.contains(&attempt), "attempt {attempt} has a second Pod");
                self.created.push(attempt);
                let pod = PodRef { name: format!("p{attempt}"), uid: self.uid() };
                let observation = Observation {
                    phase: "Pending".into(),
                    primary: "primary".into(),
                    primary_in_spec: true,
                    created_at: Some(self.now),
                    ..Observation::default()
                };
                let view = PodView { pod: pod.clone(), attempt, observation };
                self.pods.insert(pod.name.clone(), (view, 0));
                Some(Input::PodCreated { attempt, pod })
            }
            Command::DeletePod(pod) => {
                if let Some((found, _)) = self.pods.get_mut(&pod.name)
                    && found.pod == pod
                {
                    found.observation.deletion_at.get_or_insert(self.now.plus_ms(30_000));
                }
                None
            }
            Command::ConfirmGone { attempt, pod } => {
                assert!(!self.pods.values().any(|(found, _)| found.pod == pod));
                Some(self.concluded(attempt, &vanished("is gone")))
            }
            Command::Conclude { attempt, finish } => Some(self.concluded(attempt, &finish)),
            Command::Apply(input) => Some(input),
            Command::Show(projection) => {
                self.task_action.as_mut().unwrap().shown = Some(projection);
                None
            }
            Command::DeleteTaskAction { uid } => {
                assert!(action.phase.is_terminal());
                assert_eq!(self.task_action.take().map(|object| object.uid), Some(uid));
                None
            }
        }
    }

    fn concluded(&self, attempt: u32, finish: &Finish) -> Input {
        let found = crate::pod::OutputsFound::default();
        let failure = crate::pod::conclude(finish, &found, false).err();
        Input::AttemptEnded {
            attempt,
            started_at: finish.started_at,
            finished_at: finish.finished_at,
            failure,
        }
    }

    /// The kubelet's and the scheduler's work of one tick.
    fn tick(&mut self) {
        let now = self.now;
        self.pods.retain(|_, (pod, _)| pod.observation.deletion_at.is_none_or(|at| at > now));
        let mut gone = Vec::new();
        for (name, (pod, age)) in &mut self.pods {
            *age += 1;
            let fate = self.fates.get(pod.attempt as usize - 1).copied().unwrap_or(Fate::Succeeds);
            let state = |state| vec![Container { name: "primary".into(), state, ..Container::default() }];
            let scheduled =
                |is_true| vec![Condition { kind: "PodScheduled".into(), is_true, ..Condition::default() }];
            let seen = &mut pod.observation;
            seen.conditions = scheduled(!matches!(fate, Fate::Waits));
            match (fate, *age) {
                (Fate::Waits, _) | (_, 0..=1) => {}
                (Fate::NoImage, _) => {
                    seen.containers = state(ContainerState::Waiting {
                        reason: if *age % 2 == 0 { "ErrImagePull" } else { "ImagePullBackOff" }.into(),
                        message: String::new(),
                    });
                }
                (Fate::RunsOn, _) | (_, 2..=3) => {
                    seen.phase = "Running".into();
                    seen.containers = state(ContainerState::Running { started_at: Some(now) });
                }
                (Fate::Vanishes, _) => gone.push(name.clone()),
                (Fate::Evicted, _) => {
                    seen.phase = "Failed".into();
                    seen.reason = "Evicted".into();
                    seen.containers.clear();
                }
                (Fate::Succeeds | Fate::Fails, _) => {
                    let exit_code = i32::from(!matches!(fate, Fate::Succeeds));
                    seen.phase = if exit_code == 0 { "Succeeded" } else { "Failed" }.into();
                    seen.containers =
                        state(ContainerState::Terminated(Terminated { exit_code, ..Terminated::default() }));
                }
            }
        }
        for name in gone {
            self.pods.remove(&name);
        }
    }
}

/// Runs a script until nothing is left to do; the action at its end.
fn run(
    policy: Policy,
    fates: Vec<Fate>,
    refusals: Vec<CreateRefusal>,
    abort_at: Option<u32>,
) -> (Action, Cluster) {
    let settings = Settings { ttl_ms: 60_000, pending_timeout_ms: Some(600_000), ..Settings::default() };
    let mut action = action(policy);
    let mut cluster = Cluster::new(fates, refusals);
    for tick in 0..20_000 {
        if abort_at == Some(tick) {
            let input = Input::Abort { reason: "enough".into(), by: String::new() };
            if let Ok(stepped) = step(&action, &input, cluster.now) {
                action = stepped.action;
            }
        }
        // All that can be done now; more than a few commands in a row would be a loop.
        for round in 0.. {
            assert!(round < 20, "it does not come to rest: {action:?}");
            let planned = plan(&action, &cluster.view(), &settings, cluster.now);
            let Some(command) = planned.command else {
                assert!(!planned.waits_for.is_empty(), "it waits for nothing (L2)");
                break;
            };
            if let Some(input) = cluster.perform(&action, command)
                && let Ok(stepped) = step(&action, &input, cluster.now)
            {
                action = stepped.action;
            }
        }
        if !action.in_cluster {
            return (action, cluster);
        }
        cluster.now = cluster.now.plus_ms(1_000);
        cluster.tick();
    }
    panic!("it does not end: {action:?}");
}

fn policy(user_retries: u32, system_retries: u32) -> Policy {
    Policy {
        user_retries,
        system_retries,
        backoff_base_ms: 1_000,
        backoff_cap_ms: 4_000,
        ..Policy::default()
    }
}

#[test]
fn every_script_ends_as_it_should_and_leaves_nothing() {
    use Fate::*;
    for (user, system, fates, phase, attempts) in [
        (0, 0, vec![Succeeds], Phase::Succeeded, 1),
        (0, 0, vec![Fails], Phase::Failed, 1),
        (2, 0, vec![Fails, Fails, Succeeds], Phase::Succeeded, 3),
        (1, 0, vec![Fails, Fails], Phase::Failed, 2),
        (0, 3, vec![Evicted, Evicted, Evicted, Succeeds], Phase::Succeeded, 4),
        (5, 0, vec![Evicted], Phase::Failed, 1),
        (0, 1, vec![Vanishes, Succeeds], Phase::Succeeded, 2),
        (0, 0, vec![Vanishes], Phase::Failed, 1),
        (1, 0, vec![NoImage, NoImage], Phase::Failed, 2),
        (0, 0, vec![Waits], Phase::TimedOut, 1),
        (1, 1, vec![Fails, Evicted, Fails], Phase::Failed, 3),
    ] {
        let (action, cluster) = run(policy(user, system), fates.clone(), Vec::new(), None);
        assert_eq!((action.phase, action.attempts.len()), (phase, attempts), "{fates:?}");
        assert!(cluster.pods.is_empty() && cluster.task_action.is_none(), "{fates:?}");
    }
}

#[test]
fn an_attempts_own_clock_and_the_deadline_of_all_are_two_clocks() {
    let timed = Policy { attempt_timeout_ms: Some(40_000), deadline_ms: Some(60_000), ..policy(5, 0) };
    let (action, _) = run(timed.clone(), vec![Fate::RunsOn; 6], Vec::new(), None);
    assert_eq!((action.phase, action.attempts.len()), (Phase::TimedOut, 2));
    let (action, _) = run(Policy { deadline_ms: None, ..timed }, vec![Fate::RunsOn; 6], Vec::new(), None);
    assert_eq!((action.phase, action.attempts.len()), (Phase::TimedOut, 6));
}

#[test]
fn an_abort_at_any_moment_ends_with_nothing_left() {
    for tick in 0..12 {
        let (action, cluster) = run(policy(3, 3), vec![Fate::RunsOn], Vec::new(), Some(tick));
        assert_eq!(action.phase, Phase::Aborted, "{tick}");
        assert!(cluster.pods.is_empty(), "{tick}");
    }
}

fn any_fate() -> impl Strategy<Value = Fate> {
    use Fate::*;
    proptest::sample::select(vec![Succeeds, Fails, Evicted, Vanishes, NoImage, Waits, RunsOn])
}

fn any_refusal() -> impl Strategy<Value = CreateRefusal> {
    proptest::sample::select(vec![
        CreateRefusal::Quota("quota".into()),
        CreateRefusal::Denied("denied".into()),
        CreateRefusal::Transient { message: "busy".into(), retry_after_ms: Some(3_000) },
        CreateRefusal::Impossible(Failure::permanent(Origin::User, "Bad", "bad")),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Liveness and S3: whatever Pods do and creations are refused, the action ends, nothing is left in the cluster, and
    /// no two Pods live at once (asserted by the cluster itself).
    #[test]
    fn every_action_ends_and_leaves_nothing(
        user in 0..3_u32,
        system in 0..3_u32,
        fates in proptest::collection::vec(any_fate(), 1..7),
        refusals in proptest::collection::vec(any_refusal(), 0..4),
        abort_at in proptest::option::of(0..400_u32),
    ) {
        let timed = Policy { attempt_timeout_ms: Some(120_000), ..policy(user, system) };
        let (action, cluster) = run(timed, fates, refusals, abort_at);
        prop_assert!(action.phase.is_terminal());
        prop_assert!(cluster.pods.is_empty() && cluster.task_action.is_none());
        prop_assert!(action.attempts.len() as u32 <= user + system + 1);
        prop_assert!(cluster.created.len() <= action.attempts.len());
    }

    /// Whatever is seen, however strange, something is done or waited for, and nothing panics.
    #[test]
    fn any_view_has_a_plan(
        has_task_action in any::<bool>(),
        deleting in any::<bool>(),
        pods in proptest::collection::vec((1..4_u32, any::<bool>(), 0..6_usize), 0..4),
        passed in 0..10_000_000_u64,
    ) {
        let statuses = ["", "Pending", "Running", "Succeeded", "Failed", "Unknown"];
        let view = ClusterView {
            task_action: has_task_action.then(|| TaskActionView { uid: "t".into(), deleting, shown: None }),
            pods: pods
                .into_iter()
                .enumerate()
                .map(|(index, (attempt, deleted, status))| PodView {
                    pod: PodRef { name: format!("p{attempt}"), uid: format!("u{index}") },
                    attempt,
                    observation: Observation {
                        phase: statuses[status].into(),
                        primary: "primary".into(),
                        primary_in_spec: true,
                        deletion_at: deleted.then(|| Timestamp::from_ms(T0)),
                        ..Observation::default()
                    },
                })
                .collect(),
        };
        let now = Timestamp::from_ms(T0).plus_ms(passed);
        let planned = plan(&action(policy(1, 1)), &view, &Settings::default(), now);
        prop_assert!(planned.command.is_some() || !planned.waits_for.is_empty());
    }
}
