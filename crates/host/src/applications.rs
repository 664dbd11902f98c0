//! The applications that this node has deployed: each a model with a pool of sessions. Procedures
//! are called here, by whoever may, and each call is recorded.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use entrepot_journal::{Recorder, Scope};
use entrepot_net::tls::ServerTrust;
use entrepot_nouns::endpoint::{Tn3270Target, Tn3270Tls};
use entrepot_nouns::event::ProcedureFact;
use entrepot_nouns::{
    Fact, FieldError, HostDebug, Model as ModelNoun, Name, Secret, SessionId, SiteId,
};
use entrepot_tn3270_proto::CodePage;
use entrepot_tn3270_proto::model::Device;
use parking_lot::RwLock;
use serde_json::Value as Json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::address::{HostAddress, HostTls};
use crate::debug::{DebugFiles, DebugRecords, DebugWriter};
use crate::model::{Described, Model, RowSet, check, described};
use crate::pool::{Caller, Pool, PoolFigures, PoolSettings, PooledSession};
use crate::procedure::CallError;
use crate::procedure_error::ProcedureError;
use crate::session::HostOptions;
use crate::sessions::HeldSessions;

mod clients;

pub use clients::HostClient;

/// Of US English, where neither endpoint nor model says another one.
const USUAL_PAGE: u16 = 37;

/// What is to be deployed, secrets in clear text.
#[derive(Clone, Debug, PartialEq)]
pub struct Deployment {
    /// The site that owns the model.
    pub site: SiteId,
    /// As it is configured.
    pub model: ModelNoun,
    /// Where the application is.
    pub target: Tn3270Target,
    /// The values that sessions have, as CSV.
    pub users: Option<Secret>,
}

/// The sessions of a model.
#[derive(Clone, Debug)]
pub struct ModelFigures {
    /// The site that owns the model.
    pub site: SiteId,
    /// What it is called within its site.
    pub model: Name,
    /// What there is of its sessions.
    pub figures: PoolFigures,
}

/// A procedure that somebody calls.
#[derive(Clone, Debug)]
pub struct ProcedureCall {
    /// Whose call it is, for the audit log.
    pub scope: Scope,
    /// Whose turn it takes in the queue for a session.
    pub caller: Caller,
    /// The model's name.
    pub model: Name,
    /// The procedure's name in the definition.
    pub procedure: String,
    /// What it is given, by the names of its parameters.
    pub input: BTreeMap<String, String>,
}

/// What a procedure has given.
#[derive(Clone, Debug, PartialEq)]
pub struct Called {
    /// Its fields and recordsets.
    pub result: Json,
    /// The recordsets among them, with their columns in the order of the model.
    pub row_sets: Vec<RowSet>,
}

/// A model that can be called.
struct Deployed {
    /// Without what is recorded of sessions, which changes while it is deployed.
    deployment: Deployment,
    model: Arc<Model>,
    debug: DebugRecords,
    pool: Pool,
    sessions: Arc<HeldSessions>,
    stop: CancellationToken,
    keeper: JoinHandle<()>,
}

/// All that are deployed on this node. Cheap to clone.
#[derive(Clone)]
pub struct Applications(Arc<Inner>);

struct Inner {
    deployed: RwLock<HashMap<(SiteId, Name), Arc<Deployed>>>,
    recorder: Recorder,
    debug_files: Option<Arc<dyn DebugFiles>>,
}

impl Applications {
    /// None yet. Calls are recorded by `recorder`; of sessions nothing is.
    pub fn new(recorder: Recorder) -> Applications {
        Applications(Arc::new(Inner { deployed: RwLock::default(), recorder, debug_files: None }))
    }

    /// The same, with a place for what is recorded of sessions.
    pub fn with_debug_files(recorder: Recorder, files: Arc<dyn DebugFiles>) -> Applications {
        let debug_files = Some(files);
        Applications(Arc::new(Inner { deployed: RwLock::default(), recorder, debug_files }))
    }

