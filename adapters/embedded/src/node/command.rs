//! What a container's part of a Pod means on this machine.

use k8s_openapi::api::core::v1::{Container, EnvVar, Pod};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Paths of the container and the real ones that stand for them, longest first. Processes see the whole machine, so the
/// paths are replaced where they stand in commands, arguments and variables.
pub struct Mounts(Vec<(String, String)>);

impl Mounts {
    /// The volumes of a Pod as a container mounts them.
    ///
    /// # Errors
    /// A sentence when it mounts what this node does not have.
    pub fn of(pod: &Pod, container: &Container, volumes: &Path, message_file: &Path) -> Result<Self, String> {
        let known = pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref());
        let mut mounts = Vec::new();
        for mount in container.volume_mounts.iter().flatten() {
            let volume = known.into_iter().flatten().find(|volume| volume.name == mount.name);
            let real = match volume {
                Some(volume) if volume.empty_dir.is_some() => volumes.join(&volume.name),
                Some(volume) if volume.host_path.is_some() => PathBuf::from(
                    volume.host_path.as_ref().map(|host| host.path.as_str()).unwrap_or_default(),
                ),
                // Service account tokens mean nothing to a process of this machine.
                Some(volume) if volume.projected.is_some() => continue,
                Some(_) => {
                    return Err(format!(
                        "volume '{}' is of a kind that the embedded cluster does not have; it has emptyDir and hostPath",
                        mount.name
                    ));
                }
                None => return Err(format!("volumeMount '{}' names no volume of the Pod", mount.name)),
            };
            let real = match &mount.sub_path {
                Some(sub) if !sub.split('/').any(|part| part == "..") => real.join(sub),
                _ => real,
            };
            std::fs::create_dir_all(&real)
                .map_err(|error| format!("volume '{}' cannot be made: {error}", mount.name))?;
            mounts.push((mount.mount_path.trim_end_matches('/').to_string(), real.display().to_string()));
        }
        let message = container.termination_message_path.as_deref().unwrap_or("/dev/termination-log");
        mounts.push((message.to_string(), message_file.display().to_string()));
        mounts.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        Ok(Self(mounts))
    }

    /// The text with the container's paths replaced.
    pub fn replace(&self, text: &str) -> String {
        let mut result = String::with_capacity(text.len());
        let mut rest = text;
        'next: while !rest.is_empty() {
            let inside = result.chars().last().is_some_and(is_path_char);
            for (path, real) in self.0.iter().filter(|(path, _)| !path.is_empty()) {
                if let Some(after) = rest.strip_prefix(path.as_str())
                    && !inside
                    && !after.starts_with(|c: char| is_path_char(c) && c != '/')
                {
                    result.push_str(real);
                    rest = after;
                    continue 'next;
                }
            }
            let mut chars = rest.chars();
            result.extend(chars.next());
            rest = chars.as_str();
        }
        result
    }
}

fn is_path_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/')
}

/// The environment of a container.
///
/// # Errors
/// A sentence when a variable comes from what this node does not have.
pub fn environment(
    pod: &Pod,
    container: &Container,
    base: &BTreeMap<String, String>,
    mounts: &Mounts,
) -> Result<BTreeMap<String, String>, String> {
    let mut environment = base.clone();
    if let Some(source) = container.env_from.iter().flatten().find(|source| !is_optional(source)) {
        let name = source.secret_ref.as_ref().map(|secret| secret.name.clone());
        let name = name.or(source.config_map_ref.as_ref().map(|map| map.name.clone())).unwrap_or_default();
        return Err(format!(
            "'{name}' of envFrom is not found: the embedded cluster hands no secrets or config maps to processes"
        ));
    }
    for variable in container.env.iter().flatten() {
        if let Some(value) = value(pod, variable)? {
            let value = expand(&mounts.replace(&value), &environment);
            environment.insert(variable.name.clone(), value);
        }
    }
    Ok(environment)
}

