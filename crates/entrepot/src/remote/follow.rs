//! The stream of new events of a server elsewhere (server-sent events, HTML Living Standard §9.2),
//! over as many connections as it takes.
//!
//! What it guarantees: each event is printed once, in order. A connection that ends or breaks is
//! followed by another one, which goes on behind the last event that came whole; only what more
//! tries cannot help ends it.

use std::time::Duration;

use entrepot_admin::{EventQuery, NumberedEvent};
use entrepot_net::http::{Body, HttpError, StatusCode};
use entrepot_web::remote::{self, RemoteError};
use serde_json::Value;

use super::{RemoteServer, failed};
use crate::failure::Failure;

/// A stream in which nothing happens gets a comment every 15 seconds.
const STREAM_TIME: Duration = Duration::from_secs(60);
/// Longest event of a stream.
const EVENT_BYTES: usize = 16 << 20;
/// Between connections: doubled with each that the server does not take.
const PAUSES: Pauses = Pauses { first: Duration::from_secs(2), longest: Duration::from_secs(60) };

/// How long to wait before the next connection.
#[derive(Clone, Copy)]
struct Pauses {
    first: Duration,
    longest: Duration,
}

/// Why there are no more events on a connection.
enum StreamEnd {
    /// Another connection may bring more.
    Passing(String),
    /// No connection will.
    Lasting(Failure),
}

impl From<Failure> for StreamEnd {
    fn from(failure: Failure) -> Self {
        StreamEnd::Lasting(failure)
    }
}

impl RemoteServer {
    /// Calls `print` with each new event that passes `filter`, from behind the event `after`. It
    /// ends when `print` fails, and when the server refuses what trying again cannot change.
    pub(crate) async fn follow(
        &self,
        filter: &Value,
        after: i64,
        print: impl FnMut(&NumberedEvent) -> Result<(), Failure>,
    ) -> Failure {
        match serde_json::from_value(filter.clone()) {
            Ok(query) => {
                let server = self;
                Follower { server, filter, query, after, print }.run(PAUSES).await
            }
            Err(error) => self.refused(RemoteError::Request(error.to_string())),
        }
    }

    /// What a connection ends with that broke, or was not made.
    fn broken(&self, error: &HttpError) -> StreamEnd {
        let failure = failed(&self.url, error);
        if error.is_temporary() {
            return StreamEnd::Passing(failure.to_string());
        }
        StreamEnd::Lasting(failure)
    }
}

struct Follower<'a, P> {
    server: &'a RemoteServer,
    filter: &'a Value,
    /// The same, for what a stream does not filter by.
    query: EventQuery,
    /// Behind which event the next connection begins.
    after: i64,
    print: P,
}

