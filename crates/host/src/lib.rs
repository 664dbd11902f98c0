//! Hosts whose applications are screens: one terminal of the 3270 family on a connection, driven as
//! a person would, step by step.
//!
//! The terminal itself (telnet, TN3270E, the data stream, the keyboard) is `tn3270-proto`, which
//! does no IO. This crate connects it over `net`, with TLS from the first byte or by the option
//! STARTTLS, sends an answer and the next key in one write, and waits for what the host shows:
//! never for a time alone. A [`Player`] stands for a host, from recordings,
//! and a [`Recorder`] makes them, between terminals and their host.

mod action;
mod address;
mod applications;
mod debug;
mod error;
mod fuzzing;
pub mod limits;
pub mod model;
mod player;
mod pool;
mod procedure;
mod procedure_error;
mod recorder;
mod sample;
mod session;
mod sessions;
mod shown;
mod view;

pub use action::{Action, ActionError, Place};
pub use address::{HostAddress, HostTls};
pub use applications::{
    Applications, Called, Deployment, HostClient, ModelFigures, ProcedureCall, check_model,
    check_target,
};
pub use debug::{
    DebugEvent, DebugFile, DebugFileError, DebugFiles, DebugHeader, DebugMessage, DebugPlace,
    DebugRecord, DebugRecords, DebugWriter, TypedView,
};
pub use entrepot_journal::Scope;
pub use entrepot_tn3270_proto::model::Device;
pub use entrepot_tn3270_proto::{CodePage, Key};
pub use error::HostError;
pub use fuzzing::fuzz;
pub use player::{
    Lag, Match, NoMatch, Player, PlayerOptions, PlayerReport, PlayerTls, Recording, RecordingError,
    Speak,
};
pub use pool::{
    Caller, Gauge, HeldSession, Holding, Pool, PoolError, PoolFigures, PoolKeeper, PoolSettings,
    PooledSession, Retaken, StateGauge, WhyRetaken,
};
pub use procedure::{Application, CallError, LoggedOff, ScreenWait, TypeTo};
pub use procedure_error::{ProcedureError, Stood};
pub use recorder::{Recorder, RecorderOptions, RecorderReport, TraceFiles};
pub use sample::{
    LastPage, SAMPLE_LOANS, SAMPLE_MANY_LOANS, SAMPLE_MODEL, SampleHost, SampleLibrary, SampleLoan,
    SampleTerminal,
};
pub use session::{HostOptions, HostSession};
pub use sessions::{HostScreen, HostSessionState, HostSessionView, SessionKind, SessionWork};
pub use view::{CellView, FieldView, ScreenView};
