use super::*;
use crate::pod::PodRef;
use crate::{ActionId, NewAction, Policy, RunId};
use proptest::prelude::*;

const T0: i64 = 1_772_366_400_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_ms(T0 + 1_000 * second)
}

fn action(kind: Kind, policy: Policy) -> Action {
    let new = NewAction {
        id: ActionId { run: RunId::new("local", "p", "d", "r"), name: "a0".into() },
        parent: None,
        kind,
        group: String::new(),
        input_uri: "mem://x/i".into(),
        run_output_base: "mem://x/r".into(),
        policy,
        recorded: None,
        request_digest: String::new(),
    };
    Action::admit(new, at(0))
}

fn task(user_retries: u32, system_retries: u32) -> Action {
    action(Kind::Task, Policy { user_retries, system_retries, ..Policy::default() })
}

fn uid(attempt: u32) -> String {
    format!("u{attempt}")
}

fn created(attempt: u32) -> Input {
    Input::PodCreated { attempt, pod: PodRef { name: format!("p{attempt}"), uid: uid(attempt) } }
}

fn progressed(attempt: u32, phase: Phase) -> Input {
    let progress = Progress { phase, message: String::new(), running_at: None };
    Input::Progressed { attempt, pod_uid: uid(attempt), progress }
}

fn stuck(attempt: u32) -> Input {
    Input::Stuck { attempt, pod_uid: uid(attempt), phase: Phase::Initializing, message: "no image".into() }
}

fn ended(attempt: u32, failure: Option<Failure>) -> Input {
    Input::AttemptEnded { attempt, started_at: None, finished_at: None, failure }
}

fn failure(origin: Origin) -> Failure {
    Failure::retryable(origin, "Code", "message")
}

fn abort() -> Input {
    Input::Abort { reason: "enough".into(), by: "me".into() }
}

fn refused(refusal: CreateRefusal) -> Input {
    Input::CreateRefused { attempt: 1, refusal }
}

/// Applies inputs, one a second; refused ones change nothing.
fn after(mut action: Action, inputs: &[Input]) -> Action {
    for (index, input) in inputs.iter().enumerate() {
        if let Ok(stepped) = step(&action, input, at(index as i64 + 1)) {
            action = stepped.action;
        }
    }
    action
}

fn phases(action: &Action, inputs: &[Input]) -> Vec<(u32, Phase)> {
    let mut action = action.clone();
    let mut all = Vec::new();
    for (index, input) in inputs.iter().enumerate() {
        let stepped = step(&action, input, at(index as i64 + 1)).unwrap();
        all.extend(stepped.transitions.iter().map(|transition| (transition.attempt, transition.phase)));
        action = stepped.action;
    }
    all
}

#[test]
fn an_attempt_goes_through_its_phases_and_those_that_were_not_seen() {
    use Phase::*;
    assert_eq!(
        phases(
            &task(0, 0),
            &[created(1), progressed(1, Initializing), progressed(1, Running), ended(1, None)]
        ),
        [(1, Initializing), (1, Running), (1, Succeeded)]
    );
    assert_eq!(phases(&task(0, 0), &[created(1), progressed(1, Running)]), [(1, Initializing), (1, Running)]);
    assert_eq!(
        phases(&task(0, 0), &[created(1), ended(1, None)]),
        [(1, Initializing), (1, Running), (1, Succeeded)]
    );
    assert_eq!(phases(&task(0, 0), &[created(1), ended(1, Some(failure(Origin::User)))]), [(1, Failed)]);
    assert_eq!(
        phases(
            &task(1, 0),
            &[created(1), ended(1, Some(failure(Origin::User))), created(2), progressed(2, Running)]
        ),
        [(1, Failed), (2, Queued), (2, Initializing), (2, Running)]
    );
}

