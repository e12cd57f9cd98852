//! What an API server's refusal to create an object means.

use flyte_core::transition::CreateRefusal;
use flyte_core::{Failure, Origin};
use kube::core::Status;

/// What the refusal means; `AlreadyExists` is not asked for here.
pub fn of(error: &kube::Error) -> CreateRefusal {
    match error {
        kube::Error::Api(status) => of_status(status),
        error => CreateRefusal::Transient {
            message: format!("The cluster cannot be reached: {error}"),
            retry_after_ms: None,
        },
    }
}

/// Whether the object is there already.
pub fn is_already_exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists")
}

/// Whether the object, or what it is asked under, is not there.
pub fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether the object is another than the one that was meant.
pub fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

/// Whether the object is larger than the cluster takes (case 21).
pub fn is_too_large(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.code == 413
        || status.message.contains("request is too large")
        || status.message.contains("larger than max")
        || status.message.contains("Too long")
}

fn of_status(status: &Status) -> CreateRefusal {
    let message = format!("The cluster refused: {}", status.message);
    let retry_after_ms = status
        .details
        .as_ref()
        .map(|details| details.retry_after_seconds)
        .filter(|seconds| *seconds > 0)
        .map(|seconds| u64::from(seconds) * 1_000);
    if is_too_large(&kube::Error::Api(Box::new(status.clone()))) {
        return impossible(
            "PodTooLarge",
            format!("{message}; make the task's command, environment or template smaller"),
        );
    }
    match status.code {
        403 if status.message.contains("exceeded quota") => CreateRefusal::Quota(message),
        // An admission webhook that cannot be asked, and a namespace that is going away, are said as 403 or 500 too.
        403 if status.message.contains("is being terminated") => CreateRefusal::Denied(message),
        401 | 403 | 404 => CreateRefusal::Denied(message),
        400 | 405 | 415 | 422 => impossible("PodRejected", message),
        // A conflict on a quota's own bookkeeping, or with a webhook's work, passes.
        _ => CreateRefusal::Transient { message, retry_after_ms },
    }
}

fn impossible(code: &str, message: String) -> CreateRefusal {
    CreateRefusal::Impossible(Failure::permanent(Origin::User, code, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, reason: &str, message: &str) -> kube::Error {
        let status: Status = serde_json::from_value(serde_json::json!({
            "status": "Failure", "code": code, "reason": reason, "message": message,
        }))
        .unwrap();
        kube::Error::Api(Box::new(status))
    }

    #[test]
    fn every_refusal_has_its_meaning() {
        for (code, reason, message, meaning) in [
            (403, "Forbidden", "pods \"x\" is forbidden: exceeded quota: q, requested: cpu=1", "quota"),
            (403, "Forbidden", "pods is forbidden: User cannot create resource \"pods\"", "denied"),
            (
                403,
                "Forbidden",
                "unable to create new content in namespace x because it is being terminated",
                "denied",
            ),
            (401, "Unauthorized", "Unauthorized", "denied"),
            (404, "NotFound", "namespaces \"x\" not found", "denied"),
            (422, "Invalid", "Pod \"x\" is invalid: spec.containers[0].image: Required value", "impossible"),
            (400, "BadRequest", "admission webhook denied the request", "impossible"),
            (413, "RequestEntityTooLarge", "limit is 3145728", "impossible"),
            (500, "InternalError", "etcdserver: request is too large", "impossible"),
            (500, "InternalError", "failed calling webhook: connection refused", "transient"),
            (429, "TooManyRequests", "try again later", "transient"),
            (503, "ServiceUnavailable", "apiserver is shutting down", "transient"),
            (504, "Timeout", "request did not complete", "transient"),
            (409, "Conflict", "Operation cannot be fulfilled on resourcequotas", "transient"),
        ] {
            let found = match of(&status(code, reason, message)) {
                CreateRefusal::Quota(_) => "quota",
                CreateRefusal::Denied(_) => "denied",
                CreateRefusal::Transient { .. } => "transient",
                CreateRefusal::Impossible(_) => "impossible",
            };
            assert_eq!(found, meaning, "{code} {message}");
        }
    }
}
