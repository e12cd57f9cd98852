//! How the executor works.

use flyte_core::plan;
use std::collections::BTreeMap;

/// How the executor works.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The most actions that are worked on at once.
    pub max_concurrent: usize,
    /// How often every action is looked at anew, in milliseconds.
    pub resync_ms: u64,
    /// Times to live, graces and patience.
    pub plan: plan::Settings,
    /// Where task processes reach the services: `host:port`.
    pub endpoint: String,
    /// The image with this program in it, for raw containers; `None` refuses them.
    pub copilot_image: Option<String>,
    /// The service account of Pods whose run names none.
    pub service_account: Option<String>,
    /// Variables of every task container.
    pub env: BTreeMap<String, String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_concurrent: 32,
            resync_ms: 60_000,
            plan: plan::Settings::default(),
            endpoint: String::new(),
            copilot_image: None,
            service_account: None,
            env: BTreeMap::new(),
        }
    }
}