#[test]
fn each_budget_is_used_by_its_own_failures_alone() {
    use Origin::{System, User};
    for (user, system, origins, attempts, phase) in [
        (0, 0, vec![User], 1, Phase::Failed),
        (0, 0, vec![System], 1, Phase::Failed),
        (0, 1, vec![System], 2, Phase::Queued),
        (1, 0, vec![System], 1, Phase::Failed),
        (1, 0, vec![User], 2, Phase::Queued),
        (1, 0, vec![User, User], 2, Phase::Failed),
        (1, 1, vec![User, System], 3, Phase::Queued),
        (1, 1, vec![User, System, User], 3, Phase::Failed),
        (2, 3, vec![System, System, System, User, User], 6, Phase::Queued),
        (2, 3, vec![System, System, System, System], 4, Phase::Failed),
    ] {
        let inputs: Vec<Input> = origins
            .iter()
            .enumerate()
            .flat_map(|(index, origin)| {
                let attempt = index as u32 + 1;
                [created(attempt), ended(attempt, Some(failure(*origin)))]
            })
            .collect();
        let found = after(task(user, system), &inputs);
        assert_eq!((found.attempts.len(), found.phase), (attempts, phase), "{user} {system} {origins:?}");
    }
    let never = Failure::permanent(User, "Code", "message");
    assert_eq!(after(task(5, 5), &[created(1), ended(1, Some(never))]).phase, Phase::Failed);
}

#[test]
fn case_23_a_deadline_ends_all_and_a_timeout_ends_one_attempt() {
    let timed = Policy { user_retries: 5, deadline_ms: Some(60_000), ..Policy::default() };
    let timeout = |attempt| Input::AttemptTimedOut { attempt, message: "too long".into() };
    let first = after(action(Kind::Task, timed.clone()), &[created(1), timeout(1)]);
    assert_eq!(
        (first.phase, first.attempts.len(), first.attempts[0].phase),
        (Phase::Queued, 2, Phase::TimedOut)
    );
    let all =
        after(action(Kind::Task, timed), &[created(1), timeout(1), created(2), Input::DeadlineExceeded]);
    assert_eq!((all.phase, all.attempts.len()), (Phase::TimedOut, 2));
    assert_eq!(all.failure.unwrap().message, "The action was not done within its deadline of 60 s");
    let unlimited = (1..=6).flat_map(|attempt| [created(attempt), timeout(attempt)]).collect::<Vec<_>>();
    let last = after(task(5, 0), &unlimited);
    assert_eq!((last.phase, last.attempts.len()), (Phase::TimedOut, 6));
}

#[test]
fn a_terminal_action_never_changes_but_for_its_clean_up() {
    let ends: [(&str, Vec<Input>); 4] = [
        ("succeeded", vec![created(1), ended(1, None)]),
        ("failed", vec![created(1), ended(1, Some(failure(Origin::User)))]),
        ("aborted", vec![abort()]),
        ("timed out", vec![Input::AttemptTimedOut { attempt: 1, message: "m".into() }]),
    ];
    for (what, inputs) in ends {
        let action = after(task(0, 0), &inputs);
        assert!(action.phase.is_terminal(), "{what}");
        for input in every_input() {
            let found = step(&action, &input, at(99));
            match input {
                Input::Collected => {
                    let collected = found.unwrap().action;
                    assert!(!collected.in_cluster);
                    assert_eq!(step(&collected, &Input::Collected, at(100)), Err(Refusal::NoChange));
                }
                _ => assert_eq!(
                    found,
                    Err(Refusal::Terminal { name: "a0".into(), phase: action.phase }),
                    "{what} {input:?}"
                ),
            }
        }
    }
}

