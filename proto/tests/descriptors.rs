//! The schema is the published one, as far as it is declared.

use std::collections::{BTreeMap, BTreeSet};

use flyte_proto::DESCRIPTOR_POOL;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, Kind, MessageDescriptor};

/// The descriptors of flyteidl2 2.0.53.
const PUBLISHED: &[u8] = include_bytes!("../testdata/descriptors.binpb");

/// Packages that are declared only as far as they are used, so that messages may lack fields.
const PARTLY_DECLARED: &str = "buf.validate";

/// What a pool declares: a path to each thing, and all that must not differ about it.
fn facts(pool: &DescriptorPool) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    for message in pool.all_messages() {
        let name = message.full_name();
        facts.insert(format!("message {name}"), rules(&message.options(), "buf.validate.message"));
        for oneof in message.oneofs() {
            facts.insert(
                format!("oneof {name}.{}", oneof.name()),
                rules(&oneof.options(), "buf.validate.oneof"),
            );
        }
        for field in message.fields() {
            let kind = match field.kind() {
                Kind::Message(message) => message.full_name().to_owned(),
                Kind::Enum(kind) => kind.full_name().to_owned(),
                scalar => format!("{scalar:?}"),
            };
            let oneof = field.containing_oneof().map(|oneof| oneof.name().to_owned());
            facts.insert(
                format!("field {name}.{}", field.number()),
                format!(
                    "{} {} {kind} {:?} presence={} packed={} oneof={oneof:?} {}",
                    field.name(),
                    field.json_name(),
                    field.cardinality(),
                    field.supports_presence(),
                    field.is_packed(),
                    rules(&field.options(), "buf.validate.field"),
                ),
            );
        }
    }
    for kind in pool.all_enums() {
        for value in kind.values() {
            facts.insert(format!("enum {}.{}", kind.full_name(), value.name()), value.number().to_string());
        }
    }
    for service in pool.services() {
        for method in service.methods() {
            facts.insert(
                format!("method {}", method.full_name()),
                format!(
                    "{}{} -> {}{} {:?}",
                    if method.is_client_streaming() { "stream " } else { "" },
                    method.input().full_name(),
                    if method.is_server_streaming() { "stream " } else { "" },
                    method.output().full_name(),
                    method.options().get_field_by_name("idempotency_level").map(|level| level.into_owned()),
                ),
            );
        }
    }
    facts
}

/// The validation rules in some options, in one canonical form.
fn rules(options: &DynamicMessage, extension: &str) -> String {
    options
        .extensions()
        .filter(|(descriptor, _)| descriptor.full_name() == extension)
        .map(|(_, value)| format!("{:?}", value.as_message().map(Message::encode_to_vec)))
        .collect()
}

fn is_whole(path: &str) -> bool {
    !path.contains(" google.protobuf.") && !path.contains(&format!(" {PARTLY_DECLARED}."))
}

#[test]
fn everything_that_is_declared_is_as_published() {
    let published = facts(&DescriptorPool::decode(PUBLISHED).unwrap());
    let ours = facts(&DESCRIPTOR_POOL);
    assert!(ours.len() > 2000, "only {} facts", ours.len());
    let differing: Vec<_> = ours
        .iter()
        .filter(|(path, _)| !path.contains(" google.protobuf."))
        .filter(|(path, fact)| published.get(*path) != Some(fact))
        .map(|(path, fact)| (path, fact, published.get(path)))
        .collect();
    assert_eq!(differing, []);
}

#[test]
fn a_message_enum_or_service_is_declared_wholly_or_not_at_all() {
    let published = DescriptorPool::decode(PUBLISHED).unwrap();
    let owner = |path: &str| {
        let (kind, name) = path.split_once(' ').unwrap();
        let owner = match kind {
            "message" => name,
            _ => name.rsplit_once('.').unwrap().0,
        };
        owner.to_owned()
    };
    let ours = facts(&DESCRIPTOR_POOL);
    let declared: BTreeSet<String> = ours.keys().map(|path| owner(path)).collect();
    let missing: Vec<String> = facts(&published)
        .into_keys()
        .filter(|path| is_whole(path) && declared.contains(&owner(path)))
        .filter(|path| !ours.contains_key(path))
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn the_services_are_declared() {
    let services: Vec<String> = DESCRIPTOR_POOL
        .services()
        .map(|service| service.full_name().to_owned())
        .collect::<BTreeSet<String>>()
        .into_iter()
        .collect();
    assert_eq!(
        services,
        [
            "flyteidl2.actions.ActionsService",
            "flyteidl2.auth.AuthMetadataService",
            "flyteidl2.auth.IdentityService",
            "flyteidl2.cluster.ClusterService",
            "flyteidl2.dataproxy.DataProxyService",
            "flyteidl2.project.ProjectService",
            "flyteidl2.secret.SecretService",
            "flyteidl2.settings.SettingsService",
            "flyteidl2.task.TaskService",
            "flyteidl2.trigger.TriggerService",
            "flyteidl2.workflow.EventsProxyService",
            "flyteidl2.workflow.InternalRunService",
            "flyteidl2.workflow.QueueService",
            "flyteidl2.workflow.RunLogsService",
            "flyteidl2.workflow.RunService",
            "flyteidl2.workflow.StateService",
            "flyteidl2.workflow.TrackedRunService",
            "flyteidl2.workflow.TranslatorService",
        ]
    );
}

#[test]
fn the_rules_that_are_expressions_are_the_ones_written_by_hand() {
    let mut ids = BTreeSet::new();
    for message in DESCRIPTOR_POOL.all_messages() {
        collect_ids(&message.options(), &mut ids);
        for field in message.fields() {
            collect_ids(&field.options(), &mut ids);
        }
    }
    let expected = [
        "at_least_one_required",
        "backoff.cap_required_when_factor_gt_1",
        "paused_rule_exclusive",
        "queue_identifier.domain_project_combination",
        "relation_type.greater_than_zero",
        "reuse_policy.replica_bounds",
    ];
    assert_eq!(ids.into_iter().collect::<Vec<_>>(), expected);
    // That each of them has an implementation is checked by the compiler: the generated validation calls it by name.
    let source = include_str!("../src/cel.rs");
    for id in expected {
        let function = format!("pub fn {}(", id.replace('.', "_"));
        assert!(source.contains(&function), "{id}");
    }
}

fn collect_ids(options: &DynamicMessage, ids: &mut BTreeSet<String>) {
    for (_, value) in options.extensions() {
        let Some(rules) = value.as_message() else {
            continue;
        };
        if let Some(cel) = rules.get_field_by_name("cel") {
            for rule in cel.as_list().unwrap() {
                let id = rule.as_message().unwrap().get_field_by_name("id").unwrap();
                ids.insert(id.as_str().unwrap().to_owned());
            }
        }
    }
}

#[test]
fn every_message_has_one_name_in_rust_and_in_the_schema() {
    fn descriptor<M: prost::Name>() -> Option<MessageDescriptor> {
        DESCRIPTOR_POOL.get_message_by_name(&M::full_name())
    }
    assert!(descriptor::<flyte_proto::workflow::CreateRunRequest>().is_some());
    assert!(descriptor::<flyte_proto::core::schema_type::SchemaColumn>().is_some());
    assert!(descriptor::<flyte_proto::logs::dataplane::LogLine>().is_some());
    assert!(descriptor::<flyte_proto::google::rpc::Status>().is_some());
}
