//! The kinds of objects that there are.

use serde_json::Value;

/// One kind of objects.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// The API group; empty for the core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The name in paths, such as `pods`.
    pub plural: String,
    /// The name for one, such as `pod`.
    pub singular: String,
    /// The kind, such as `Pod`.
    pub kind: String,
    /// Names that kubectl takes for it.
    pub short_names: Vec<String>,
    /// Whether objects belong to a namespace.
    pub namespaced: bool,
    /// Whether `status` is changed through its own path only.
    pub has_status: bool,
    /// The structural schema, for custom resources.
    pub schema: Option<Value>,
    /// Columns for kubectl, of custom resources.
    pub columns: Vec<PrinterColumn>,
    /// Fields of custom resources that can be selected by, as JSON paths.
    pub selectable_fields: Vec<String>,
    /// Groups of kinds that kubectl takes, such as `all`.
    pub categories: Vec<String>,
    /// Whether a PUT without a version is taken.
    pub takes_blind_updates: bool,
}

/// A column that a CustomResourceDefinition asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct PrinterColumn {
    /// The heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// Where the value is in the object.
    pub path: String,
    /// Above 0 it is shown in wide tables only.
    pub priority: i64,
}

/// The key of Pods.
pub const PODS: &str = "/pods";
/// The key of namespaces.
pub const NAMESPACES: &str = "/namespaces";
/// The key of events as objects.
pub const EVENTS: &str = "/events";
/// The key of the definitions of custom resources.
pub const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";

impl Resource {
    /// The version as objects name it.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The key of its objects in the cluster's memory.
    pub fn key(&self) -> String {
        format!("{}/{}", self.group, self.plural)
    }

    /// The resource that a CustomResourceDefinition defines; `None` when it defines none that can be served.
    pub fn of_definition(definition: &Value) -> Option<Self> {
        let spec = &definition["spec"];
        let names = &spec["names"];
        let text = |value: &Value| value.as_str().map(str::to_string);
        let version = spec["versions"].as_array()?.iter().find(|version| version["served"] == true)?;
        let kind = text(&names["kind"])?;
        Some(Self {
            group: text(&spec["group"])?,
            version: text(&version["name"])?,
            plural: text(&names["plural"])?,
            singular: text(&names["singular"]).unwrap_or_else(|| kind.to_lowercase()),
            kind,
            short_names: names["shortNames"].as_array().into_iter().flatten().filter_map(text).collect(),
            namespaced: spec["scope"] == "Namespaced",
            has_status: version["subresources"].get("status").is_some(),
            schema: Some(version["schema"].get("openAPIV3Schema").cloned().unwrap_or(Value::Bool(true))),
            columns: version["additionalPrinterColumns"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|column| {
                    Some(PrinterColumn {
                        name: text(&column["name"])?,
                        kind: text(&column["type"])?,
                        path: text(&column["jsonPath"])?,
                        priority: column["priority"].as_i64().unwrap_or(0),
                    })
                })
                .collect(),
            selectable_fields: version["selectableFields"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|field| text(&field["jsonPath"]))
                .collect(),
            categories: names["categories"].as_array().into_iter().flatten().filter_map(text).collect(),
            takes_blind_updates: false,
        })
    }

    /// Whether it was defined by a CustomResourceDefinition.
    pub fn is_custom(&self) -> bool {
        self.schema.is_some()
    }
}

/// The kinds that are always there.
pub fn built_in() -> Vec<Resource> {
    let resource =
        |group: &str, version: &str, plural: &str, kind: &str, short: &[&str], namespaced, has_status| {
            Resource {
                group: group.into(),
                version: version.into(),
                plural: plural.into(),
                singular: kind.to_lowercase(),
                kind: kind.into(),
                short_names: short.iter().map(ToString::to_string).collect(),
                namespaced,
                has_status,
                schema: None,
                columns: Vec::new(),
                selectable_fields: Vec::new(),
                categories: if plural == "pods" || plural == "services" {
                    vec!["all".into()]
                } else {
                    Vec::new()
                },
                takes_blind_updates: !matches!(plural, "leases" | "customresourcedefinitions"),
            }
        };
    vec![
        resource("", "v1", "namespaces", "Namespace", &["ns"], false, true),
        resource("", "v1", "nodes", "Node", &["no"], false, true),
        resource("", "v1", "pods", "Pod", &["po"], true, true),
        resource("", "v1", "configmaps", "ConfigMap", &["cm"], true, false),
        resource("", "v1", "secrets", "Secret", &[], true, false),
        resource("", "v1", "serviceaccounts", "ServiceAccount", &["sa"], true, false),
        resource("", "v1", "services", "Service", &["svc"], true, true),
        resource("", "v1", "events", "Event", &["ev"], true, false),
        resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", &["pvc"], true, true),
        resource("coordination.k8s.io", "v1", "leases", "Lease", &[], true, false),
        resource(
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            &["crd", "crds"],
            false,
            true,
        ),
    ]
}