#[test]
fn what_comes_late_or_from_elsewhere_is_refused_by_name() {
    let running = after(task(1, 0), &[created(1), progressed(1, Phase::Running)]);
    let second = after(running.clone(), &[ended(1, Some(failure(Origin::User))), created(2)]);
    let other_pod = Input::Progressed {
        attempt: 1,
        pod_uid: "other".into(),
        progress: Progress { phase: Phase::Running, message: String::new(), running_at: None },
    };
    for (action, input, refusal) in [
        (&running, created(1), Refusal::NoChange),
        (&running, progressed(1, Phase::Running), Refusal::NoChange),
        (
            &running,
            Input::PodCreated { attempt: 1, pod: PodRef { name: "p1".into(), uid: "other".into() } },
            Refusal::OtherPod { attempt: 1 },
        ),
        (&running, other_pod, Refusal::OtherPod { attempt: 1 }),
        (
            &running,
            progressed(1, Phase::Initializing),
            Refusal::Backwards { given: Phase::Initializing, current: Phase::Running },
        ),
        (&running, created(2), Refusal::OtherAttempt { given: 2, current: 1 }),
        (&second, ended(1, None), Refusal::OtherAttempt { given: 1, current: 2 }),
        (&second, progressed(1, Phase::Running), Refusal::OtherAttempt { given: 1, current: 2 }),
        (
            &running,
            refused(CreateRefusal::Denied("m".into())),
            Refusal::NotApplicable("the attempt has its Pod already"),
        ),
        (&running, Input::DeadlineExceeded, Refusal::NotApplicable("the action has no deadline")),
        (
            &running,
            Input::Collected,
            Refusal::NotApplicable("the action goes on, its objects are still needed"),
        ),
        (
            &running,
            progressed(1, Phase::Succeeded),
            Refusal::NotApplicable("a Pod that goes on is in no final phase"),
        ),
    ] {
        assert_eq!(step(action, &input, at(50)), Err(refusal), "{input:?}");
    }
    let condition = action(Kind::Condition, Policy::default());
    assert_eq!(
        step(&condition, &created(1), at(1)),
        Err(Refusal::NotApplicable("only a task has attempts that run in the cluster"))
    );
}

#[test]
fn case_7_patience_with_an_image_is_measured_from_the_first_bad_sight() {
    let first = after(task(0, 0), &[created(1), stuck(1)]);
    assert_eq!(first.attempt().stuck_since, Some(at(2)));
    let flip =
        Input::Stuck { attempt: 1, pod_uid: uid(1), phase: Phase::Initializing, message: "back-off".into() };
    let later = step(&first, &flip, at(90)).unwrap().action;
    assert_eq!((later.attempt().stuck_since, later.attempt().message.as_str()), (Some(at(2)), "back-off"));
    let started = step(&later, &progressed(1, Phase::Running), at(100)).unwrap().action;
    assert_eq!(started.attempt().stuck_since, None);
}

#[test]
fn case_17_and_19_refused_creations_wait_and_only_denials_in_a_row_end_the_action() {
    let quota = || refused(CreateRefusal::Quota("exceeded quota".into()));
    let denied = || refused(CreateRefusal::Denied("no rights".into()));
    let busy = || refused(CreateRefusal::Transient { message: "busy".into(), retry_after_ms: Some(7_000) });
    let waiting = after(task(0, 0), &vec![quota(); 500]);
    assert_eq!((waiting.phase, waiting.attempts.len()), (Phase::WaitingForResources, 1));
    assert_eq!(waiting.attempt().message, "exceeded quota");
    let once = step(&task(0, 0), &busy(), at(1)).unwrap().action;
    assert_eq!(once.attempt().not_before, at(8), "the server's own wish is kept");
    let mut mixed = vec![denied(); CREATES_REFUSED_MAX as usize - 1];
    mixed.push(quota());
    mixed.extend(vec![denied(); CREATES_REFUSED_MAX as usize - 1]);
    assert!(!after(task(3, 3), &mixed).phase.is_terminal());
    let gone = after(task(3, 3), &vec![denied(); CREATES_REFUSED_MAX as usize]);
    assert_eq!((gone.phase, gone.failure.unwrap().message.as_str()), (Phase::Failed, "no rights"));
    let impossible = refused(CreateRefusal::Impossible(Failure::permanent(Origin::User, "Bad", "no")));
    assert_eq!(after(task(3, 3), &[impossible]).phase, Phase::Failed);
}

