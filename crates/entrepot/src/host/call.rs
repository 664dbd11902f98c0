//! `host call`: calls a procedure of a model.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use entrepot_host::{Application, CallError, HostError};

use super::given::{host_options, model, read, trust};
use crate::args::{HostCallArgs, NamedValue};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Opens a session, calls the procedure, and prints what it gives: always as JSON.
pub(super) async fn run(args: HostCallArgs) -> Result<(), Failure> {
    let model = model(&args.model)?;
    let address = match (&args.address, &model.host.address) {
        (Some(address), _) => address.clone(),
        (None, Some(address)) => address.parse().map_err(Failure::usage)?,
        (None, None) => {
            let what = "the model names no host: give one with --address";
            return Err(Failure::usage(what));
        }
    };
    let patience = Duration::from_secs(u64::from(args.patience));
    let options = host_options(&model, address, trust(&args.trust)?, patience)?;
    let mut variables = texts(&args.variables);
    for NamedValue { name, value: file } in &args.secrets {
        let text = String::from_utf8_lossy(&read(file.as_ref())?).into_owned();
        let secret = text.lines().next().unwrap_or_default().to_owned();
        variables.insert(name.clone(), secret);
    }
    let mut application =
        Application::open(Arc::new(model), options, variables).await.map_err(failed)?;
    let given = application.call(&args.procedure, texts(&args.input)).await.map_err(failed)?;
    Output::Json.value(&given, || {})
}

fn texts(values: &[NamedValue]) -> BTreeMap<String, String> {
    values.iter().map(|value| (value.name.clone(), value.value.clone())).collect()
}

fn failed(error: CallError) -> Failure {
    let exit = match &error {
        CallError::Caller(_) => Exit::Invalid,
        CallError::Host(HostError::Trust(_) | HostError::NoSuchCharacter(_)) => Exit::Invalid,
        CallError::Host(HostError::Locked(_) | HostError::Late { .. }) => Exit::Failed,
        CallError::Host(_) => Exit::Unavailable,
        CallError::Outcome { .. } | CallError::Lost { .. } | CallError::Kind { .. } => Exit::Failed,
    };
    Failure::new(error.code(), exit, error.to_string())
}
