//! `flyteidl2.cluster.ClusterService`: which endpoint serves an operation.

use crate::Fault;
use crate::call::Call;
use crate::wire::registry::Registry;
use flyte_proto::cluster as c;

/// Registers the service's method.
pub fn register(registry: &mut Registry) {
    registry.unary("flyteidl2.cluster.ClusterService/SelectCluster", select);
}

/// Everything is served here: an empty endpoint tells clients to stay where they are.
async fn select(_: Call, _: c::SelectClusterRequest) -> Result<c::SelectClusterResponse, Fault> {
    Ok(c::SelectClusterResponse::default())
}
