//! Any text as a state document: read, or refused with a sentence; applied to an action, it breaks no invariant.
#![no_main]

use flyte_core::{Action, Input, Kind, NewAction, Policy, RunId, Timestamp, invariant, state_document, step};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(report) = state_document::parse(text) else { return };
    let new = NewAction {
        id: RunId::new("local", "p", "d", "r").root(),
        parent: None,
        kind: Kind::Task,
        group: String::new(),
        input_uri: String::new(),
        run_output_base: "mem://x".into(),
        policy: Policy::default(),
        recorded: None,
        request_digest: String::new(),
    };
    let action = Action::admit(new, Timestamp::from_ms(0));
    if let Ok(stepped) = step(&action, &Input::Reported(report), Timestamp::from_ms(1)) {
        assert_eq!(invariant::check(&stepped.action), Ok(()));
    }
});
