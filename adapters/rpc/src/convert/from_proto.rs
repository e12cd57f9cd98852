//! What clients send, as the core and the store know it. Messages have been validated already.

use crate::{Defaults, Fault};
use flyte_core::id::DEFAULT_ORG;
use flyte_core::{ActionId, Policy, RunId, Timestamp};
use flyte_proto::{common, core, task};
use flyte_store::row::{ActionMeta, Spec, SpecKind, TaskId};
use sha2::{Digest, Sha256};

/// An organisation as it is stored: clients on a laptop name none.
pub fn org(name: &str) -> String {
    if name.is_empty() { DEFAULT_ORG.to_string() } else { name.to_string() }
}

/// A run's identity.
pub fn run_id(id: &common::RunIdentifier) -> RunId {
    RunId::new(org(&id.org), &id.project, &id.domain, &id.name)
}

/// A run's identity, from a field that validation requires.
pub fn required_run_id(id: Option<&common::RunIdentifier>, field: &str) -> Result<RunId, Fault> {
    id.map(run_id).ok_or_else(|| Fault::invalid(field, "it is required"))
}

/// An action's identity, from a field that validation requires.
pub fn required_action_id(id: Option<&common::ActionIdentifier>, field: &str) -> Result<ActionId, Fault> {
    let id = id.ok_or_else(|| Fault::invalid(field, "it is required"))?;
    Ok(required_run_id(id.run.as_ref(), &format!("{field}.run"))?.action(&id.name))
}

/// A time, in milliseconds.
pub fn timestamp(time: &prost_types::Timestamp) -> Timestamp {
    Timestamp::from_ms(time.seconds.saturating_mul(1000).saturating_add(i64::from(time.nanos) / 1_000_000))
}

/// A duration in milliseconds; `None` when it is absent, zero or negative, which all mean no limit.
pub fn duration_ms(duration: Option<&prost_types::Duration>) -> Option<u64> {
    let duration = duration?;
    let ms = duration.seconds.saturating_mul(1000).saturating_add(i64::from(duration.nanos) / 1_000_000);
    u64::try_from(ms).ok().filter(|ms| *ms > 0)
}

/// What a task's template allows its actions.
pub fn policy(template: &core::TaskTemplate, defaults: &Defaults) -> Policy {
    let metadata = template.metadata.as_ref();
    let retries = metadata.and_then(|metadata| metadata.retries.as_ref());
    let timeouts = metadata.and_then(|metadata| metadata.timeouts.as_ref());
    let backoff = retries.and_then(|retries| retries.backoff.as_ref());
    let base_ms = backoff.and_then(|backoff| duration_ms(backoff.base.as_ref()));
    let grows = backoff.and_then(|backoff| backoff.factor).is_some_and(|factor| factor > 1.0);
    let cap_ms = match (backoff.and_then(|backoff| duration_ms(backoff.cap.as_ref())), base_ms) {
        (Some(cap_ms), _) => cap_ms,
        // A base alone is a constant wait.
        (None, Some(base_ms)) if !grows => base_ms,
        _ => defaults.backoff_cap_ms,
    };
    let base_ms = base_ms.unwrap_or(defaults.backoff_base_ms);
    Policy {
        user_retries: retries.map_or(0, |retries| retries.retries),
        system_retries: defaults.system_retries,
        attempt_timeout_ms: metadata.and_then(|metadata| duration_ms(metadata.timeout.as_ref())),
        queued_timeout_ms: timeouts.and_then(|timeouts| duration_ms(timeouts.queued_timeout.as_ref())),
        deadline_ms: timeouts.and_then(|timeouts| duration_ms(timeouts.deadline.as_ref())),
        backoff_base_ms: base_ms,
        backoff_cap_ms: cap_ms.max(base_ms),
        outputs_needed: template
            .interface
            .as_ref()
            .and_then(|interface| interface.outputs.as_ref())
            .is_some_and(|outputs| !outputs.variables.is_empty()),
    }
}

