//! What a cluster needs before it can be used.

use crate::task_action::{TaskAction, crd};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, CustomResourceExt};

/// Why a cluster cannot be used, as a sentence.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The resource is not defined, and we may not define it.
    #[error(
        "the cluster does not know TaskActions and the definition could not be applied: {0}; have an administrator run \
         'flyte-manager crd | kubectl apply -f -'"
    )]
    Definition(String),
    /// The namespace is not there, and we may not make it.
    #[error(
        "namespace '{namespace}' could not be created: {reason}; create it or set manager.kubernetes.namespace"
    )]
    Namespace {
        /// Its name.
        namespace: String,
        /// Why.
        reason: String,
    },
}

/// Defines TaskActions. Without the right to do so it is enough that they are defined already.
///
/// # Errors
/// When they are not.
pub async fn install_crd(client: &Client, namespace: &str) -> Result<(), SetupError> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let patch = Patch::Apply(crd());
    match definitions
        .patch(TaskAction::crd_name(), &PatchParams::apply("flyte-manager").force(), &patch)
        .await
    {
        Ok(_) => Ok(()),
        Err(error) => {
            let known: Api<TaskAction> = Api::namespaced(client.clone(), namespace);
            match known.list(&ListParams::default().limit(1)).await {
                Ok(_) => {
                    tracing::warn!(%error, "the definition of TaskActions could not be brought up to date; the one that is there is used");
                    Ok(())
                }
                Err(_) => Err(SetupError::Definition(error.to_string())),
            }
        }
    }
}

/// Makes sure that the namespace is there.
///
/// # Errors
/// When it is not and cannot be made.
pub async fn ensure_namespace(client: &Client, namespace: &str) -> Result<(), SetupError> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let failed =
        |error: kube::Error| SetupError::Namespace { namespace: namespace.into(), reason: error.to_string() };
    match namespaces.get_opt(namespace).await {
        Ok(Some(_)) => return Ok(()),
        // Without the right to look, the first Pod will tell.
        Err(kube::Error::Api(status)) if status.code == 403 => return Ok(()),
        Ok(None) => {}
        Err(error) => return Err(failed(error)),
    }
    let mut object = Namespace::default();
    object.metadata.name = Some(namespace.to_string());
    match namespaces.create(&PostParams::default(), &object).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(failed(error)),
    }
}
