//! Any text as a page token: a position of this list, or refused.
#![no_main]

use flyte_core::listing::{RawSort, Resource, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|token: &str| {
    for sort in [&[][..], &[RawSort { key: "name".into(), ascending: true }][..]] {
        if let Ok(request) = parse(Resource::Runs, 0, token, &[], sort)
            && let Some(after) = &request.after
        {
            let again = parse(Resource::Runs, 0, &request.token(after), &[], sort);
            assert_eq!(again.map(|again| again.after), Ok(Some(after.clone())));
        }
    }
});
