//! A request and how its parts are read.

use crate::api_server::cluster::{Deletion, How, Policy};
use crate::api_server::resource::Resource;
use crate::api_server::selector::Selector;
use crate::api_server::status::Refused;
use crate::api_server::table::Include;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method, header};
use flyte_core::text;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Objects as they are.
    Whole,
    /// Their metadata alone.
    Metadata,
    /// A table for people.
    Table(Include),
}

/// A request without its path.
pub struct Call {
    /// The method.
    pub method: Method,
    query: BTreeMap<String, String>,
    headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

impl Call {
    /// Takes a request apart.
    pub fn new(method: Method, query: &str, headers: HeaderMap, body: Bytes) -> Self {
        let decode =
            |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
        let query = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(name, value)| (decode(name), decode(value)))
            .collect();
        Self { method, query, headers, body }
    }

    /// A parameter; empty when it is missing.
    pub fn text(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }

    /// Whether a parameter is true.
    pub fn is_on(&self, name: &str) -> bool {
        matches!(self.text(name), "true" | "1")
    }

    /// A parameter that is a number.
    pub fn number(&self, name: &str) -> Result<Option<u64>, Refused> {
        match self.text(name) {
            "" => Ok(None),
            number => number.parse().map(Some).map_err(|_| {
                let number = text::bounded(number, 64);
                Refused::bad_request(format!("the parameter {name} must be a number, not '{number}'"))
            }),
        }
    }

    /// A header; empty when it is missing or no text.
    pub fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }

    /// The form in which the answer is to be.
    pub fn form(&self) -> Form {
        let accept = self.header(header::ACCEPT);
        if accept.contains("as=Table") {
            Form::Table(Include::of(self.text("includeObject")))
        } else if accept.contains("as=PartialObjectMetadata") {
            Form::Metadata
        } else {
            Form::Whole
        }
    }

    /// Which objects are meant.
    pub fn selector(&self, resource: &Resource) -> Result<Selector, Refused> {
        Selector::parse(resource, self.text("labelSelector"), self.text("fieldSelector"))
    }

    /// How a write is to be done.
    pub fn how(&self) -> Result<How, Refused> {
        let dry_run = match self.text("dryRun") {
            "" => false,
            "All" => true,
            other => {
                let other = text::bounded(other, 64);
                return Err(Refused::bad_request(format!("the parameter dryRun must be All, not '{other}'")));
            }
        };
        let strict = match self.text("fieldValidation") {
            "" | "Ignore" | "Warn" => false,
            "Strict" => true,
            other => {
                let other = text::bounded(other, 64);
                return Err(Refused::bad_request(format!(
                    "the parameter fieldValidation must be Ignore, Warn or Strict, not '{other}'"
                )));
            }
        };
        Ok(How { dry_run, strict })
    }

    /// How a deletion is to be done, from the body and the query.
    pub fn deletion(&self) -> Result<Deletion, Refused> {
        let body = if self.body.is_empty() { json!({}) } else { self.value()? };
        let text = |value: &Value| value.as_str().map(str::to_string);
        let grace_s = match self.number("gracePeriodSeconds")? {
            Some(seconds) => i64::try_from(seconds).ok(),
            None => body["gracePeriodSeconds"].as_i64(),
        };
        let policy = match self.text("propagationPolicy") {
            "" => body["propagationPolicy"].as_str().unwrap_or_default(),
            policy => policy,
        };
        let policy = match policy {
            "" if body["orphanDependents"] == true || self.is_on("orphanDependents") => Policy::Orphan,
            "" | "Background" => Policy::Background,
            "Foreground" => Policy::Foreground,
            "Orphan" => Policy::Orphan,
            other => {
                let other = text::bounded(other, 64);
                return Err(Refused::bad_request(format!(
                    "propagationPolicy must be Background, Foreground or Orphan, not '{other}'"
                )));
            }
        };
        let dry_run = body["dryRun"].as_array().is_some_and(|stages| !stages.is_empty());
        Ok(Deletion {
            grace_s,
            uid: text(&body["preconditions"]["uid"]),
            resource_version: text(&body["preconditions"]["resourceVersion"]),
            policy,
            dry_run: dry_run || self.how()?.dry_run,
        })
    }

    /// The body, in JSON or YAML.
    pub fn value(&self) -> Result<Value, Refused> {
        let kind = self.header(header::CONTENT_TYPE);
        if kind.contains("protobuf") || kind.contains("cbor") {
            return Err(Refused::unsupported(
                "the body of the request was in an unknown format - accepted media types include: application/json, \
                 application/yaml",
            ));
        }
        let unreadable = |form: &str, error: String| {
            Refused::bad_request(format!("the body is not valid {form}: {}", text::bounded(&error, 512)))
        };
        if !kind.contains("yaml") {
            return serde_json::from_slice(&self.body).map_err(|error| unreadable("JSON", error.to_string()));
        }
        // kube and kubectl send JSON by this name too, and JSON is read faster and more strictly.
        if let Ok(value) = serde_json::from_slice(&self.body) {
            return Ok(value);
        }
        let text = std::str::from_utf8(&self.body).map_err(|error| unreadable("UTF-8", error.to_string()))?;
        serde_saphyr::from_str(text).map_err(|error| unreadable("YAML", error.to_string()))
    }
}