    /// Makes what is deployed equal to what is wanted. Pools of models that have changed end when
    /// their sessions have come back, and others take their place at once. Answers what cannot be
    /// deployed, and why.
    pub fn settle(&self, wanted: Vec<Deployment>) -> Vec<(Name, String)> {
        let mut refused = Vec::new();
        let mut deployed = self.0.deployed.write();
        let names: BTreeSet<(SiteId, Name)> =
            wanted.iter().map(|it| (it.site, it.model.name.clone())).collect();
        deployed.retain(|name, old| {
            let stays = names.contains(name);
            if !stays {
                old.stop.cancel();
            }
            stays
        });
        for mut deployment in wanted {
            let debug = std::mem::take(&mut deployment.model.debug);
            let place = (deployment.site, deployment.model.name.clone());
            let old = deployed.get(&place);
            // A pool that has ended by itself begins anew.
            if let Some(old) = old.filter(|old| !old.keeper.is_finished())
                && old.deployment == deployment
            {
                old.debug.set(debug);
                continue;
            }
            if let Some(old) = deployed.remove(&place) {
                old.stop.cancel();
            }
            match self.deployed(deployment, debug) {
                Ok(new) => drop(deployed.insert(place, Arc::new(new))),
                Err(problem) => refused.push((place.1, problem)),
            }
        }
        refused
    }

    fn deployed(&self, deployment: Deployment, debug: HostDebug) -> Result<Deployed, String> {
        let model = Model::read(&deployment.model.definition);
        let model = Arc::new(model.map_err(|error| format!("definition: {error}"))?);
        let users = deployment.users.as_ref().map(ModelNoun::sessions_of).transpose()?;
        let env = self.0.recorder.env().clone();
        let (records, writer) = DebugWriter::with_records(Arc::clone(&model), env.clone());
        let settings = PoolSettings {
            host: host_options(&model, &deployment.target)?,
            variables: deployment.model.variables.clone(),
            users: users.unwrap_or_default(),
            limits: deployment.model.pool.clone(),
            model: Arc::clone(&model),
            debug: self.0.debug_files.is_some().then(|| records.clone()),
        };
        let given = settings.variables.keys().chain(settings.users.iter().flat_map(|it| it.keys()));
        for name in given {
            if model.variables.entry(name).is_none() {
                return Err(format!("the definition has no variable '{name}'"));
            }
        }
        records.set(debug);
        let (pool, mut keeper) = Pool::new(settings, env);
        let stop = CancellationToken::new();
        let name = deployment.model.name.clone();
        let sessions = HeldSessions::new(name.clone(), self.0.recorder.clone());
        let watching = Arc::clone(&sessions).watch(keeper.retaken());
        let keeping = keeper.run(stop.clone());
        let (site, files) = (deployment.site, self.0.debug_files.clone());
        let keeper = tokio::spawn(async move {
            let ended = CancellationToken::new();
            let kept = async {
                tokio::join!(keeping, watching);
                ended.cancel();
            };
            match files {
                Some(files) => {
                    tokio::join!(kept, writer.run(site, name, files, ended.clone()));
                }
                None => kept.await,
            }
        });
        Ok(Deployed { deployment, model, debug: records, pool, sessions, stop, keeper })
    }

    /// Logs all sessions off.
    pub async fn stop(&self) {
        let all: Vec<Arc<Deployed>> =
            self.0.deployed.write().drain().map(|(_, deployed)| deployed).collect();
        for deployed in &all {
            deployed.stop.cancel();
        }
        for deployed in all {
            // Nobody else can call it any more, but a call may go on with it.
            if let Some(deployed) = Arc::into_inner(deployed)
                && let Err(error) = deployed.keeper.await
            {
                tracing::error!(%error, "the sessions of a model were not logged off");
            }
        }
    }

    fn find(&self, site: SiteId, model: &Name) -> Result<Arc<Deployed>, ProcedureError> {
        let found = self.0.deployed.read().get(&(site, model.clone())).cloned();
        found.ok_or_else(|| ProcedureError::NoModel(model.to_string()))
    }

