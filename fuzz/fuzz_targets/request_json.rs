//! Any text as the JSON of a request: read and validated, or refused; what is read can be written again.
#![no_main]

use flyte_proto::workflow::{CreateRunRequest, EnqueueActionRequest};
use flyte_proto::{Validate, json};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = json::decode::<CreateRunRequest>(bytes) {
        let _ = request.validate();
        let text = json::encode(&request);
        if let Ok(text) = text {
            assert!(json::decode::<CreateRunRequest>(&text).is_ok());
        }
    }
    if let Ok(request) = json::decode::<EnqueueActionRequest>(bytes) {
        let _ = request.validate();
    }
});
