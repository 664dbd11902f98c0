//! The end of a download, of which rules are told: its body was given to the connection, or its
//! client was gone before.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::CONTENT_LENGTH;
use axum::response::Response;
use bytes::Bytes;
use entrepot_vfs::{CommandReply, RunningCommand};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::runtime::Handle;

use super::client::WebClient;

/// What rules are told in place of a status when not all was sent, as nginx writes it.
const CLIENT_GONE: u16 = 499;

/// An answer whose end is told of.
pub(super) fn of_body(
    client: Arc<WebClient>,
    command: RunningCommand,
    response: Response,
) -> Response {
    let length = response.headers().get(CONTENT_LENGTH).and_then(|it| it.to_str().ok());
    let length = length.and_then(|length| length.parse().ok());
    let command = Some((client, command));
    let told = Told { command, status: response.status(), length, sent: 0, is_over: false };
    response.map(|inner| Body::new(ToldBody { inner, told }))
}

struct ToldBody {
    inner: Body,
    told: Told,
}

/// Tells how it ended when it is dropped: of a body whose length is known nobody asks for the end.
struct Told {
    /// `None`: it was told.
    command: Option<(Arc<WebClient>, RunningCommand)>,
    status: StatusCode,
    /// Bytes that it has, as far as its head says.
    length: Option<u64>,
    sent: u64,
    is_over: bool,
}

impl HttpBody for ToldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.inner).poll_frame(cx);
        match &frame {
            Poll::Ready(Some(Ok(frame))) => {
                let count = frame.data_ref().map_or(0, Bytes::len) as u64;
                self.told.sent = self.told.sent.saturating_add(count);
            }
            Poll::Ready(None) => self.told.is_over = true,
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let Some((client, mut command)) = self.command.take() else { return };
        let is_whole = self.is_over || self.length == Some(self.sent);
        let code = if is_whole { self.status.as_u16() } else { CLIENT_GONE };
        command.moved(self.sent);
        let reply = CommandReply { code, is_replaceable: false };
        // Without a runtime the process is at its end.
        let Ok(runtime) = Handle::try_current() else { return };
        let held = client.context.connection.meter.waited_for();
        runtime.spawn(async move {
            // The bytes are with the client: nothing takes their place.
            let _ = client.inform(command, reply).await;
            drop(held);
        });
    }
}
