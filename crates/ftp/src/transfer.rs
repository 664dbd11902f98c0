//! The transfers of one session: one at a time, beside the commands of the control connection.
//!
//! An upload in clear text has no mark of its own that it is whole: of a program that is killed
//! the kernel closes both connections, in either order: Linux mostly that of the data first. So
//! when that has ended the end of the control connection is waited for, for a moment, while the
//! bytes are made durable; only then the upload is approved and published. A client that told by
//! ALLO how many bytes it sends, and sent as many, has no use for that.

mod job;
mod line;
mod outcome;
mod outlet;
mod receive;
mod send;

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use entrepot_ftp_proto::End;
use entrepot_net::data::{DataError, PassiveSeat};
use entrepot_net::fine_timer::{FineTimer, FineTimers};
use entrepot_net::meter;
use entrepot_vfs::{Upload, VfsError};
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep, timeout};

use crate::limits::{LAST_LOOK_TIME, NEAR_LOOK_TIME, NEAR_TIME, VERDICT_TIME};
use crate::status::refusal;
pub(crate) use job::{TransferJob, UploadTerms};
pub(crate) use line::{DataLine, DataMode};
pub(crate) use outcome::{Outcome, TransferResult};
pub(crate) use outlet::{Outlet, SendFault};

type Work = Pin<Box<dyn Future<Output = TransferResult> + Send>>;

/// The transfer that runs.
struct Running {
    stage: Stage,
    bytes: Arc<AtomicU64>,
    /// Approves, once, the publishing of an upload; dropping it refuses.
    verdict: Option<oneshot::Sender<()>>,
    /// The client went away; counts until the publish is recorded.
    is_gone: Arc<AtomicBool>,
    /// Its data connection has used up a session ticket of TLS.
    used_ticket: bool,
    /// A draining server waits for it.
    _waited_for: meter::Running,
}

/// What a transfer has used.
pub(crate) struct TransferUse {
    /// Bytes that were moved.
    pub(crate) bytes: u64,
    /// The client needs another session ticket of TLS for its next data connection.
    pub(crate) used_ticket: bool,
}

enum Stage {
    Moving(Work),
    Publishing(Work),
}

impl Running {
    fn work(&mut self) -> Pin<&mut (dyn Future<Output = TransferResult> + Send)> {
        match &mut self.stage {
            Stage::Moving(work) | Stage::Publishing(work) => work.as_mut(),
        }
    }

    fn progress(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn used(&self) -> TransferUse {
        TransferUse { bytes: self.progress(), used_ticket: self.used_ticket }
    }

    fn is_publishing(&self) -> bool {
        matches!(self.stage, Stage::Publishing(_))
    }

    fn approve(&mut self) {
        if let Some(verdict) = self.verdict.take() {
            // If nobody waits for it any more, publishing has failed already.
            let _ = verdict.send(());
        }
    }

    /// The bytes are made durable while it becomes clear whether the client is still there.
    fn publish(&mut self, upload: Box<Upload>) {
        let (verdict, approved) = oneshot::channel();
        self.verdict = Some(verdict);
        let is_gone = Arc::clone(&self.is_gone);
        let wanted = async move {
            let approved = timeout(VERDICT_TIME, approved).await;
            matches!(approved, Ok(Ok(()))) && !is_gone.load(Ordering::Acquire)
        };
        self.stage = Stage::Publishing(Box::pin(async move {
            let outcome = match upload.finish_if(wanted).await {
                Ok(uploaded) => Outcome::Published(Box::new(uploaded)),
                Err(VfsError::Gone) => Outcome::Ended(End::Cut),
                Err(error) => Outcome::Ended(End::Refused(refusal(&error))),
            };
            TransferResult { seat: None, outcome }
        }));
    }

    /// Ends it before its end; what came of an upload is kept to resume. A publish that has been
    /// recorded goes on until its outcome is known, which is answered.
    async fn stop(mut self) -> Option<Outcome> {
        self.is_gone.store(true, Ordering::Release);
        self.verdict = None;
        match self.stage {
            Stage::Publishing(work) => Some(work.await.outcome),
            Stage::Moving(_) => None,
        }
    }
}

/// What happens beside the commands of a session.
pub(crate) enum TransferEvent {
    /// The transfer has got so far; for [`Transfers::settle`].
    Result(Box<TransferResult>),
    /// A short moment is over: the caller approves the upload if the client is there beyond doubt,
    /// and else comes back with [`Transfers::look_again`].
    LookDue,
    /// The moment is over in which the end of the control connection was waited for: the caller
    /// approves the upload if the client is still there.
    ApprovalDue,
}

/// A transfer that was stopped before its end.
pub(crate) struct Stopped(Running);

impl Stopped {
    pub(crate) fn used(&self) -> TransferUse {
        self.0.used()
    }

    /// True if an upload is being published, which goes on whatever becomes of the session.
    pub(crate) fn is_publishing(&self) -> bool {
        self.0.is_publishing()
    }

