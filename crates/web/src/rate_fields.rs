//! What a client may know of the limit of requests (draft-ietf-httpapi-ratelimit-headers-10). The
//! limit is of requests at once over all connections of the listener, so there is no time after
//! which it begins anew.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::connection::Connection;
use crate::shared::ListenerShared;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// How many requests at once there may be, and how many more there may be now.
pub(crate) struct RateFields {
    most: usize,
    left: usize,
    of_api: OfApi,
}

/// Whether a request is of the API.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OfApi {
    Yes,
    No,
}

impl RateFields {
    /// While the request counts already; `None`: who asks is nobody that the listener lets in.
    pub(crate) fn of(
        shared: &ListenerShared,
        connection: &Connection,
        path: &str,
    ) -> Option<RateFields> {
        if connection.why_unwelcome().is_some() {
            return None;
        }
        let most = connection.config.requests();
        let left = most.saturating_sub(shared.running());
        let of_api = if path.starts_with("/api/") { OfApi::Yes } else { OfApi::No };
        Some(RateFields { most, left, of_api })
    }

    /// True for answers of the API to somebody, and for those that the limit causes.
    pub(crate) fn belongs_to(&self, status: StatusCode) -> bool {
        status == StatusCode::SERVICE_UNAVAILABLE
            || (self.of_api == OfApi::Yes && status != StatusCode::UNAUTHORIZED)
    }

    pub(crate) fn write(&self, fields: &mut HeaderMap) {
        let policy = format!("\"requests\";q={};qu=\"concurrent-requests\"", self.most);
        let limit = format!("\"requests\";r={}", self.left);
        for (name, text) in [(POLICY, policy), (LIMIT, limit)] {
            // The invariant: both are ASCII.
            if let Ok(value) = HeaderValue::try_from(text) {
                fields.insert(name, value);
            }
        }
    }
}
