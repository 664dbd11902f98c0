//! What one transfer does on its data connection.

use std::sync::atomic::AtomicU64;

use entrepot_ftp_proto::{Answer, Refusal, Request, Why};
use entrepot_nouns::VPath;
use entrepot_vfs::Vfs;

use super::line::DataLine;
use super::outcome::{Outcome, TransferResult};
use super::outlet::Outlet;
use super::receive::{FileReceiver, StoreRequest};
use super::send::{FileSender, RetrieveRequest};
use crate::listing::{self, ListRequest, Listed};
use crate::stats::View;

/// What the session knows of an upload besides its request.
#[derive(Default)]
pub(crate) struct UploadTerms {
    /// The client's own cut upload whose size it was last told.
    pub(crate) unfinished: Option<VPath>,
    /// The policy asks for as many bytes as were announced.
    pub(crate) strict_size: bool,
}

/// What one transfer does on its data connection.
pub(crate) enum TransferJob {
    Send(FileSender),
    Receive(Box<FileReceiver>),
    List(Box<Listed>),
}

impl TransferJob {
    /// Opens what is transferred, so that a refusal comes before 150.
    pub(crate) async fn prepare(
        vfs: &Vfs,
        view: &View,
        terms: UploadTerms,
        request: Request,
    ) -> Result<TransferJob, Refusal> {
        match request {
            Request::Retrieve { path, offset, length, ascii, .. } => {
                let wanted = RetrieveRequest { path: &path, offset, length, ascii };
                Ok(TransferJob::Send(FileSender::open(vfs, wanted).await?))
            }
            Request::Store { path, how, ascii, allocated, .. } => {
                // ALLO counts bytes of the file.
                let told = allocated.filter(|_| !ascii);
                let announced = told.filter(|_| terms.strict_size);
                let unfinished = terms.unfinished;
                let wanted = StoreRequest { path: &path, how, ascii, unfinished, announced, told };
                let receiver = FileReceiver::open(vfs, &view.env, wanted).await?;
                Ok(TransferJob::Receive(Box::new(receiver)))
            }
            Request::List { target, format, recursive, .. } => {
                let wanted = ListRequest { target, format, recursive };
                Ok(TransferJob::List(Box::new(listing::prepare(vfs, view, wanted).await?)))
            }
            _ => Err(Refusal::new(Why::Unsupported)),
        }
    }

    /// The contents of the 150.
    pub(crate) fn started(&self) -> Answer {
        let (size, name) = match self {
            TransferJob::Send(sender) => (sender.wire_size(), None),
            TransferJob::Receive(receiver) => (None, receiver.chosen().map(str::to_owned)),
            TransferJob::List(_) => (None, None),
        };
        Answer::TransferStarted { connected: false, size, name }
    }

    /// Connects and transfers, counting `bytes`.
    pub(super) async fn run(self, mut line: DataLine, bytes: &AtomicU64) -> TransferResult {
        let stream = match line.connect().await {
            Ok(stream) => stream,
            Err(end) => {
                if let TransferJob::Receive(receiver) = self {
                    receiver.give_up().await;
                }
                return TransferResult { seat: line.into_seat(), outcome: Outcome::Ended(end) };
            }
        };
        let compression = line.compression;
        let outcome = match self {
            TransferJob::Send(sender) => {
                let outlet = Outlet::new(stream, compression);
                Outcome::Ended(sender.run(outlet, &line.lingerer, bytes).await)
            }
            TransferJob::List(list) => {
                let outlet = Outlet::new(stream, compression);
                Outcome::Ended(list.run(outlet, &line.lingerer, bytes).await)
            }
            TransferJob::Receive(receiver) if compression.is_some() => {
                receiver.run_compressed(stream, bytes).await
            }
            TransferJob::Receive(receiver) => receiver.run(stream, bytes).await,
        };
        TransferResult { seat: line.into_seat(), outcome }
    }
}
