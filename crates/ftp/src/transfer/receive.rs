//! Uploads: nothing is visible before all has come and is durable.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use entrepot_ftp_proto::ascii::FromNetwork;
use entrepot_ftp_proto::zlib::{Inflate, ZlibFlaw};
use entrepot_ftp_proto::{End, Refusal, StoreHow, Why};
use entrepot_model::{Env, VPath};
use entrepot_net::data::{DataStream, UploadBuffer};
use entrepot_vfs::{Create, CreateIntent, Upload, Vfs, VfsError};
use tokio::time::timeout;

use super::Outcome;
use crate::limits::{REFUSED_BYTES, REFUSED_TIME, STALL_TIME, UNIQUE_TRIES};
use crate::requests::path;
use crate::status::{refusal, sentence};

/// A file on its way from the client.
pub(crate) struct Receive {
    upload: Upload,
    /// Where the next byte goes.
    at: u64,
    ascii: bool,
    /// The name STOU chose.
    chosen: Option<String>,
}

/// Where it goes.
pub(crate) struct Target<'a> {
    pub(super) path: &'a str,
    pub(super) how: StoreHow,
    /// The client was told of its own cut upload of this name.
    pub(super) told: Option<VPath>,
    /// Bytes that must come: of the whole file, or of what is added to it.
    pub(super) announced: Option<u64>,
}

fn told<T>(result: Result<T, VfsError>) -> Result<T, Refusal> {
    result.map_err(|error| refusal(&error))
}

/// An upload of which the whole will be sent.
async fn create(
    vfs: &Vfs,
    path: &VPath,
    intent: CreateIntent,
    announced: Option<u64>,
) -> Result<Upload, VfsError> {
    vfs.create(path, Create { intent, expected_size: announced, append: false }).await
}

/// An upload of which the end will be sent.
async fn go_on(vfs: &Vfs, path: &VPath, intent: CreateIntent) -> Result<Upload, VfsError> {
    vfs.create(path, Create { intent, expected_size: None, append: true }).await
}

/// Said where a policy asks for as many bytes as were announced.
const TOO_FEW: &str = "Fewer bytes came than ALLO announced: nothing was published.";
/// See [`TOO_FEW`].
const TOO_MANY: &str = "More bytes came than ALLO announced: nothing was published.";

/// How bytes of the wire become bytes of the file.
struct Form {
    inflate: Option<Inflate>,
    converter: Option<FromNetwork>,
    block: Vec<u8>,
    text: Vec<u8>,
}

impl Form {
    fn new(ascii: bool, compressed: bool) -> Form {
        Form {
            inflate: compressed.then(Inflate::default),
            converter: ascii.then(FromNetwork::new),
            block: Vec::new(),
            text: Vec::new(),
        }
    }
}

fn convert<'a>(
    converter: Option<&mut FromNetwork>,
    data: &'a [u8],
    text: &'a mut Vec<u8>,
) -> &'a [u8] {
    let Some(converter) = converter else { return data };
    text.clear();
    converter.convert(data, text);
    text
}

fn unzipped(flaw: ZlibFlaw) -> Refusal {
    let code = if flaw == ZlibFlaw::TooDense { 552 } else { 451 };
    Refusal::told(code, sentence(&flaw.to_string()))
}

impl Receive {
    pub(super) async fn open(
        vfs: &Vfs,
        env: &Env,
        Target { path: at, how, told: known, announced }: Target<'_>,
        ascii: bool,
    ) -> Result<Receive, Refusal> {
        let at = path(at)?;
        let goes_on = match known.is_some_and(|known| known == at) {
            true => CreateIntent::Resume,
            false => CreateIntent::Continue,
        };
        let mut chosen = None;
        let upload = match how {
            StoreHow::Replace => told(create(vfs, &at, CreateIntent::New, announced).await)?,
            StoreHow::Append => {
                let upload = told(go_on(vfs, &at, goes_on).await)?;
                expecting(upload, announced)
            }
            StoreHow::ResumeAt(offset) => {
                let upload = resume(vfs, &at, (goes_on, offset)).await?;
                expecting(upload, announced)
            }
            StoreHow::Unique { prefix } => {
                let (upload, name) = unique(vfs, env, &at, prefix, announced).await?;
                chosen = Some(name);
                upload
            }
        };
        Ok(Receive { at: upload.size(), upload, ascii, chosen })
    }

    pub(super) fn chosen(&self) -> Option<&str> {
        self.chosen.as_deref()
    }

    /// Nobody connected: what was there before is as it was.
    pub(super) async fn give_up(self) {
        self.upload.interrupt("no data connection came").await;
    }