    /// Whether an account of this lineage may call a procedure.
    ///
    /// # Errors
    /// It may not, or there is none.
    pub fn check_right(
        &self,
        site: SiteId,
        model: &Name,
        procedure: &str,
        lineage: &[Name],
    ) -> Result<(), ProcedureError> {
        if self.find(site, model)?.deployment.model.may_call(lineage, procedure) {
            return Ok(());
        }
        let (model, procedure) = (model.clone(), procedure.to_owned());
        Err(ProcedureError::NotAllowed { model, procedure })
    }

    /// What an account of this lineage may call of a model.
    ///
    /// # Errors
    /// There is no such model.
    pub fn described(
        &self,
        site: SiteId,
        model: &Name,
        lineage: &[Name],
    ) -> Result<Vec<Described>, ProcedureError> {
        let deployed = self.find(site, model)?;
        let may = |name: &str| deployed.deployment.model.may_call(lineage, name);
        let mut all = described(&deployed.model);
        all.retain(|procedure| may(&procedure.name));
        Ok(all)
    }

    /// The sessions of a model on this node.
    ///
    /// # Errors
    /// There is no such model.
    pub fn figures(&self, site: SiteId, model: &Name) -> Result<PoolFigures, ProcedureError> {
        Ok(self.find(site, model)?.pool.figures())
    }

    /// The sessions of all models on this node, by site and name.
    pub fn all_figures(&self) -> Vec<ModelFigures> {
        let deployed = self.0.deployed.read();
        let mut all: Vec<ModelFigures> = deployed
            .iter()
            .map(|((site, model), deployed)| ModelFigures {
                site: *site,
                model: model.clone(),
                figures: deployed.pool.figures(),
            })
            .collect();
        all.sort_by(|one, other| (one.site, &one.model).cmp(&(other.site, &other.model)));
        all
    }

    /// Calls a procedure, whoever may. The call is recorded, however it ends.
    ///
    /// # Errors
    /// See [`ProcedureError`].
    pub async fn call(&self, call: ProcedureCall) -> Result<Called, ProcedureError> {
        let ProcedureCall { scope, caller, model, procedure, input } = call;
        let deployed = self.find(scope.site, &model)?;
        let fact = self.fact(model, procedure.clone());
        let called = deployed.call(caller, &procedure, input).await;
        self.record(&scope, fact, called)
    }

    fn fact(&self, model: Name, procedure: String) -> BegunCall {
        let begun = self.0.recorder.env().elapsed();
        BegunCall { model, procedure, host_session: None, begun }
    }

    /// Records a call that has ended.
    fn record(
        &self,
        scope: &Scope,
        begun: BegunCall,
        called: Result<Called, ProcedureError>,
    ) -> Result<Called, ProcedureError> {
        let BegunCall { model, procedure, host_session, begun } = begun;
        let took = self.0.recorder.env().elapsed().saturating_sub(begun);
        let call = ProcedureFact {
            model,
            procedure,
            host_session,
            milliseconds: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            code: called.as_ref().err().map(|error| error.code().to_owned()),
            outcome: called.as_ref().err().and_then(ProcedureError::outcome).map(str::to_owned),
        };
        self.0.recorder.record(scope, Fact::ProcedureCalled { call })?;
        called
    }
}

/// A call of a procedure that is to be recorded.
struct BegunCall {
    model: Name,
    procedure: String,
    host_session: Option<SessionId>,
    begun: Duration,
}

impl Deployed {
    async fn call(
        &self,
        caller: Caller,
        procedure: &str,
        input: BTreeMap<String, String>,
    ) -> Result<Called, ProcedureError> {
        // No session is needed to say so.
        self.knows(procedure)?;
        let mut session = self.pool.session(caller).await?;
        self.call_in(&mut session, procedure, input).await
    }

    fn knows(&self, procedure: &str) -> Result<(), ProcedureError> {
        if self.model.procedures.value(procedure).is_some() {
            return Ok(());
        }
        let known: Vec<&str> = self.model.procedures.names().collect();
        let known = known.join(", ");
        let what = format!("there is no procedure '{procedure}': there are {known}");
        Err(ProcedureError::Call { error: CallError::Caller(what), stood: Box::default() })
    }

