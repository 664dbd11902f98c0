//! Uploads: nothing is visible before all has come and is durable.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use entrepot_ftp_proto::ascii::FromNetwork;
use entrepot_ftp_proto::zlib::{Inflate, ZlibFlaw};
use entrepot_ftp_proto::{End, Refusal, StoreHow, Why};
use entrepot_net::data::{DataStream, UploadBuffer};
use entrepot_nouns::{Env, VPath};
use entrepot_vfs::{Create, CreateIntent, Upload, Vfs, VfsError};
use tokio::time::timeout;

use super::outcome::Outcome;
use crate::limits::{REFUSED_BYTES, REFUSED_TIME, STALL_TIME, UNIQUE_TRIES};
use crate::paths::path;
use crate::status::{refusal, refused, sentence};

/// A file on its way from the client.
pub(crate) struct FileReceiver {
    upload: Upload,
    /// Where the next byte goes.
    at: u64,
    ascii: bool,
    /// The name STOU chose.
    chosen: Option<String>,
    /// The size that ALLO told of a file that is sent from its beginning. Of the rest of one it may
    /// mean either, and 0 is what clients say that do not know.
    told: Option<u64>,
}

/// An upload as it was asked for.
pub(super) struct StoreRequest<'a> {
    pub(super) path: &'a str,
    pub(super) how: StoreHow,
    pub(super) ascii: bool,
    /// The client's own cut upload whose size it was last told: it may continue that one.
    pub(super) unfinished: Option<VPath>,
    /// Bytes that must come: of the whole file, or of what is added to it.
    pub(super) announced: Option<u64>,
    /// What ALLO said, whether it must be true or not.
    pub(super) told: Option<u64>,
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
/// As [`TOO_FEW`], where more came.
const TOO_MANY: &str = "More bytes came than ALLO announced: nothing was published.";

/// How bytes of the wire become bytes of the file.
#[derive(Default)]
struct WireForm {
    inflate: Option<Inflate>,
    converter: Option<FromNetwork>,
    block: Vec<u8>,
    text: Vec<u8>,
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

impl FileReceiver {
    pub(super) async fn open(
        vfs: &Vfs,
        env: &Env,
        StoreRequest { path: at, how, ascii, unfinished, announced, told }: StoreRequest<'_>,
    ) -> Result<FileReceiver, Refusal> {
        let at = path(at)?;
        let is_unfinished = unfinished.is_some_and(|unfinished| unfinished == at);
        let intent = if is_unfinished { CreateIntent::Resume } else { CreateIntent::Continue };
        let mut chosen = None;
        let upload = match how {
            StoreHow::Replace => refused(create(vfs, &at, CreateIntent::New, announced).await)?,
            StoreHow::Append => {
                let upload = refused(go_on(vfs, &at, intent).await)?;
                expecting(upload, announced)
            }
            StoreHow::ResumeAt(offset) => {
                let upload = resume(vfs, &at, intent, offset).await?;
                expecting(upload, announced)
            }
            StoreHow::Unique { prefix } => {
                let (upload, name) = unique(vfs, env, &at, prefix, announced).await?;
                chosen = Some(name);
                upload
            }
        };
        let at = upload.size();
        let told = told.filter(|told| *told > 0 && at == 0);
        Ok(FileReceiver { at, upload, ascii, chosen, told })
    }

    pub(super) fn chosen(&self) -> Option<&str> {
        self.chosen.as_deref()
    }

    /// Nobody connected: what was there before is as it was.
    pub(super) async fn give_up(self) {
        self.upload.interrupt("no data connection came").await;
    }

    /// Takes all that comes.
    pub(super) async fn run(self, stream: DataStream, bytes: &AtomicU64) -> Outcome {
        let converter = self.ascii.then(FromNetwork::new);
        self.run_in(WireForm { converter, ..WireForm::default() }, stream, bytes).await
    }

    /// In MODE Z: takes all that comes, compressed.
    pub(super) async fn run_compressed(self, stream: DataStream, bytes: &AtomicU64) -> Outcome {
        let converter = self.ascii.then(FromNetwork::new);
        let inflate = Some(Inflate::default());
        let form = WireForm { inflate, converter, ..WireForm::default() };
        self.run_in(form, stream, bytes).await
    }

    async fn run_in(
        mut self,
        mut form: WireForm,
        mut stream: DataStream,
        bytes: &AtomicU64,
    ) -> Outcome {
        let mut buffer = UploadBuffer::default();
        loop {
            match timeout(STALL_TIME, stream.receive(&mut buffer)).await {
                Ok(Ok(0)) => break,
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return self.cut(stream, &error.to_string()).await,
                Err(_) => return self.cut(stream, "the client sent nothing for too long").await,
            }
            if let Err(refused) = self.take(&mut form, buffer.bytes()).await {
                return self.refuse(stream, buffer, refused).await;
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
            return self.refuse(stream, buffer, refusal(&error)).await;
        }
        if self.upload.check_expected_size().is_err() {
            stream.reset();
            self.upload.interrupt("fewer bytes came than ALLO announced").await;
            return Outcome::Ended(End::Refused(Refusal::told(426, TOO_FEW)));
        }
        // The file is whole, whether the client waits for our end or not.
        let certain = stream.tls_info().is_some() || self.told == Some(self.at);
        let _ = timeout(STALL_TIME, stream.finish_upload()).await;
        Outcome::Received { upload: Box::new(self.upload), certain }
    }

    async fn take(&mut self, form: &mut WireForm, mut data: &[u8]) -> Result<(), Refusal> {
        let WireForm { inflate: Some(inflate), converter, block, text } = form else {
            let data = convert(form.converter.as_mut(), data, &mut form.text);
            return self.add(data).await;
        };
        while inflate.next(&mut data, block).map_err(unzipped)? {
            let data = convert(converter.as_mut(), block, text);
            self.add(data).await?;
            // Decompressing costs no budget of the runtime: other tasks run in between.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn add(&mut self, data: &[u8]) -> Result<(), Refusal> {
        match self.write(data).await {
            Err(VfsError::Incomplete { .. }) => Err(Refusal::because(Why::NoSpace, TOO_MANY)),
            written => refused(written),
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
    async fn refuse(
        self,
        mut stream: DataStream,
        mut buffer: UploadBuffer,
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
    intent: CreateIntent,
    offset: u64,
) -> Result<Upload, Refusal> {
    if intent == CreateIntent::Continue && vfs.unfinished(at).await.is_some() {
        // The offset may be meant for either of two versions.
        return Err(Refusal::new(Why::Offset));
    }
    let mut upload = refused(go_on(vfs, at, intent).await)?;
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