    /// Waits until nothing of it runs; what a publish came to.
    pub(crate) async fn finish(self) -> Option<Outcome> {
        self.0.stop().await
    }
}

/// The transfers of one session, and the port where it waits for data connections.
#[derive(Default)]
pub(crate) struct Transfers {
    seat: Option<PassiveSeat>,
    running: Option<Running>,
    look: Look,
}

/// When to look whether the client of an upload is still there.
#[derive(Default)]
enum Look {
    #[default]
    Never,
    Soon(FineTimer),
    Then(Pin<Box<Sleep>>),
}

impl Look {
    /// Without a fine timer at hand the other moment is as good.
    fn soon(timers: &Arc<FineTimers>) -> Look {
        timers.start(NEAR_LOOK_TIME).map_or_else(Look::after_a_moment, Look::Soon)
    }

    fn after_a_moment() -> Look {
        Look::Then(Box::pin(sleep(LAST_LOOK_TIME)))
    }

    async fn due(&mut self) -> TransferEvent {
        let event = match self {
            Look::Never => std::future::pending().await,
            Look::Soon(timer) => {
                timer.rung().await;
                TransferEvent::LookDue
            }
            Look::Then(due) => {
                due.as_mut().await;
                TransferEvent::ApprovalDue
            }
        };
        *self = Look::Never;
        event
    }
}

impl Wholeness {
    /// What is thought of an upload without a sign of its end, of a client that took so long for
    /// its command.
    pub(crate) fn presumed(pace: Duration) -> Wholeness {
        if pace < NEAR_TIME { Wholeness::PresumedNear } else { Wholeness::Presumed }
    }
}

impl Transfers {
    /// Expects a data connection of the client and answers the address for it.
    pub(crate) fn listen(
        &mut self,
        seat: impl FnOnce() -> PassiveSeat,
    ) -> Result<SocketAddr, DataError> {
        self.seat.get_or_insert_with(seat).listen()
    }

    /// Expects no data connection any more.
    pub(crate) fn forget_expected(&mut self) {
        if let Some(seat) = &mut self.seat {
            seat.forget();
        }
    }

    /// The port of the session, for the one transfer that begins.
    pub(crate) fn take_seat(&mut self) -> Option<PassiveSeat> {
        self.seat.take()
    }

    /// Starts a transfer, which a draining server waits for.
    pub(crate) fn start(&mut self, job: TransferJob, line: DataLine, running: meter::Running) {
        let used_ticket = line.tls.is_some();
        let bytes = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&bytes);
        let work = Box::pin(async move { job.run(line, &counted).await });
        self.running = Some(Running {
            stage: Stage::Moving(work),
            bytes,
            verdict: None,
            is_gone: Arc::default(),
            used_ticket,
            _waited_for: running,
        });
    }

    /// True from the 150 to the last reply.
    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// True if what runs cannot be stopped any more.
    pub(crate) fn is_publishing(&self) -> bool {
        self.running.as_ref().is_some_and(Running::is_publishing)
    }

    /// Bytes that the transfer has moved so far.
    pub(crate) fn progress(&self) -> u64 {
        self.running.as_ref().map_or(0, Running::progress)
    }

    /// Waits for the next event; for ever where nothing runs.
    pub(crate) async fn next_event(&mut self) -> TransferEvent {
        let work = async {
            match &mut self.running {
                Some(running) => running.work().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            event = self.look.due() => event,
            result = work => TransferEvent::Result(Box::new(result)),
        }
    }

    /// The next event, if it is there without waiting.
    pub(crate) async fn event_now(&mut self) -> Option<TransferEvent> {
        let mut next = pin!(self.next_event());
        poll_fn(|context| match next.as_mut().poll(context) {
            Poll::Ready(event) => Poll::Ready(Some(event)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    /// The client is still there: its upload may be published.
    pub(crate) fn approve(&mut self) {
        if let Some(running) = &mut self.running {
            running.approve();
        }
    }

    /// All of an upload came: it is published once it is approved, at once if it is certain that it
    /// is whole, else at [`TransferEvent::LookDue`] or [`TransferEvent::ApprovalDue`].
    pub(crate) fn publish(
        &mut self,
        upload: Box<Upload>,
        whole: Wholeness,
        timers: &Arc<FineTimers>,
    ) {
        let Some(running) = &mut self.running else { return };
        running.publish(upload);
        self.look = match whole {
            Wholeness::Certain => {
                running.approve();
                Look::Never
            }
            Wholeness::PresumedNear => Look::soon(timers),
            Wholeness::Presumed => Look::after_a_moment(),
        };
    }

    /// The client has perhaps gone: [`TransferEvent::ApprovalDue`] comes when that is known.
    pub(crate) fn look_again(&mut self) {
        self.look = Look::after_a_moment();
    }

    /// Takes the seat back from a transfer.
    pub(crate) fn return_seat(&mut self, seat: Option<PassiveSeat>) {
        if seat.is_some() {
            self.seat = seat;
        }
    }

    /// The transfer is over; `None` if none ran.
    pub(crate) fn end(&mut self) -> Option<TransferUse> {
        self.look = Look::Never;
        self.running.take().map(|running| running.used())
    }

    /// Stops the transfer that runs, if one does.
    pub(crate) fn stop(&mut self) -> Option<Stopped> {
        self.look = Look::Never;
        self.running.take().map(Stopped)
    }
}

/// Whether an upload that has ended is known to be whole.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wholeness {
    /// By the end of TLS, because ALLO told as many bytes, or because QUIT came before.
    Certain,
    /// Unless the control connection ends as well in the next moment.
    Presumed,
    /// The same of a client that answers within [`NEAR_TIME`]: its moments are shorter.
    PresumedNear,
}
