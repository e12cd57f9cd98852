//! The rules that the schema writes as expressions, by hand.
//!
//! A function is named like the rule's id, with `_` for `.`; it says whether the rule holds. The generated validation
//! calls it, so a rule without a function doesn't compile.

use crate::common::{ActionPhase, QueueIdentifier};
use crate::core::{Backoff, ReusePolicy};
use crate::notification::DeliveryConfigTemplate;
use crate::task::InlineRule;

/// A queue of a project names the domain too.
pub fn queue_identifier_domain_project_combination(queue: &QueueIdentifier) -> bool {
    queue.project.is_empty() || !queue.domain.is_empty()
}

/// A delay that grows has a limit.
pub fn backoff_cap_required_when_factor_gt_1(backoff: &Backoff) -> bool {
    backoff.factor.is_none_or(|factor| factor <= 1.0) || backoff.cap.is_some()
}

/// The kind of relation is given.
pub fn relation_type_greater_than_zero(relation_type: &i32) -> bool {
    *relation_type > 0
}

/// The bounds of the replica count are in order.
pub fn reuse_policy_replica_bounds(policy: &ReusePolicy) -> bool {
    policy.max_replicas >= policy.min_replicas
}

/// A delivery goes somewhere.
pub fn at_least_one_required(template: &DeliveryConfigTemplate) -> bool {
    template.webhook.is_some() || template.email.is_some()
}

/// A rule about pauses is about nothing else.
pub fn paused_rule_exclusive(rule: &InlineRule) -> bool {
    !rule.on_phases.contains(&(ActionPhase::Paused as i32)) || rule.on_phases.len() == 1
}
