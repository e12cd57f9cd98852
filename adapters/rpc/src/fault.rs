//! What a handler answers when it cannot do what was asked.

use connectrpc::ErrorCode;
use flyte_core::text;

/// The most bytes of an error's text on the wire. gRPC carries it percent-encoded in a trailer, up to three bytes for
/// one, and peers refuse header blocks above 16 KiB together with the whole connection (case 66).
pub const TEXT_MAX_BYTES: usize = 3 * 1024;

/// An error with its code and a sentence for people. The wire layer writes it in the caller's protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", code.as_str())]
pub struct Fault {
    /// The code, the same on every protocol.
    pub code: ErrorCode,
    /// What failed, on which object, and what to do; at most [`TEXT_MAX_BYTES`] and a short note.
    pub message: String,
}

impl Fault {
    /// A fault with a bounded text.
    pub fn new(code: ErrorCode, message: impl AsRef<str>) -> Self {
        Self { code, message: text::bounded(message.as_ref(), TEXT_MAX_BYTES) }
    }

    /// The field of the request that is wrong, and why.
    pub fn invalid(field: impl AsRef<str>, why: impl std::fmt::Display) -> Self {
        Self::new(ErrorCode::InvalidArgument, format!("{}: {why}", field.as_ref()))
    }

    /// Something that the request names does not exist.
    pub fn not_found(message: impl AsRef<str>) -> Self {
        Self::new(ErrorCode::NotFound, message)
    }

    /// The method, or a part of it, is not served.
    pub fn unimplemented(message: impl AsRef<str>) -> Self {
        Self::new(ErrorCode::Unimplemented, message)
    }

    /// Something is broken on the server's side.
    pub fn internal(message: impl AsRef<str>) -> Self {
        Self::new(ErrorCode::Internal, message)
    }

    /// The server cannot answer now; the same request may succeed later.
    pub fn unavailable(message: impl AsRef<str>) -> Self {
        Self::new(ErrorCode::Unavailable, message)
    }

    /// The end of every stream when the server stops.
    pub fn shutting_down() -> Self {
        Self::unavailable("the server is shutting down; connect again")
    }
}

impl From<flyte_proto::Violation> for Fault {
    fn from(violation: flyte_proto::Violation) -> Self {
        // The sentence names the field; where it does not begin with it, it is put in front for machines.
        if violation.field.is_empty() || violation.message.starts_with(&format!("{}:", violation.field)) {
            Self::new(ErrorCode::InvalidArgument, violation.message)
        } else {
            Self::invalid(violation.field, violation.message)
        }
    }
}