    /// In MODE Z what comes is `compressed`.
    pub(super) async fn run(
        mut self,
        mut stream: DataStream,
        compressed: bool,
        bytes: &AtomicU64,
    ) -> Outcome {
        let mut buffer = UploadBuffer::take();
        let mut form = Form::new(self.ascii, compressed);
        loop {
            match timeout(STALL_TIME, stream.receive(&mut buffer)).await {
                Ok(Ok(0)) => break,
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return self.cut(stream, &error.to_string()).await,
                Err(_) => return self.cut(stream, "the client sent nothing for too long").await,
            }
            if let Err(refused) = self.take(&mut form, buffer.bytes()).await {
                return self.refused((stream, buffer), refused).await;
            }
            bytes.fetch_add(buffer.bytes().len() as u64, Ordering::Relaxed);
        }
        if form.inflate.as_ref().is_some_and(|inflate| !inflate.is_whole()) {
            return self.cut(stream, "the compressed data ended too early").await;
        }
        let mut rest = Vec::new();
        if let Some(converter) = form.converter {
            converter.finish(&mut rest);
        }
        if let Err(error) = self.write(&rest).await {
            return self.refused((stream, buffer), refusal(&error)).await;
        }
        if self.upload.check_expected_size().is_err() {
            stream.reset();
            self.upload.interrupt("fewer bytes came than ALLO announced").await;
            return Outcome::Ended(End::Refused(Refusal::told(426, TOO_FEW)));
        }
        // The file is whole, whether the client waits for our end or not.
        let certain = stream.tls_info().is_some();
        let _ = timeout(STALL_TIME, stream.finish_upload()).await;
        Outcome::Received { upload: Box::new(self.upload), certain }
    }

    async fn take(&mut self, form: &mut Form, mut data: &[u8]) -> Result<(), Refusal> {
        let Form { inflate: Some(inflate), converter, block, text } = form else {
            let data = convert(form.converter.as_mut(), data, &mut form.text);
            return self.add(data).await;
        };
        while inflate.next(&mut data, block).map_err(unzipped)? {
            let data = convert(converter.as_mut(), block, text);
            self.add(data).await?;
            // Decompressing costs no budget of the runtime: others have their turn in between.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn add(&mut self, data: &[u8]) -> Result<(), Refusal> {
        match self.write(data).await {
            Err(VfsError::Incomplete { .. }) => Err(Refusal::because(Why::NoSpace, TOO_MANY)),
            written => told(written),
        }
    }

    async fn write(&mut self, data: &[u8]) -> Result<(), VfsError> {
        if data.is_empty() {
            return Ok(());
        }
        if !self.upload.try_write_at(self.at, data)? {
            self.upload.write_at(self.at, Bytes::copy_from_slice(data)).await?;
        }
        self.at += data.len() as u64;
        Ok(())
    }

    /// What came is kept for its owner to resume.
    async fn cut(self, stream: DataStream, reason: &str) -> Outcome {
        stream.reset();
        self.upload.interrupt(reason).await;
        Outcome::Ended(End::Cut)
    }

    /// A client that is still sending would take a reset for a broken line and not read why, so
    /// some of what it sends is thrown away first.
    async fn refused(
        self,
        (mut stream, mut buffer): (DataStream, UploadBuffer),
        refused: Refusal,
    ) -> Outcome {
        self.upload.abort().await;
        let rest = async {
            let mut left = REFUSED_BYTES;
            while left > 0 {
                match stream.receive(&mut buffer).await {
                    Ok(0) => return true,
                    Ok(count) => left = left.saturating_sub(count),
                    Err(_) => return false,
                }
            }
            false
        };
        match timeout(REFUSED_TIME, rest).await {
            // Whether it waits for our end changes nothing.
            Ok(true) => drop(timeout(STALL_TIME, stream.finish_upload()).await),
            _ => stream.reset(),
        }
        Outcome::Ended(End::Refused(refused))
    }
}

/// Clients announce what they send, or how long the file will be.
fn expecting(mut upload: Upload, announced: Option<u64>) -> Upload {
    if let Some(announced) = announced {
        upload.expect_whole_or_added(announced);
    }
    upload
}

/// REST n and STOR: the first n bytes stay, and the file ends where the data ends.
async fn resume(
    vfs: &Vfs,
    at: &VPath,
    (intent, offset): (CreateIntent, u64),
) -> Result<Upload, Refusal> {
    if intent == CreateIntent::Continue && vfs.unfinished(at).await.is_some() {
        // The offset may be meant for either of two versions.
        return Err(Refusal::new(Why::Offset));
    }
    let mut upload = told(go_on(vfs, at, intent).await)?;
    if upload.size() < offset {
        upload.interrupt("the client wanted to go on behind its end").await;
        return Err(Refusal::new(Why::Offset));
    }
    match upload.set_len(offset).await {
        Ok(()) => Ok(upload),
        Err(error) => {
            upload.abort().await;
            Err(refusal(&error))
        }
    }
}

/// STOU: a name that nobody has, in a directory.
async fn unique(
    vfs: &Vfs,
    env: &Env,
    directory: &VPath,
    prefix: Option<String>,
    announced: Option<u64>,
) -> Result<(Upload, String), Refusal> {
    let prefix = prefix.unwrap_or_else(|| "upload".to_owned());
    for _ in 0..UNIQUE_TRIES {
        let mut random = [0; 8];
        env.fill_random(&mut random);
        let name = format!("{prefix}.{:016x}", u64::from_be_bytes(random));
        let Ok(at) = directory.join(&name) else { return Err(Refusal::new(Why::Name)) };
        match create(vfs, &at, CreateIntent::Exclusive, announced).await {
            Ok(upload) => return Ok((upload, name)),
            Err(VfsError::Exists) => {}
            Err(error) => return Err(refusal(&error)),
        }
    }
    Err(Refusal::new(Why::Busy))
}
