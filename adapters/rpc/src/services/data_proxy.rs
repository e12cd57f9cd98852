//! `flyteidl2.dataproxy.DataProxyService`: inputs, outputs, code bundles, reports and logs.

use crate::Fault;
use crate::call::Call;
use crate::convert::{from_proto, to_proto};
use crate::http::files::{Grant, Way};
use crate::runs;
use crate::services::run_logs;
use crate::wire::registry::Registry;
use flyte_proto::dataproxy as d;
use futures::{Stream, StreamExt};

/// How long a link is good for when nobody says.
const LINK_MS: u64 = 3_600_000;
/// The longest that a link is good for.
const LINK_MAX_MS: u64 = 7 * 24 * 3_600_000;

/// Registers the service's methods.
pub fn register(registry: &mut Registry) {
    let at = |method: &str| format!("flyteidl2.dataproxy.DataProxyService/{method}");
    registry.unary(&at("CreateUploadLocation"), create_upload_location);
    registry.unary(&at("UploadInputs"), upload_inputs);
    registry.unary(&at("CreateDownloadLink"), create_download_link);
    registry.unary(&at("GetActionData"), get_action_data);
    registry.server_stream(&at("TailLogs"), tail_logs);
}

async fn create_upload_location(
    call: Call,
    request: d::CreateUploadLocationRequest,
) -> Result<d::CreateUploadLocationResponse, Fault> {
    let md5: [u8; 16] = request.content_md5.as_ref().try_into().map_err(|_| {
        Fault::invalid(
            "content_md5",
            format!("it has {} bytes, an MD5 digest has 16", request.content_md5.len()),
        )
    })?;
    let max = call.limits.upload_max_bytes;
    let length = u64::try_from(request.content_length)
        .map_err(|_| Fault::invalid("content_length", "it must not be negative"))?;
    if length > max {
        return Err(Fault::invalid(
            "content_length",
            format!("{length} bytes are more than the {max} that are taken"),
        ));
    }
    let digest = from_proto::hex(&md5);
    let dir = if request.filename_root.is_empty() { digest.as_str() } else { &request.filename_root };
    let name = if request.filename.is_empty() { "data" } else { &request.filename };
    let uri = format!(
        "{}/{}/uploads/{}/{}",
        runs::project_dir(&call, &request.org, &request.project),
        runs::segment(&request.domain),
        runs::segment(dir),
        name.split('/').filter(|part| !part.is_empty()).map(runs::segment).collect::<Vec<_>>().join("/"),
    );
    let expires_at = call.store.clock().now().plus_ms(link_ms(request.expires_in.as_ref()));
    let grant = Grant { way: Way::Put, uri: uri.clone(), md5: Some(md5), expires_at };
    Ok(d::CreateUploadLocationResponse {
        signed_url: grant.url(&call),
        native_url: uri,
        expires_at: Some(to_proto::timestamp(expires_at)),
        headers: Default::default(),
    })
}

async fn upload_inputs(
    call: Call,
    request: d::UploadInputsRequest,
) -> Result<d::UploadInputsResponse, Fault> {
    use d::upload_inputs_request::Id;
    let (org, project, domain) = match &request.id {
        Some(Id::RunId(id)) => (&id.org, &id.project, &id.domain),
        Some(Id::ProjectId(id)) => (&id.organization, &id.name, &id.domain),
        None => return Err(Fault::invalid("id", "one of run_id and project_id is required")),
    };
    let bytes = request.inputs.as_ref().map_or(&[][..], |inputs| inputs.as_bytes());
    let digest = from_proto::digest(&[b"inputs", bytes]);
    let dir = match request.base_dir.trim_end_matches('/') {
        "" => format!("{}/{}/uploads", runs::project_dir(&call, org, project), runs::segment(domain)),
        base => base.to_string(),
    };
    let uri = runs::inputs_place(&dir, &digest);
    call.objects.put(&uri, bytes.to_vec().into()).await.map_err(|error| match error {
        flyte_objects::ObjectError::Elsewhere { .. } => Fault::invalid("base_dir", error.to_string()),
        error => error.into(),
    })?;
    Ok(d::UploadInputsResponse {
        offloaded_input_data: Some(flyte_proto::common::OffloadedInputData { uri, inputs_hash: digest }),
    })
}

async fn create_download_link(
    call: Call,
    request: d::CreateDownloadLinkRequest,
) -> Result<d::CreateDownloadLinkResponse, Fault> {
    use d::create_download_link_request::Source;
    let id = match &request.source {
        Some(Source::ActionAttemptId(id)) => id,
        Some(_) => {
            return Err(Fault::invalid(
                "source",
                "links are made for action_attempt_id only by this version",
            ));
        }
        None => return Err(Fault::invalid("source", "it is required")),
    };
    let action_id = from_proto::required_action_id(id.action_id.as_ref(), "action_attempt_id.action_id")?;
    let row = runs::required_action(&call, &action_id).await?;
    let uri = match request.artifact_type() {
        d::ArtifactType::Report => format!("{}/report.html", row.action.output_prefix(id.attempt)),
        d::ArtifactType::CodeBundle => runs::code_bundle(&call, &row)
            .await?
            .ok_or_else(|| Fault::not_found(format!("action {action_id} has no code bundle")))?,
        d::ArtifactType::Unspecified => return Err(Fault::invalid("artifact_type", "it is required")),
    };
    if call.objects.size(&uri).await?.is_none() {
        return Err(Fault::not_found(format!("there is no object '{uri}'")));
    }
    let expires_at = call.store.clock().now().plus_ms(link_ms(request.expires_in.as_ref()));
    let grant = Grant { way: Way::Get, uri, md5: None, expires_at };
    Ok(d::CreateDownloadLinkResponse {
        pre_signed_urls: Some(d::PreSignedUrLs {
            signed_url: vec![grant.url(&call)],
            expires_at: Some(to_proto::timestamp(expires_at)),
        }),
    })
}

fn link_ms(wish: Option<&prost_types::Duration>) -> u64 {
    from_proto::duration_ms(wish).unwrap_or(LINK_MS).min(LINK_MAX_MS)
}

async fn get_action_data(
    call: Call,
    request: d::GetActionDataRequest,
) -> Result<d::GetActionDataResponse, Fault> {
    let id = from_proto::required_action_id(request.action_id.as_ref(), "action_id")?;
    let data = runs::data(&call, &id, true).await?;
    Ok(d::GetActionDataResponse {
        inputs: Some(data.inputs),
        outputs: Some(data.outputs),
        inputs_uri: data.inputs_uri,
        outputs_uri: data.outputs_uri,
    })
}

fn tail_logs(
    call: Call,
    request: d::TailLogsRequest,
) -> impl Stream<Item = Result<d::TailLogsResponse, Fault>> + Send {
    async_stream::try_stream! {
        let id = from_proto::required_action_id(request.action_id.as_ref(), "action_id")?;
        let pages = run_logs::pages(call, id, request.attempt);
        futures::pin_mut!(pages);
        while let Some(lines) = pages.next().await {
            let lines = lines?;
            yield d::TailLogsResponse { logs: vec![d::tail_logs_response::Logs { lines, container: None }] };
        }
    }
}
