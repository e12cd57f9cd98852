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
    /// Columns for kubectl: name, type, path.
    pub columns: Vec<(String, String, String)>,
}

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
            schema: version["schema"].get("openAPIV3Schema").cloned(),
            columns: version["additionalPrinterColumns"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|column| {
                    Some((text(&column["name"])?, text(&column["type"])?, text(&column["jsonPath"])?))
                })
                .collect(),
        })
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