#[test]
fn an_end_is_announced_to_the_descendants_with_its_reason() {
    let effects = |inputs: &[Input]| {
        let (last, rest) = inputs.split_last().unwrap();
        step(&after(task(0, 0), rest), last, at(9)).unwrap().effects
    };
    let reason = |text: &str| vec![Effect::AbortDescendants { reason: text.into() }];
    assert_eq!(effects(&[abort()]), reason("enough"));
    assert_eq!(effects(&[created(1), ended(1, None)]), reason("its parent a0 ended as SUCCEEDED"));
    assert_eq!(
        effects(&[created(1), ended(1, Some(failure(Origin::System)))]),
        reason("its parent a0 ended as FAILED")
    );
    assert_eq!(effects(&[created(1), progressed(1, Phase::Running)]), []);
}

#[test]
fn times_that_nodes_report_are_moved_between_those_we_know() {
    let running = after(task(0, 0), &[created(1), progressed(1, Phase::Running)]);
    let times = |started: i64, finished: i64| Input::AttemptEnded {
        attempt: 1,
        started_at: Some(at(started)),
        finished_at: Some(at(finished)),
        failure: None,
    };
    let end = |started, finished| step(&running, &times(started, finished), at(10)).unwrap().action.ended_at;
    assert_eq!(end(3, 8), Some(at(8)));
    assert_eq!(end(3, 99), Some(at(10)), "a node's clock is ahead");
    assert_eq!(end(3, -99), Some(at(2)), "a node's clock is behind");
}