    async fn call_in(
        &self,
        session: &mut PooledSession,
        procedure: &str,
        input: BTreeMap<String, String>,
    ) -> Result<Called, ProcedureError> {
        match session.call(procedure, input).await {
            Ok(result) => Ok(Called { result, row_sets: self.model.row_sets(procedure) }),
            Err(error) => Err(ProcedureError::of(error, session)),
        }
    }
}

fn host_options(model: &Model, target: &Tn3270Target) -> Result<HostOptions, String> {
    let tls = match target.tls {
        Tn3270Tls::WhenAsked => HostTls::WhenAsked,
        Tn3270Tls::Implicit => HostTls::FromTheStart,
    };
    let terminal = target.terminal.as_ref().or(model.host.terminal.as_ref());
    let device = match terminal {
        None => Device::default(),
        Some(name) => Device::named(name).ok_or_else(|| format!("'{name}' is no terminal"))?,
    };
    let number = target.codepage.or(model.host.codepage).unwrap_or(USUAL_PAGE);
    let page = CodePage::new(number).ok_or_else(|| format!("'{number}' is no code page"))?;
    let trust = match (&target.authorities, target.certificates.as_slice()) {
        (_, [_, ..]) => ServerTrust::Pinned(target.certificates.clone()),
        (Some(authorities), _) => ServerTrust::Authorities(authorities.clone().into_bytes()),
        (None, []) => ServerTrust::System,
    };
    Ok(HostOptions {
        address: HostAddress { host: target.host.clone(), port: target.port(), tls },
        device,
        lus: if target.lu.is_empty() { model.host.lu.clone() } else { target.lu.clone() },
        page,
        trust,
        patience: target.patience.duration(),
    })
}

/// Says what of a model cannot be deployed.
///
/// # Errors
/// Its definition cannot be read, or names in it lead nowhere.
pub fn check_model(noun: &ModelNoun) -> Result<(), FieldError> {
    let wrong = |what: String| FieldError::new("definition", what);
    let model = Model::read(&noun.definition).map_err(|error| wrong(error.to_string()))?;
    if let Some(finding) = check(&model).into_iter().find(|it| it.kind == "dangling") {
        return Err(wrong(finding.to_string()));
    }
    if let Some(name) = noun.variables.keys().find(|name| model.variables.entry(name).is_none()) {
        let what = "the definition has no such variable";
        return Err(FieldError::new(format!("variables.{name}"), what));
    }
    if let Some(name) = noun
        .variables
        .keys()
        .find(|name| model.variables.value(name).is_some_and(|variable| variable.secret))
    {
        let what = "the definition calls it secret: give it in 'users'";
        return Err(FieldError::new(format!("variables.{name}"), what));
    }
    for (caller, names) in &noun.callers {
        for name in names.iter().filter(|name| *name != "*") {
            if model.procedures.value(name).is_none() {
                let what = format!("there is no procedure '{name}'");
                return Err(FieldError::new(format!("callers.{caller}"), what));
            }
        }
    }
    host_options(&model, &Tn3270Target::new("host")).map(drop).map_err(wrong)
}

/// Says what of a host cannot be used.
///
/// # Errors
/// Its terminal or code page is none that is known.
pub fn check_target(target: &Tn3270Target) -> Result<(), FieldError> {
    if target.terminal.as_ref().is_some_and(|name| Device::named(name).is_none()) {
        let what = "give a terminal such as IBM-3278-2-E";
        return Err(FieldError::new("target.tn3270.terminal", what));
    }
    if target.codepage.is_some_and(|number| CodePage::new(number).is_none()) {
        let known = CodePage::numbers().iter().map(ToString::to_string).collect::<Vec<_>>();
        let what = format!("there are {}", known.join(", "));
        return Err(FieldError::new("target.tn3270.codepage", what));
    }
    Ok(())
}
