//! Tables for `kubectl get`
//! (<https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables>).

mod columns;
mod pod;

use super::resource::Resource;
use columns::columns;
use flyte_core::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

/// How much of the objects is in the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Include {
    /// Nothing.
    None,
    /// Their metadata.
    #[default]
    Metadata,
    /// All of them.
    Object,
}

impl Include {
    /// The value of the parameter `includeObject`.
    pub fn of(text: &str) -> Self {
        match text {
            "None" => Self::None,
            "Object" => Self::Object,
            _ => Self::Metadata,
        }
    }
}

/// The objects as rows.
pub fn table(
    resource: &Resource,
    items: &[Arc<Value>],
    metadata: Value,
    include: Include,
    now: Timestamp,
) -> Value {
    let columns = columns(resource);
    let definitions: Vec<Value> = columns
        .iter()
        .map(|column| {
            json!({
                "name": column.name,
                "type": column.kind,
                "format": if column.name == "Name" { "name" } else { "" },
                "description": column.name,
                "priority": column.priority,
            })
        })
        .collect();
    let rows: Vec<Value> = items
        .iter()
        .map(|object| {
            let cells: Vec<Value> = columns.iter().map(|column| (column.cell)(object, now)).collect();
            match include {
                Include::None => json!({"cells": cells, "object": null}),
                Include::Object => json!({"cells": cells, "object": object.as_ref()}),
                Include::Metadata => json!({"cells": cells, "object": {
                    "kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": object["metadata"],
                }}),
            }
        })
        .collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": rows,
    })
}

/// How long ago, as kubectl writes it.
fn age(time: &Value, now: Timestamp) -> Value {
    let Some(time) = time.as_str().and_then(Timestamp::parse) else { return json!("<unknown>") };
    json!(duration(now.since_ms(time) / 1_000))
}

/// A duration for people: two parts while it is short, one when it is long.
fn duration(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let two = |large: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{small_unit}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_kubectl_writes_them() {
        for (seconds, text) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (3_600, "60m"),
            (10_800, "3h"),
            (11_000, "3h3m"),
            (30_000, "8h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (700_000, "8d"),
            (63_072_000 + 86_400, "2y1d"),
            (300_000_000, "9y"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }
}