#[test]
fn reports_are_taken_in_order_and_what_is_said_is_kept() {
    let report = |text: &str| Input::Reported(crate::state_document::parse(text).unwrap());
    let running = after(task(0, 0), &[report(r#"{"phase":"RUNNING","message":"busy"}"#)]);
    assert_eq!((running.phase, running.attempt().message.as_str()), (Phase::Running, "busy"));
    assert_eq!(running.state, r#"{"phase":"RUNNING","message":"busy"}"#);
    assert_eq!(
        step(&running, &report(r#"{"phase":"QUEUED"}"#), at(9)),
        Err(Refusal::Backwards { given: Phase::Queued, current: Phase::Running })
    );
    assert_eq!(
        step(&running, &report(r#"{"phase":"RUNNING","attempt":2}"#), at(9)),
        Err(Refusal::OtherAttempt { given: 2, current: 1 })
    );
    assert_eq!(
        step(&running, &report(r#"{"phase":"RUNNING","message":"busy"}"#), at(9)),
        Err(Refusal::NoChange)
    );
    // Case 38: new details with the same phase are kept, and make no transition.
    let more = step(&running, &report(r#"{"phase":"RUNNING","message":"busier"}"#), at(9)).unwrap();
    assert_eq!((more.transitions.len(), more.action.attempt().message.as_str()), (0, "busier"));
    let done =
        step(&running, &report(r#"{"phase":"SUCCEEDED","outputUri":"mem://o"}"#), at(9)).unwrap().action;
    assert_eq!((done.phase, done.output_uri.as_str()), (Phase::Succeeded, "mem://o"));
    let text = r#"{"phase":"FAILED","error":{"code":"E","message":"m","kind":"SYSTEM"}}"#;
    let failed = step(&running, &report(text), at(9)).unwrap().action;
    assert_eq!(failed.failure, Some(Failure::permanent(Origin::System, "E", "m")));
}

/// One of each kind.
fn every_input() -> Vec<Input> {
    vec![
        created(1),
        refused(CreateRefusal::Quota("q".into())),
        progressed(1, Phase::Running),
        stuck(1),
        ended(1, None),
        Input::AttemptTimedOut { attempt: 1, message: "m".into() },
        Input::DeadlineExceeded,
        abort(),
        Input::Reported(crate::state_document::parse(r#"{"phase":"RUNNING"}"#).unwrap()),
        Input::Collected,
    ]
}

fn any_phase() -> impl Strategy<Value = Phase> {
    proptest::sample::select(Phase::ALL.to_vec())
}

fn any_failure() -> impl Strategy<Value = Option<Failure>> {
    proptest::option::of((any::<bool>(), any::<bool>()).prop_map(|(user, retryable)| Failure {
        retryable,
        ..failure(if user { Origin::User } else { Origin::System })
    }))
}

fn any_time() -> impl Strategy<Value = Option<Timestamp>> {
    proptest::option::of((-100..100_i64).prop_map(at))
}

fn any_input() -> impl Strategy<Value = Input> {
    let attempt = 1..5_u32;
    let refusal = prop_oneof![
        Just(CreateRefusal::Quota("q".into())),
        Just(CreateRefusal::Denied("d".into())),
        any::<Option<u64>>()
            .prop_map(|retry_after_ms| CreateRefusal::Transient { message: "t".into(), retry_after_ms }),
        Just(CreateRefusal::Impossible(failure(Origin::User))),
    ];
    prop_oneof![
        4 => attempt.clone().prop_map(created),
        2 => (attempt.clone(), refusal)
            .prop_map(|(attempt, refusal)| Input::CreateRefused { attempt, refusal }),
        4 => (attempt.clone(), any_phase()).prop_map(|(attempt, phase)| progressed(attempt, phase)),
        1 => attempt.clone().prop_map(stuck),
        3 => (attempt.clone(), any_time(), any_time(), any_failure()).prop_map(
            |(attempt, started_at, finished_at, failure)| Input::AttemptEnded {
                attempt,
                started_at,
                finished_at,
                failure
            }
        ),
        1 => attempt.clone().prop_map(|attempt| Input::AttemptTimedOut { attempt, message: "m".into() }),
        1 => Just(Input::DeadlineExceeded),
        1 => Just(abort()),
        1 => Just(Input::Collected),
        2 => (any_phase(), proptest::option::of(attempt)).prop_map(|(phase, attempt)| {
            let document = serde_json::json!({"phase": phase.name(), "attempt": attempt}).to_string();
            Input::Reported(crate::state_document::parse(&document).unwrap())
        }),
    ]
}

fn any_action() -> impl Strategy<Value = Action> {
    (
        0..3_u32,
        0..3_u32,
        any::<bool>(),
        proptest::sample::select(vec![Kind::Task, Kind::Task, Kind::Condition]),
    )
        .prop_map(|(user_retries, system_retries, deadline, kind)| {
            let deadline_ms = deadline.then_some(1_000);
            action(kind, Policy { user_retries, system_retries, deadline_ms, ..Policy::default() })
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever happens in whatever order: no panic (the invariants are asserted in `step` itself), attempts within their
    /// budgets, phases that never go back within an attempt, and no change after the end.
    #[test]
    fn any_sequence_of_inputs_keeps_every_invariant(
        action in any_action(),
        inputs in proptest::collection::vec((any_input(), -5..20_i64), 0..40),
    ) {
        let mut action = action;
        let mut clock = 0;
        let mut seen: Vec<(u32, Phase)> = vec![(1, action.phase)];
        for (input, passed) in inputs {
            // The wall clock may step back.
            clock += passed;
            let Ok(stepped) = step(&action, &input, at(clock)) else { continue };
            prop_assert!(invariant::check(&stepped.action).is_ok());
            prop_assert!(invariant::check_change(&action, &stepped.action).is_ok());
            for transition in &stepped.transitions {
                let (attempt, phase) = *seen.last().unwrap();
                prop_assert!((attempt, phase.rank()) <= (transition.attempt, transition.phase.rank()), "{seen:?}");
                seen.push((transition.attempt, transition.phase));
            }
            prop_assert_eq!(action.phase.is_terminal(), action.phase.is_terminal() && stepped.transitions.is_empty());
            let again = step(&stepped.action, &input, at(clock));
            let same = matches!(input, Input::CreateRefused { .. });
            prop_assert!(again.is_err() || same, "twice is once: {input:?}");
            action = stepped.action;
        }
        let allowed = action.policy.user_retries + action.policy.system_retries + 1;
        prop_assert!(action.attempts.len() as u32 <= allowed, "{} attempts", action.attempts.len());
    }
}