fn is_optional(source: &k8s_openapi::api::core::v1::EnvFromSource) -> bool {
    source.secret_ref.as_ref().is_none_or(|secret| secret.optional == Some(true))
        && source.config_map_ref.as_ref().is_none_or(|map| map.optional == Some(true))
}

fn value(pod: &Pod, variable: &EnvVar) -> Result<Option<String>, String> {
    let Some(from) = &variable.value_from else {
        return Ok(Some(variable.value.clone().unwrap_or_default()));
    };
    let metadata = &pod.metadata;
    if let Some(field) = &from.field_ref {
        return Ok(Some(match field.field_path.as_str() {
            "metadata.name" => metadata.name.clone().unwrap_or_default(),
            "metadata.namespace" => metadata.namespace.clone().unwrap_or_default(),
            "metadata.uid" => metadata.uid.clone().unwrap_or_default(),
            "spec.nodeName" => pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
            "spec.serviceAccountName" => {
                pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone()).unwrap_or_default()
            }
            "status.podIP" | "status.hostIP" => "127.0.0.1".into(),
            other => {
                return Err(format!(
                    "variable '{}' asks for '{other}', which is not known here",
                    variable.name
                ));
            }
        }));
    }
    if from.resource_field_ref.is_some() {
        return Ok(None);
    }
    let optional = from.secret_key_ref.as_ref().is_some_and(|key| key.optional == Some(true))
        || from.config_map_key_ref.as_ref().is_some_and(|key| key.optional == Some(true));
    if optional {
        return Ok(None);
    }
    Err(format!(
        "variable '{}' comes from a secret or config map, which the embedded cluster does not hand to processes",
        variable.name
    ))
}

/// The command line of a container.
pub fn argv(
    container: &Container,
    environment: &BTreeMap<String, String>,
    mounts: &Mounts,
    own_program: Option<&Path>,
) -> Vec<String> {
    let mut argv: Vec<String> = container
        .command
        .iter()
        .flatten()
        .chain(container.args.iter().flatten())
        .map(|word| expand(&mounts.replace(word), environment))
        .collect();
    // The copilot is this very program; in a real cluster its image has it.
    if let (Some(first), Some(own)) = (argv.first_mut(), own_program)
        && first == "flyte-manager"
    {
        *first = own.display().to_string();
    }
    argv
}

/// Replaces `$(NAME)` by variables that are known; `$$` stands for one dollar
/// (<https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/>).
fn expand(text: &str, environment: &BTreeMap<String, String>) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        result.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(after) = after.strip_prefix('$') {
            result.push('$');
            rest = after;
        } else if let Some((name, tail)) = after.strip_prefix('(').and_then(|inner| inner.split_once(')'))
            && let Some(value) = environment.get(name)
        {
            result.push_str(value);
            rest = tail;
        } else {
            result.push('$');
            rest = after;
        }
    }
    result.push_str(rest);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_container_are_replaced_where_they_stand_whole() {
        let mounts = Mounts(vec![
            ("/var/outputs/deep".into(), "/r/deep".into()),
            ("/var/outputs".into(), "/r/out".into()),
        ]);
        for (text, result) in [
            ("echo hi > /var/outputs/msg", "echo hi > /r/out/msg"),
            ("/var/outputs", "/r/out"),
            ("'/var/outputs/deep/x' \"/var/outputs\"", "'/r/deep/x' \"/r/out\""),
            ("/var/outputs2 /x/var/outputs a/var/outputs", "/var/outputs2 /x/var/outputs a/var/outputs"),
            ("--out=/var/outputs;größe", "--out=/r/out;größe"),
        ] {
            assert_eq!(mounts.replace(text), result);
        }
    }

    #[test]
    fn variables_are_expanded_as_kubernetes_does() {
        let environment = BTreeMap::from([("A".to_string(), "x".to_string())]);
        for (text, result) in [("$(A)-$(B)", "x-$(B)"), ("$$(A) $A $", "$(A) $A $"), ("$(A", "$(A")] {
            assert_eq!(expand(text, &environment), result);
        }
    }
}
