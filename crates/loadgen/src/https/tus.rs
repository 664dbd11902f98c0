//! Uploads by tus 1.0 (<https://tus.io/protocols/resumable-upload>), whose connections are cut and
//! which go on where the server says.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::body::Incoming;
use hyper::header::LOCATION;
use hyper::{Method, Response, StatusCode, Uri};
use tokio::time::sleep;

use super::connection::read;
use super::content::Content;
use super::error::BenchError;
use super::stream::{Field, Stream};
use crate::limits::{LOCKED_PAUSE, TUS_TRIES};

const OFFSET: &str = "upload-offset";

impl Stream {
    /// Creates an upload and sends all of it, in one request after each cut.
    pub(super) async fn upload_by_tus(&mut self, number: u64, size: u64) -> Result<(), BenchError> {
        let upload = self.create(number, size).await?;
        let cuts = self.shared.bench.cuts;
        let mut at = 0;
        for cut in 1..=cuts {
            let end = size.saturating_mul(cut) / (cuts + 1);
            if end > at {
                // That it breaks is what is wanted.
                let content = Content::range(&self.shared.pattern, at, size).cut_at(end);
                drop(self.patch(&upload, content, at).await);
            }
            self.let_go();
            self.line.cut().await;
            at = self.offset(&upload).await?;
        }
        let mut tries = 1;
        loop {
            let rest = Content::range(&self.shared.pattern, at, size);
            match self.patch(&upload, rest, at).await {
                Ok(got) if got == size => return Ok(()),
                Ok(got) => return Err(BenchError::Length { wanted: size, got }),
                // The server has read more of the last request since it was asked, and refuses
                // what does not begin there: in words, or by closing the connection.
                Err(_) if cuts > 0 && tries < TUS_TRIES => {
                    tries += 1;
                    self.let_go();
                    self.line.cut().await;
                    sleep(LOCKED_PAUSE).await;
                    at = self.offset(&upload).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The path of a new upload.
    async fn create(&mut self, number: u64, size: u64) -> Result<String, BenchError> {
        let name = format!("bench-tus-{}-{number}", self.number);
        let file = self.address(&name);
        let fields = [
            Field::tus(),
            Field { name: "upload-length", value: size.to_string() },
            Field {
                name: "upload-metadata",
                value: format!("filename {}", STANDARD.encode(&name)),
            },
        ];
        let address = self.shared.bench.tus_path.clone();
        let answer = self.send(Method::POST, &address, Content::none(), &fields).await?;
        let location = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let location = location.and_then(|value| value.parse::<Uri>().ok());
        let path = location.and_then(|uri| Some(uri.path_and_query()?.as_str().to_owned()));
        read("POST", answer).await?;
        let path = path.ok_or(BenchError::Field("Location"))?;
        // A server removes the one or the other, or both.
        self.stored.extend([path.clone(), file]);
        Ok(path)
    }

    /// Sends from `at` on; answers where the upload stands then.
    async fn patch(&mut self, upload: &str, content: Content, at: u64) -> Result<u64, BenchError> {
        let fields = [
            Field::tus(),
            Field { name: OFFSET, value: at.to_string() },
            Field { name: "content-type", value: "application/offset+octet-stream".to_owned() },
        ];
        let answer = self.send(Method::PATCH, upload, content, &fields).await?;
        let offset = offset(&answer);
        read("PATCH", answer).await?;
        offset
    }

    /// Where an upload stands. The server may not have noticed yet that the last request is over.
    async fn offset(&mut self, upload: &str) -> Result<u64, BenchError> {
        loop {
            let fields = [Field::tus()];
            let answer = self.send(Method::HEAD, upload, Content::none(), &fields).await?;
            let (status, offset) = (answer.status(), offset(&answer));
            match read("HEAD", answer).await {
                Ok(_) => return offset,
                Err(_) if status == StatusCode::LOCKED => sleep(LOCKED_PAUSE).await,
                Err(error) => return Err(error),
            }
        }
    }
}

fn offset(answer: &Response<Incoming>) -> Result<u64, BenchError> {
    let value = answer.headers().get(OFFSET).and_then(|value| value.to_str().ok());
    value.and_then(|value| value.parse().ok()).ok_or(BenchError::Field("Upload-Offset"))
}
