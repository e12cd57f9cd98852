//! Any bytes as a request: read and validated, or refused; what passes through keeps its bytes.
#![no_main]

use flyte_proto::Validate;
use flyte_proto::workflow::CreateRunRequest;
use libfuzzer_sys::fuzz_target;
use prost::Message;


fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = CreateRunRequest::decode(bytes) {
        let _ = request.validate();
        let again = CreateRunRequest::decode(request.encode_to_vec().as_slice());
        assert_eq!(again.as_ref(), Ok(&request));
    }
});
