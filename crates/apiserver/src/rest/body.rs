//! Request bodies: JSON, or YAML where kubectl sends it.

use axum::http::{HeaderMap, header};
use serde_json::Value;

use super::protobuf;
use crate::status::{Failure, Result};

/// Reads an object in the format the headers declare.
pub fn object(headers: &HeaderMap, body: &[u8]) -> Result<Value> {
    let media = headers
        .get(header::CONTENT_TYPE)
        .and_then(|v| v.to_str().ok())
        .unwrap_or("application/json");
    if media.starts_with(protobuf::MEDIA) {
        return protobuf::decode(body);
    }
    if !media.contains("json") && !media.contains("yaml") {
        return Err(Failure::unsupported_media(media, "application/json, application/yaml"));
    }
    parse(body)
}

/// Reads an object from JSON, or else from YAML (of which JSON is a part).
pub fn parse(body: &[u8]) -> Result<Value> {
    let value = match serde_json::from_slice(body) {
        Ok(value) => value,
        Err(error) => {
            let text = std::str::from_utf8(body).map_err(|e| Failure::bad_request(format!("error decoding body: {e}")))?;
            if text.trim_start().starts_with('{') || text.trim().is_empty() {
                return Err(Failure::bad_request(format!("error decoding body: {error}")));
            }
            serde_saphyr::from_str(text).map_err(|e| Failure::bad_request(format!("error decoding body: {e}")))?
        }
    };
    match value {
        Value::Object(_) => Ok(value),
        _ => Err(Failure::bad_request("error decoding body: an object is expected")),
    }
}
