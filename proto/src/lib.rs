//! The wire of Flyte 2: messages, clients, JSON and validation.
//!
//! Everything is made by this package's build from the `.proto` files beside it:
//!
//! * **Messages** are prost structs in modules named like their packages: `flyteidl2.workflow.CreateRunRequest` is
//!   [`workflow::CreateRunRequest`], a oneof `id` of it is `workflow::create_run_request::Id`. Maps are `BTreeMap`s and
//!   bytes are [`bytes::Bytes`].
//! * **Pass-through fields** have the type [`Raw`]: it keeps the bytes as they came, fields that this schema doesn't
//!   know included. See its documentation for how to look inside. Unknown fields elsewhere are dropped.
//! * **Clients** stand beside the messages (`workflow::run_service_client::RunServiceClient`) and run over any tonic
//!   channel.
//! * **JSON** is the canonical mapping of protobuf: [`json::encode`] and [`json::decode`].
//! * **Validation** enforces the rules of the schema: [`Validate::validate`] on any message.
//! * **Descriptors** are there as bytes ([`FILE_DESCRIPTOR_SET`], for server reflection) and parsed
//!   ([`DESCRIPTOR_POOL`]).

use std::sync::LazyLock;

use prost_reflect::DescriptorPool;

mod cel;
pub mod json;
mod raw;
pub mod validate;

#[allow(missing_docs, clippy::all, unreachable_patterns)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/include.rs"));
}

pub use generated::flyteidl2::{
    actions, app, auth, cluster, common, core, dataproxy, logs, notification, project, secret, settings,
    task, trigger, workflow,
};
pub use generated::google;
pub use raw::Raw;
pub use validate::{Validate, Violation};

/// The compiled schema, a serialized `google.protobuf.FileDescriptorSet` with all imports and validation options.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.binpb"));

/// The compiled schema, parsed.
pub static DESCRIPTOR_POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(FILE_DESCRIPTOR_SET)
        .expect("the build wrote these bytes from a pool that it had checked")
});
