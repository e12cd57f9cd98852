//! Requests and limits of containers.

use super::fault;
use flyte_core::Failure;
use flyte_proto::core as c;
use flyte_proto::core::resources::{ResourceEntry, ResourceName};
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

/// The resources that a container asks for.
pub fn of(resources: Option<&c::Resources>) -> Result<Option<ResourceRequirements>, Failure> {
    let Some(resources) = resources else { return Ok(None) };
    let requests = list("requests", &resources.requests)?;
    let limits = list("limits", &resources.limits)?;
    if requests.is_empty() && limits.is_empty() {
        return Ok(None);
    }
    let some = |map: BTreeMap<String, Quantity>| (!map.is_empty()).then_some(map);
    Ok(Some(ResourceRequirements { requests: some(requests), limits: some(limits), claims: None }))
}

fn list(kind: &str, entries: &[ResourceEntry]) -> Result<BTreeMap<String, Quantity>, Failure> {
    entries
        .iter()
        .map(|entry| {
            let name = match entry.name() {
                ResourceName::Cpu => "cpu",
                ResourceName::Gpu => "nvidia.com/gpu",
                ResourceName::Memory => "memory",
                ResourceName::Storage | ResourceName::EphemeralStorage => "ephemeral-storage",
                ResourceName::Unknown => {
                    return Err(fault("ResourcesInvalid", &format!("The task's resource {kind} name something unknown")));
                }
            };
            if is_quantity(&entry.value) {
                Ok((name.to_string(), Quantity(entry.value.clone())))
            } else {
                Err(fault(
                    "ResourcesInvalid",
                    &format!(
                        "The task's resource {kind} for {name} are '{}', which is no quantity such as 500m, 2 or 1Gi",
                        flyte_core::text::bounded(&entry.value, 64)
                    ),
                ))
            }
        })
        .collect()
}

/// Whether a text is a quantity
/// (<https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/>).
fn is_quantity(text: &str) -> bool {
    const SUFFIXES: [&str; 15] =
        ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi"];
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    let exponent = suffix.strip_prefix(['e', 'E']).is_some_and(|digits| {
        let digits = digits.strip_prefix(['-', '+']).unwrap_or(digits);
        !digits.is_empty() && digits.len() <= 2 && digits.bytes().all(|b| b.is_ascii_digit())
    });
    number.bytes().any(|b| b.is_ascii_digit())
        && number.bytes().filter(|b| *b == b'.').count() <= 1
        && (SUFFIXES.contains(&suffix) || suffix == "Ei" || exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_told_from_other_text() {
        for text in ["1", "0.5", "500m", "1Gi", "2e3", "1E", "1Ei", ".5"] {
            assert!(is_quantity(text), "{text}");
        }
        for text in ["", ".", "m", "1 Gi", "1GB", "-1", "1.2.3", "1e", "one"] {
            assert!(!is_quantity(text), "{text}");
        }
    }
}
