//! Inputs, outputs, logs and bundles: objects under URIs, in a directory or in memory.
//!
//! Clients and task processes read and write the same URIs with their own storage layers, so a URI is passed on
//! unchanged and only resolved here.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

use bytes::Bytes;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use std::path::Path;
use std::sync::Arc;

/// Where objects are kept.
#[derive(Clone, Debug)]
pub struct Objects {
    base_uri: String,
    store: Arc<dyn ObjectStore>,
}

/// Why an object could not be read or written. The text is a sentence that names the object.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The URI does not lie under the configured storage.
    #[error("'{uri}' is not under the storage '{base}'; set storage.dir to where it is")]
    Elsewhere {
        /// The URI.
        uri: String,
        /// The storage's own URI.
        base: String,
    },
    /// The object is larger than allowed.
    #[error("'{uri}' has {bytes} bytes, more than the {limit} that are read")]
    TooLarge {
        /// The URI.
        uri: String,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The store failed.
    #[error("storage failed at '{uri}': {reason}")]
    Failed {
        /// The URI.
        uri: String,
        /// What the store said.
        reason: String,
    },
}

impl Objects {
    /// Objects as files under a directory, which is created when it is missing. URIs are `file:///absolute/path`.
    ///
    /// # Errors
    /// When the directory can neither be found nor made.
    pub fn directory(dir: &Path) -> Result<Self, ObjectError> {
        let failed = |reason: String| ObjectError::Failed { uri: dir.display().to_string(), reason };
        std::fs::create_dir_all(dir).map_err(|error| failed(error.to_string()))?;
        let dir = dir.canonicalize().map_err(|error| failed(error.to_string()))?;
        let text = dir.to_str().ok_or_else(|| failed("its path is not valid UTF-8".into()))?;
        let store = object_store::local::LocalFileSystem::new_with_prefix(&dir)
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self { base_uri: format!("file://{}", text.trim_end_matches('/')), store: Arc::new(store) })
    }

    /// Objects in memory, under URIs that begin with `base_uri`, for tests and the simulator.
    pub fn in_memory(base_uri: &str) -> Self {
        Self::with_store(base_uri, Arc::new(object_store::memory::InMemory::new()))
    }

    /// Objects in any store.
    pub fn with_store(base_uri: &str, store: Arc<dyn ObjectStore>) -> Self {
        Self { base_uri: base_uri.trim_end_matches('/').to_string(), store }
    }

    /// The URI that all objects lie under, without a slash at its end.
    pub fn base_uri(&self) -> &str {
        &self.base_uri
    }

    /// Reads an object of at most `limit` bytes; `None` when there is none.
    ///
    /// # Errors
    /// When the URI is elsewhere, the object too large, or the store fails.
    pub async fn get(&self, uri: &str, limit: u64) -> Result<Option<Bytes>, ObjectError> {
        let path = self.path(uri)?;
        let failed = |error: object_store::Error| ObjectError::Failed {
            uri: uri.to_string(),
            reason: error.to_string(),
        };
        let found = match self.store.get(&path).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        if found.meta.size > limit {
            return Err(ObjectError::TooLarge { uri: uri.to_string(), bytes: found.meta.size, limit });
        }
        found.bytes().await.map(Some).map_err(failed)
    }

    /// Writes an object, whole or not at all.
    ///
    /// # Errors
    /// When the URI is elsewhere or the store fails.
    pub async fn put(&self, uri: &str, bytes: Bytes) -> Result<(), ObjectError> {
        let path = self.path(uri)?;
        match self.store.put(&path, PutPayload::from_bytes(bytes)).await {
            Ok(_) => Ok(()),
            Err(error) => Err(ObjectError::Failed { uri: uri.to_string(), reason: error.to_string() }),
        }
    }

    /// The size of an object in bytes; `None` when there is none.
    ///
    /// # Errors
    /// When the URI is elsewhere or the store fails.
    pub async fn size(&self, uri: &str) -> Result<Option<u64>, ObjectError> {
        match self.store.head(&self.path(uri)?).await {
            Ok(meta) => Ok(Some(meta.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(ObjectError::Failed { uri: uri.to_string(), reason: error.to_string() }),
        }
    }

    /// The place of a URI in the store. What tries to leave the storage is elsewhere.
    fn path(&self, uri: &str) -> Result<ObjectPath, ObjectError> {
        let elsewhere = || ObjectError::Elsewhere { uri: uri.to_string(), base: self.base_uri.clone() };
        let bare = self.base_uri.strip_prefix("file://");
        let rest = uri
            .strip_prefix(&self.base_uri)
            .or_else(|| bare.and_then(|bare| uri.strip_prefix(bare)))
            .filter(|rest| rest.is_empty() || rest.starts_with('/'))
            .ok_or_else(elsewhere)?;
        if rest.split('/').any(|part| part == ".." || part == ".") {
            return Err(elsewhere());
        }
        Ok(rest.split('/').filter(|part| !part.is_empty()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_put_is_read_back_and_absent_objects_are_none() {
        let dir = tempfile::tempdir().unwrap();
        for objects in [Objects::directory(dir.path()).unwrap(), Objects::in_memory("mem://x")] {
            let uri = format!("{}/p/d/run/a0/1/outputs.pb", objects.base_uri());
            assert_eq!(objects.get(&uri, 10).await.unwrap(), None);
            objects.put(&uri, Bytes::from_static(b"hello")).await.unwrap();
            assert_eq!(objects.get(&uri, 10).await.unwrap(), Some(Bytes::from_static(b"hello")));
            assert_eq!(objects.size(&uri).await.unwrap(), Some(5));
            assert_eq!(
                objects.get(&uri, 4).await.unwrap_err().to_string(),
                format!("'{uri}' has 5 bytes, more than the 4 that are read")
            );
        }
        let file = dir.path().join("p/d/run/a0/1/outputs.pb");
        assert_eq!(std::fs::read(file).unwrap(), b"hello");
    }

    #[tokio::test]
    async fn a_bare_path_means_the_same_object() {
        let dir = tempfile::tempdir().unwrap();
        let objects = Objects::directory(dir.path()).unwrap();
        let uri = format!("{}/x/inputs.pb", objects.base_uri());
        objects.put(&uri, Bytes::from_static(b"1")).await.unwrap();
        let bare = uri.strip_prefix("file://").unwrap();
        assert_eq!(objects.get(bare, 10).await.unwrap(), Some(Bytes::from_static(b"1")));
    }

    #[tokio::test]
    async fn nothing_outside_of_the_storage_is_touched() {
        let dir = tempfile::tempdir().unwrap();
        let objects = Objects::directory(&dir.path().join("in")).unwrap();
        let base = objects.base_uri().to_string();
        for uri in [
            "file:///etc/passwd",
            "/etc/passwd",
            "s3://b/k",
            "",
            &format!("{base}/../x"),
            &format!("{base}x/y"),
        ] {
            assert!(matches!(objects.get(uri, 10).await, Err(ObjectError::Elsewhere { .. })), "{uri}");
            assert!(
                matches!(objects.put(uri, Bytes::new()).await, Err(ObjectError::Elsewhere { .. })),
                "{uri}"
            );
        }
    }
}