impl<P: FnMut(&NumberedEvent) -> Result<(), Failure>> Follower<'_, P> {
    async fn run(mut self, pauses: Pauses) -> Failure {
        let mut pause = pauses.first;
        loop {
            let (why, next_pause) = match self.connect().await {
                Ok(stream) => {
                    pause = pauses.first;
                    match self.read(stream).await {
                        Ok(()) => ("the server has ended the stream".to_owned(), pause),
                        Err(StreamEnd::Passing(why)) => (why, pause),
                        Err(StreamEnd::Lasting(failure)) => return failure,
                    }
                }
                Err(StreamEnd::Passing(why)) => (why, (pause * 2).min(pauses.longest)),
                Err(StreamEnd::Lasting(failure)) => return failure,
            };
            let (seconds, after) = (pause.as_secs(), self.after);
            let why = crate::table::printable(&why);
            eprintln!("{why}; connecting again in {seconds} s, for what comes behind {after}");
            tokio::time::sleep(pause).await;
            pause = next_pause;
        }
    }

    /// The body of a stream from behind the last event.
    async fn connect(&self) -> Result<Body, StreamEnd> {
        let server = self.server;
        let call = remote::event_stream(self.filter, self.after, server.site.as_ref());
        let call = call.map_err(|error| server.refused(error))?;
        let answer = server.send(&call, STREAM_TIME).await;
        let answer = answer.map_err(|error| server.broken(&error))?;
        if answer.status == StatusCode::OK {
            return Ok(answer.body);
        }
        let passes = answer.status.is_server_error()
            || matches!(answer.status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
        let (status, body) = server.whole(answer).await?;
        let failure = server.refused(remote::refusal(status, &body));
        Err(if passes { StreamEnd::Passing(failure.to_string()) } else { failure.into() })
    }

    /// Prints what comes until the stream ends.
    async fn read(&mut self, mut body: Body) -> Result<(), StreamEnd> {
        let server = self.server;
        let mut pending = Vec::new();
        let mut data = None;
        loop {
            let received = body.next().await.map_err(|error| server.broken(&error))?;
            let Some(received) = received else { return Ok(()) };
            pending.extend_from_slice(&received);
            if pending.len() > EVENT_BYTES {
                return Err(server.odd("an event is too long").into());
            }
            while let Some(at) = pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = pending.drain(..=at).collect();
                if let Some(line) = line.strip_prefix(b"data: ") {
                    data = Some(line.to_vec());
                }
                // An event is whole with the empty line behind it.
                if line == b"\n"
                    && let Some(event) = data.take()
                {
                    self.take(&event)?;
                }
            }
        }
    }

    fn take(&mut self, event: &[u8]) -> Result<(), Failure> {
        let event: NumberedEvent =
            serde_json::from_slice(event).map_err(|error| self.server.odd(&error.to_string()))?;
        let at = event.event.at;
        if self.query.since.is_none_or(|since| at >= since)
            && self.query.until.is_none_or(|until| at < until)
        {
            (self.print)(&event)?;
        }
        self.after = event.sequence;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use entrepot_net::http::{Client, HeaderValue};
    use entrepot_net::tls::ServerTrust;
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                          transfer-encoding: chunked\r\n\r\n";
    /// Nothing waits in a test.
    const NONE: Pauses = Pauses { first: Duration::ZERO, longest: Duration::ZERO };

    fn server_at(address: SocketAddr) -> RemoteServer {
        RemoteServer {
            url: format!("http://{address}"),
            client: Client::new(ServerTrust::System),
            authorization: HeaderValue::from_static("Bearer x"),
            site: None,
        }
    }

    fn event(sequence: i64) -> String {
        let id = "0193a5e0-0000-7000-8000-000000000001";
        let event = json!({
            "sequence": sequence, "id": id, "at": "2026-01-01T00:00:00Z", "site": id, "node": "n",
            "kind": "test.happened",
        });
        format!("id: {sequence}\nevent: test.happened\ndata: {event}\n\n")
    }

    fn chunk(text: &str) -> String {
        format!("{:x}\r\n{text}\r\n", text.len())
    }

    fn refusal(status: &str, code: &str) -> String {
        let body = json!({"code": code, "detail": "no"}).to_string();
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    }

    /// Gives each connection the next of `answers` and ends it; returns what each asked for.
    async fn serve(listener: TcpListener, answers: Vec<String>) -> Vec<String> {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            let head = String::from_utf8(head).unwrap();
            asked.push(head.lines().next().unwrap().to_owned());
        }
        asked
    }

    /// Follows a server that answers so; the events, the connections, and what ended it.
    async fn followed(answers: Vec<String>) -> (Vec<i64>, Vec<String>, Failure) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = server_at(listener.local_addr().unwrap());
        let serving = tokio::spawn(serve(listener, answers));
        let (filter, mut printed) = (json!({}), Vec::new());
        let follower = Follower {
            server: &server,
            filter: &filter,
            query: EventQuery::default(),
            after: 1,
            print: |event: &NumberedEvent| {
                printed.push(event.sequence);
                Ok(())
            },
        };
        let failure = follower.run(NONE).await;
        (printed, serving.await.unwrap(), failure)
    }

    #[tokio::test]
    async fn a_stream_that_breaks_goes_on_behind_the_last_whole_event() {
        let (second, third) = (event(2), event(3));
        let half = &third[..third.len() - 2];
        let (printed, asked, failure) = followed(vec![
            // Cut within an event and within a chunk.
            format!("{STREAM}{}{}", chunk(&second), &chunk(half)[..half.len() - 9]),
            refusal("503 Service Unavailable", "EP1002"),
            format!("{STREAM}{}0\r\n\r\n", chunk(&third)),
            refusal("401 Unauthorized", "EP1000"),
        ])
        .await;
        assert_eq!(printed, [2, 3]);
        let behind: Vec<bool> = asked
            .iter()
            .zip([1, 2, 2, 3])
            .map(|(line, after)| line.contains(&format!("last_event_id={after} ")))
            .collect();
        assert_eq!(behind, [true; 4], "{asked:?}");
        assert_eq!(failure.code, "EP1000");
    }

    #[tokio::test]
    async fn what_does_not_pass_ends_it() {
        for (status, code) in [("401 No", "EP1000"), ("403 No", "EP1003"), ("404 No", "EP0101")] {
            let (printed, asked, failure) = followed(vec![refusal(status, code)]).await;
            assert_eq!((printed.len(), asked.len(), failure.code.as_str()), (0, 1, code));
        }
    }
}
