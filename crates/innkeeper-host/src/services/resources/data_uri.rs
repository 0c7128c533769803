//! `data:` URIs as resources: the host reads them itself.

use innkeeper_core::data_uri::decode;
pub(crate) use innkeeper_core::data_uri::is_data;

use super::{Content, ResourceError};

/// The content of such a URI.
pub(crate) fn read(uri: &str) -> Result<Content, ResourceError> {
    let (bytes, content_type) = decode(uri).map_err(|problem| ResourceError::Invalid {
        field: "uri",
        problem: problem.to_owned(),
    })?;
    Ok(Content { bytes, content_type })
}