/// What lists show of a task's action. `run_interruptible` is what the run asks for, which wins over the task.
pub fn task_meta(spec: &task::TaskSpec, run_interruptible: Option<bool>) -> ActionMeta {
    let template = spec.task_template.clone().unwrap_or_default();
    let id = template.id.clone().unwrap_or_default();
    let interruptible = template.metadata.as_ref().and_then(|metadata| {
        metadata.interruptible_value.as_ref().map(|value| {
            let core::task_metadata::InterruptibleValue::Interruptible(value) = value;
            *value
        })
    });
    let function_name = id.name.rsplit('.').next().unwrap_or_default().to_string();
    ActionMeta {
        short_name: if spec.short_name.is_empty() { function_name.clone() } else { spec.short_name.clone() },
        task: Some(TaskId {
            org: org(&id.org),
            project: id.project,
            domain: id.domain,
            name: id.name,
            version: id.version,
        }),
        task_type: template.r#type,
        environment_name: spec
            .environment
            .as_ref()
            .map(|environment| environment.name.clone())
            .unwrap_or_default(),
        function_name,
        interruptible: run_interruptible.or(interruptible),
        ..ActionMeta::default()
    }
}

/// A task's identity as a client names it.
pub fn task_id(id: &task::TaskIdentifier) -> TaskId {
    TaskId {
        org: org(&id.org),
        project: id.project.clone(),
        domain: id.domain.clone(),
        name: id.name.clone(),
        version: id.version.clone(),
    }
}

/// A specification with its digest.
pub fn spec(kind: SpecKind, bytes: &[u8]) -> Spec {
    let kind_name: &[u8] = match kind {
        SpecKind::Task => b"TASK",
        SpecKind::Trace => b"TRACE",
        SpecKind::Condition => b"CONDITION",
    };
    Spec { digest: digest(&[kind_name, bytes]), kind, bytes: bytes.into() }
}

/// Lower-case hex of SHA-256 over the parts, each preceded by its length.
pub fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}

/// Lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: i64) -> Option<prost_types::Duration> {
        Some(prost_types::Duration { seconds, nanos: 0 })
    }

    #[test]
    fn a_policy_is_what_the_template_says_and_the_defaults_elsewhere() {
        let defaults = Defaults::default();
        assert_eq!(
            policy(&core::TaskTemplate::default(), &defaults),
            Policy { system_retries: 3, backoff_base_ms: 1_000, backoff_cap_ms: 60_000, ..Policy::default() }
        );
        let template = core::TaskTemplate {
            metadata: Some(core::TaskMetadata {
                timeout: seconds(30),
                retries: Some(core::RetryStrategy {
                    retries: 2,
                    backoff: Some(core::Backoff { base: seconds(5), factor: Some(2.0), cap: seconds(20) }),
                }),
                timeouts: Some(core::TimeoutStrategy { queued_timeout: seconds(0), deadline: seconds(90) }),
                ..Default::default()
            }),
            ..Default::default()
        };
        assert_eq!(
            policy(&template, &defaults),
            Policy {
                user_retries: 2,
                system_retries: 3,
                attempt_timeout_ms: Some(30_000),
                queued_timeout_ms: None,
                deadline_ms: Some(90_000),
                backoff_base_ms: 5_000,
                backoff_cap_ms: 20_000,
                outputs_needed: false,
            }
        );
    }

    #[test]
    fn durations_that_limit_nothing_are_none() {
        assert_eq!(duration_ms(None), None);
        assert_eq!(duration_ms(Some(&prost_types::Duration { seconds: -1, nanos: 0 })), None);
        assert_eq!(
            duration_ms(Some(&prost_types::Duration { seconds: i64::MAX, nanos: 0 })),
            Some(i64::MAX as u64)
        );
        assert_eq!(duration_ms(Some(&prost_types::Duration { seconds: 1, nanos: 500_000_000 })), Some(1_500));
    }
}
