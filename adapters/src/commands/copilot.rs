//! The helpers of raw containers, inside their Pods.

use crate::cli::Copilot;
use base64::Engine;
use flyte_kubernetes::copilot::{Upload, download, upload};
use flyte_objects::Objects;
use flyte_proto::core::TypedInterface;
use prost::Message;
use std::path::Path;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

/// Runs one of the helpers.
pub async fn run(way: Copilot) -> Result<ExitCode, String> {
    match way {
        Copilot::Download { inputs_uri, dir, format } => {
            let objects = storage(&inputs_uri)?;
            download(&objects, &inputs_uri, &dir, &format).await.map_err(|error| error.to_string())?;
        }
        Copilot::Upload { dir, outputs_prefix, interface, format: _ } => {
            // First of all: a task may be over in a moment, and whoever does not listen yet is ended unheard.
            let mut ended = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(interface)
                .map_err(|error| format!("--interface is not base 64: {error}"))?;
            let interface = TypedInterface::decode(bytes.as_slice())
                .map_err(|error| format!("--interface is not a TypedInterface: {error}"))?;
            // The Pod's end of life is told by the signal that sidecars get once the containers have ended.
            ended.recv().await;
            let objects = storage(&outputs_prefix)?;
            let what = Upload { dir: &dir, outputs_prefix: &outputs_prefix, interface: &interface };
            upload(&objects, &what).await.map_err(|error| error.to_string())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The storage that a URI lies in: a directory of this machine or of a volume.
fn storage(uri: &str) -> Result<Objects, String> {
    let path = uri.strip_prefix("file://").unwrap_or(uri);
    if !path.starts_with('/') {
        return Err(format!(
            "'{uri}' is in a storage that this version cannot reach; only file:// is supported"
        ));
    }
    Objects::directory(Path::new("/")).map_err(|error| error.to_string())
}
