//! The one door for changes.

use std::sync::Arc;

use entrepot_crypto::{HashCost, MasterKey};
use entrepot_db::{Drained, Tx};
use entrepot_journal::{RecordKind, Scope};
use entrepot_nouns::{AnyNoun, Event, EventId, Fact, JobId, Kind, Name, SiteId, Stored};
use serde_json::Value;
use uuid::Uuid;

use crate::document::{self, Given, Source};
use crate::error::{AdminError, Result};
use crate::jobs::{self, JobAction};
use crate::limits;
use crate::log_levels::LogLevels;
use crate::near;
use crate::parts::{AdminParts, ServingParts};
use crate::passwords::Passwords;
use crate::plan::{self, Others, Step, Wanted};
use crate::reader::{self, NounKey, Reader, State};
use crate::refused_passwords::RefusedPasswords;
use crate::request::{Action, Actor, BackupNote, Document, PlannedChange, Request, Response};
use crate::secrets::{self, Absent, ListenerCheck, PasswordWork, RuleCheck, Settler};
use crate::site::ChangedSite;
use crate::{diff, nodes, query, rotation, serving, touched};

/// The administration. Cheap to clone.
#[derive(Clone)]
pub struct Admin {
    parts: Arc<AdminParts>,
    settler: Settler,
    program_check: ProgramCheck,
    serving: Option<ServingParts>,
}

/// Why this node does not start a program.
pub type ProgramCheck = Arc<dyn Fn(&str) -> std::result::Result<(), String> + Send + Sync>;

impl Admin {
    /// Over these parts.
    pub fn new(parts: AdminParts) -> Self {
        let settler = Settler {
            master: parts.master.clone(),
            env: parts.env.clone(),
            passwords: Passwords::new(parts.env.clone()),
            cost: HashCost::default(),
            refused_passwords: None,
            rule_check: |_| Ok(()),
            listener_check: |_| Ok(()),
        };
        Admin {
            parts: Arc::new(parts),
            settler,
            program_check: Arc::new(|_| Ok(())),
            serving: None,
        }
    }

    #[cfg(test)]
    pub(crate) fn passwords(&self) -> &Passwords {
        &self.settler.passwords
    }

    /// Hashes new passwords at this cost.
    #[must_use]
    pub fn with_hash_cost(mut self, cost: HashCost) -> Self {
        self.settler.cost = cost;
        self
    }

    /// Refuses to set passwords that stand in this list.
    #[must_use]
    pub fn with_refused_passwords(mut self, list: Option<RefusedPasswords>) -> Self {
        self.settler.refused_passwords = list;
        self
    }

    /// Checks rules further than their types do: whoever runs them knows what can be run.
    #[must_use]
    pub fn with_rule_check(mut self, check: RuleCheck) -> Self {
        self.settler.rule_check = check;
        self
    }

    /// Checks listeners further than their types do: whoever serves them knows what can be read.
    #[must_use]
    pub fn with_listener_check(mut self, check: ListenerCheck) -> Self {
        self.settler.listener_check = check;
        self
    }

    /// Warns of nouns that ask for a program which this node does not start. Others may.
    #[must_use]
    pub fn with_program_check(mut self, check: ProgramCheck) -> Self {
        self.program_check = check;
        self
    }

    /// Answers for the node that serves clients in this process, too.
    #[must_use]
    pub fn with_serving(mut self, serving: ServingParts) -> Self {
        self.serving = Some(serving);
        self
    }

    /// To be called at start: binds the name of this process's node to its journal, if that was
    /// not done before, and seals what an earlier run left (see [`Admin::seal_pending`]).
    ///
    /// # Errors
    /// [`AdminError::NodeServes`], [`AdminError::NodeKnown`], [`AdminError::Database`].
    pub async fn join(&self) -> Result<()> {
        if let Some(event) = nodes::join(&self.parts).await? {
            self.seal_now(&[event]).await;
        }
        self.seal_pending().await.map(drop)
    }

    /// `actor` at the site of this name; without one where it is. Who is not of `main` knows its
    /// own site only.
    ///
    /// # Errors
    /// There is no such site for it, or the database is away.
    pub async fn at_site(&self, actor: Actor, name: Option<&Name>) -> Result<Actor> {
        let Some(name) = name else { return Ok(actor) };
        let mut sites = self.parts.db.sites().await?;
        sites.retain(|site| actor.site == SiteId::MAIN || actor.site == SiteId(site.id));
        let Some(site) = sites.iter().find(|site| site.noun.name == *name) else {
            let key = NounKey::new(Kind::Site, name);
            return Err(missing(&key, sites.iter().map(|site| &site.noun.name)));
        };
        Ok(Actor { site: SiteId(site.id), ..actor })
    }

    /// Does what `request` says at the site of `actor`.
    ///
    /// # Errors
    /// See [`AdminError`]; nothing was changed then.
    pub async fn handle(&self, actor: &Actor, request: Request) -> Result<Response> {
        let parts = &*self.parts;
        match request {
            Request::List { kind, after, limit } => {
                query::nouns(parts, actor.site, kind, after.as_ref(), limit).await
            }
            Request::Show { kind, name } => self.show(actor, &NounKey { kind, name }).await,
            Request::Create { noun } => self.create(actor, *noun).await,
            Request::Change { kind, name, patch } => {
                self.change(actor, &NounKey { kind, name }, &patch).await
            }
            Request::Delete { kind, name } => self.delete(actor, NounKey { kind, name }).await,
            Request::Plan { documents, prune } => {
                let others = if prune { Others::Go } else { Others::Stay };
                self.plan(actor, documents_wanted(documents, others)?).await
            }
            Request::Apply { documents, prune } => {
                let others = if prune { Others::Go } else { Others::Stay };
                let wanted = documents_wanted(documents, others)?;
                let steps = self.commit(actor, None, |_| Ok(wanted.clone())).await?;
                Ok(self.shown(&steps))
            }
            Request::Export { kinds } => self.export(actor, &kinds).await,
            Request::Transfers { filter } => query::transfers(parts, actor.site, filter).await,
            Request::Transfer { id } => query::transfer(parts, actor.site, id).await,
            Request::Events { filter } => query::events(parts, actor.site, filter).await,
            Request::Jobs { filter } => query::jobs(parts, actor.site, filter).await,
            Request::Job { id } => {
                let job = Box::new(query::job(parts, actor.site, id).await?);
                Ok(Response::Job { job })
            }
            Request::RetryJob { id } => self.act(actor, id, JobAction::Retry).await,
            Request::CancelJob { id } => self.act(actor, id, JobAction::Cancel).await,
            Request::Sessions => serving::sessions(parts, self.serving()?, actor).await,
            Request::EndSession { id } => serving::end_session(parts, self.serving()?, actor, id),
            Request::LimitSession { id, rates } => {
                serving::limit_session(parts, self.serving()?, actor, id, rates)
            }
            Request::LimitNode { rates } => serving::limit_node(self.serving()?, actor, rates),
            Request::StopNode => serving::stop_node(self.serving()?, actor),
            Request::LogLevels => serving::log_levels(self.serving()?, actor),
            Request::SetLogLevels { levels } => {
                let serving = self.serving()?;
                let levels = serving::changed_levels(serving, levels);
                serving::set_log_levels(parts, serving, actor, levels)
            }
            Request::ResetLogLevels => {
                serving::set_log_levels(parts, self.serving()?, actor, LogLevels::new())
            }
            Request::Nodes => nodes::list(parts, actor).await,
            Request::Node { name } => nodes::show(parts, actor, &name).await,
            Request::DrainNode { name } => self.drain(actor, name, Drained::Yes).await,
            Request::UndrainNode { name } => self.drain(actor, name, Drained::No).await,
            Request::RemoveNode { name, lost } => {
                let journal = if lost { nodes::Journal::Lost } else { nodes::Journal::Projected };
                let event = nodes::remove(parts, actor, name, journal).await?;
                self.seal_now(&[event]).await;
                Ok(Response::Done)
            }
            Request::NoteBackup { backup } => self.note_backup(actor, backup).await,
            Request::LoginLimits => Ok(serving::login_limits(self.serving()?, actor).await),
            Request::Unlock { target } => serving::unlock(self.serving()?, actor, &target),
        }
    }

    /// A noun as it is stored.
    pub(crate) async fn noun(&self, site: SiteId, key: &NounKey) -> Result<Option<AnyNoun>> {
        Ok(reader::find(&self.parts.db, site, key).await?.map(|stored| stored.noun))
    }

    /// What the hashes of new passwords cost.
    pub(crate) fn hash_cost(&self) -> HashCost {
        self.settler.cost
    }

    /// The name of this node.
    pub(crate) fn node_name(&self) -> &Name {
        self.parts.recorder.node()
    }

    /// The node that serves in this process.
    fn serving(&self) -> Result<&ServingParts> {
        self.serving.as_ref().ok_or_else(|| {
            let problem = "no server runs in this process; start it with 'entrepot serve'";
            AdminError::Refused { problem: problem.to_owned() }
        })
    }

    async fn plan(&self, actor: &Actor, wanted: Wanted) -> Result<Response> {
        let state = self.state(actor.site).await?;
        let site = self.changed_site(actor.site, &wanted).await?;
        let steps =
            compute(&state, site, wanted, self.settler.clone(), PasswordWork::Leave).await?;
        Ok(self.shown(&steps))
    }

    /// Seals events of this node that were committed and, because the process ended too soon or
    /// the journal was full, not sealed. To be called at start. Returns how many.
    ///
    /// # Errors
    /// [`AdminError::Database`]. If the journal refuses, what is left stays for later.
    pub async fn seal_pending(&self) -> Result<usize> {
        let events = self.parts.db.unsealed_events(self.parts.recorder.node()).await?;
        let mut sealed = 0;
        for batch in events.chunks(limits::SEAL_BATCH) {
            if !self.seal(batch).await? {
                break;
            }
            sealed += batch.len();
        }
        Ok(sealed)
    }

    /// Appends committed events to the journal's chain and notes that in the database.
    async fn seal(&self, events: &[Event]) -> Result<bool> {
        let journal = self.parts.recorder.journal();
        let mut last = None;
        for event in events {
            let payload = serde_json::to_vec(event).map_err(|error| AdminError::Internal {
                what: "writing an event",
                problem: error.to_string(),
            })?;
            match journal.append(RecordKind::Event, &payload) {
                Ok(sequence) => last = Some(sequence),
                Err(error) => {
                    tracing::warn!(%error, "a change of configuration is not yet in the journal");
                    return Ok(false);
                }
            }
        }
        let Some(last) = last else { return Ok(true) };
        if let Err(error) = journal.sync(last).await {
            tracing::warn!(%error, "a change of configuration is not yet in the journal");
            return Ok(false);
        }
        let ids: Vec<EventId> = events.iter().map(|event| event.id).collect();
        self.parts.db.mark_sealed(&ids).await?;
        Ok(true)
    }

    async fn show(&self, actor: &Actor, key: &NounKey) -> Result<Response> {
        let Some(mut found) = reader::find(&self.parts.db, actor.site, key).await? else {
            let all = Reader::Db(&self.parts.db).kind(actor.site, key.kind).await?;
            return Err(missing(key, all.iter().map(|stored| stored.noun.name())));
        };
        found.noun = secrets::redacted(found.noun);
        let warnings = self.warnings(&found.noun).collect();
        Ok(Response::Noun { noun: Box::new(found), warnings })
    }

    fn shown(&self, steps: &[Step]) -> Response {
        let nouns = steps.iter().filter_map(|step| step.noun.as_ref());
        Response::Plan {
            changes: steps.iter().map(|step| step.shown.clone()).collect(),
            warnings: nouns.flat_map(|noun| self.warnings(noun)).collect(),
        }
    }

    fn warnings<'a>(&'a self, noun: &'a AnyNoun) -> impl Iterator<Item = String> + 'a {
        let problems = noun.programs().into_iter().filter_map(|it| (self.program_check)(it).err());
        let (kind, name) = (noun.kind(), noun.name());
        problems.map(move |problem| format!("{kind} '{name}' will not run on this node: {problem}"))
    }

    async fn create(&self, actor: &Actor, noun: AnyNoun) -> Result<Response> {
        let key = NounKey::of(&noun);
        let wanted = |state: &State| {
            if state.contains_key(&key) {
                return Err(AdminError::Exists { kind: key.kind, name: key.name.to_string() });
            }
            Ok(Wanted::noun(noun.clone()))
        };
        self.commit(actor, Some(&key), wanted).await?;
        self.show(actor, &key).await
    }

    async fn change(&self, actor: &Actor, key: &NounKey, patch: &Value) -> Result<Response> {
        let wanted = |state: &State| {
            let stored = state.get(key).ok_or_else(|| absent(state, key))?;
            Ok(Wanted::noun(patched(&stored.noun, patch)?))
        };
        self.commit(actor, Some(key), wanted).await?;
        self.show(actor, key).await
    }

    async fn delete(&self, actor: &Actor, key: NounKey) -> Result<Response> {
        if key.kind == Kind::Site && key.name.as_str() == "main" {
            let problem = "the site 'main' cannot be deleted, it owns all others".to_owned();
            return Err(AdminError::Refused { problem });
        }
        let wanted = |state: &State| {
            if state.contains_key(&key) {
                Ok(Wanted::without(key.clone()))
            } else {
                Err(absent(state, &key))
            }
        };
        self.commit(actor, Some(&key), wanted).await?;
        Ok(Response::Done)
    }

    async fn export(&self, actor: &Actor, kinds: &[Kind]) -> Result<Response> {
        let state = self.state(actor.site).await?;
        let mut documents = Vec::new();
        for kind in Kind::ALL {
            if !kinds.is_empty() && !kinds.contains(&kind) {
                continue;
            }
            let nouns = state.values().filter(|stored| stored.noun.kind() == kind);
            let nouns: Vec<AnyNoun> = nouns.map(|stored| stored.noun.clone()).collect();
            if nouns.is_empty() {
                continue;
            }
            let text = document::write(&nouns)
                .map_err(|problem| AdminError::Internal { what: "writing documents", problem })?;
            documents.push(Document { file: format!("{kind}.yaml"), text });
        }
        let of_kinds: Vec<Kind> =
            Kind::ALL.into_iter().filter(|kind| kinds.is_empty() || kinds.contains(kind)).collect();
        let is_read = |stored: &&Stored<AnyNoun>| of_kinds.contains(&stored.noun.kind());
        let secrets = state.values().filter(is_read).any(|it| secrets::has_stored(&it.noun));
        let by = actor.name.clone();
        let fact = Fact::ConfigExported { kinds: of_kinds, secrets, by };
        let scope = Scope { account: actor.account(), ..Scope::site(actor.site) };
        // Nobody gets what is not recorded.
        self.parts.recorder.record_durable(&scope, fact).await?;
        Ok(Response::Documents { documents })
    }

    /// Seals all secrets of the installation, of every site and node, anew under `new`, in one
    /// transaction; says how many there are. Those that are under it already stay as they are. To
    /// be called by a process in which no node serves.
    ///
    /// # Errors
    /// [`AdminError::SecretsInUse`], [`AdminError::CannotRotate`], [`AdminError::Database`].
    pub async fn rotate_secrets(&self, actor: &Actor, new: &MasterKey) -> Result<u64> {
        let rotated = rotation::rotate(&self.parts, actor, new).await?;
        if let Some(event) = rotated.event {
            self.seal_now(&[event]).await;
        }
        Ok(rotated.secrets)
    }

    async fn note_backup(&self, actor: &Actor, backup: BackupNote) -> Result<Response> {
        actor.must_be_of_main()?;
        let BackupNote { folder, manifest, records, files, with_master_key } = backup;
        let by = actor.name.clone();
        let fact = Fact::BackupMade { folder, manifest, records, files, with_master_key, by };
        let scope = Scope { account: actor.account(), ..Scope::site(SiteId::MAIN) };
        self.parts.recorder.record_durable(&scope, fact).await?;
        Ok(Response::Done)
    }

    async fn state(&self, site: SiteId) -> Result<Arc<State>> {
        Ok(Arc::new(Reader::Db(&self.parts.db).all(site).await?))
    }

    /// Makes a change: rows and events in one transaction. Checked and hashed before it begins,
    /// so that it is short; if the configuration has changed meanwhile, all is computed anew.
    /// `subject` is the one noun that `wanted` asks the configuration for; `None`: for none.
    pub(crate) async fn commit(
        &self,
        actor: &Actor,
        subject: Option<&NounKey>,
        wanted: impl Fn(&State) -> Result<Wanted>,
    ) -> Result<Vec<Step>> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            // A change that was overtaken too often keeps the others out while it is computed.
            let revision = self.parts.db.config_revision().await?;
            let (computed, held) = if attempt < limits::CHANGE_ATTEMPTS {
                (self.computed(actor.site, subject, &wanted).await?, None)
            } else {
                let mut tx = self.parts.db.begin().await?;
                let before = Arc::new(Reader::Tx(&mut tx).all(actor.site).await?);
                let steps = self.steps(actor.site, &before, wanted(&before)?).await?;
                (Computed { before, steps }, Some(tx))
            };
            let Computed { before, steps } = computed;
            if steps.iter().all(|step| step.shown.action == Action::Unchanged) {
                return Ok(steps);
            }
            let is_site = |step: &Step| step.shown.kind == Kind::Site;
            if actor.site != SiteId::MAIN && steps.iter().any(is_site) {
                let problem = "sites belong to the site 'main': change them there".to_owned();
                return Err(AdminError::Refused { problem });
            }
            let mut tx = match held {
                Some(tx) => tx,
                None => {
                    // From here on nobody else can commit a change.
                    let tx = self.parts.db.begin().await?;
                    if self.parts.db.config_revision().await? != revision {
                        continue;
                    }
                    tx
                }
            };
            let events = self.write(actor, &mut tx, &before, &steps).await?;
            tx.commit().await?;
            self.after_commit(&events).await;
            return Ok(steps);
        }
    }

    /// The steps of a change, from what it touches. If it cannot be made, the error is that of the
    /// whole site: it can name all that is in the way, and what may have been meant.
    async fn computed(
        &self,
        site: SiteId,
        subject: Option<&NounKey>,
        wanted: impl Fn(&State) -> Result<Wanted>,
    ) -> Result<Computed> {
        let db = &self.parts.db;
        let known = match subject {
            Some(key) => touched::only(db, site, key).await?,
            None => State::new(),
        };
        if let Ok(wanted) = wanted(&known) {
            let changed = self.changed_site(site, &wanted).await?;
            if let Some(before) = touched::load(db, &changed, &wanted).await? {
                let before = Arc::new(before);
                if let Ok(steps) = self.steps(site, &before, wanted).await {
                    return Ok(Computed { before, steps });
                }
            }
        }
        let before = self.state(site).await?;
        let steps = self.steps(site, &before, wanted(&before)?).await?;
        Ok(Computed { before, steps })
    }

    async fn steps(&self, site: SiteId, before: &Arc<State>, wanted: Wanted) -> Result<Vec<Step>> {
        let (site, work) = (self.changed_site(site, &wanted).await?, wanted.work());
        compute(before, site, wanted, self.settler.clone(), work).await
    }

    /// The site at which `wanted` is to be.
    async fn changed_site(&self, id: SiteId, wanted: &Wanted) -> Result<ChangedSite> {
        let name = self.site_name(id).await?;
        let mut policy = None;
        if wanted.has_passwords() {
            let sites = self.parts.db.sites().await?.into_iter();
            policy = sites.map(|site| site.noun).find(|site| site.name == name);
        }
        Ok(ChangedSite { id, name, policy: policy.and_then(|site| site.policy) })
    }

    /// The name of a site, for which its secrets are sealed.
    async fn site_name(&self, site: SiteId) -> Result<Name> {
        let name = self.parts.db.site_name(site).await?;
        name.ok_or_else(|| AdminError::NotFound {
            what: Kind::Site.as_str(),
            name: site.to_string(),
            hint: String::new(),
        })
    }

    async fn write(
        &self,
        actor: &Actor,
        tx: &mut Tx,
        before: &State,
        steps: &[Step],
    ) -> Result<Vec<Event>> {
        let (site, at) = (actor.site, self.parts.env.now());
        let mut events = Vec::new();
        for step in steps {
            let PlannedChange { action, kind, name, fields } = &step.shown;
            let word = match action {
                Action::Unchanged | Action::Compare => continue,
                Action::Create => "created",
                Action::Change => "changed",
                Action::Delete => "deleted",
            };
            match &step.noun {
                Some(noun) => {
                    let old = before.get(&NounKey::new(*kind, name));
                    let id = old.map_or_else(|| self.parts.env.new_id::<Uuid>(), |old| old.id);
                    tx.put_any(site, id, noun, at).await?;
                }
                None => {
                    tx.delete(site, *kind, name).await?;
                }
            }
            let fact = Fact::ConfigChanged {
                noun: *kind,
                name: name.clone(),
                action: word.to_owned(),
                by: actor.name.clone(),
                fields: fields.iter().map(|change| change.field.clone()).collect(),
            };
            let scope = Scope { account: actor.account(), ..Scope::site(site) };
            let event = self.parts.recorder.event(&scope, fact);
            tx.insert_event(&event).await?;
            events.push(event);
        }
        Ok(events)
    }

    async fn act(&self, actor: &Actor, id: JobId, action: JobAction) -> Result<Response> {
        let event = jobs::act(&self.parts, actor, id, action).await?;
        self.seal_now(&[event]).await;
        Ok(Response::Done)
    }

    async fn drain(&self, actor: &Actor, name: Name, drained: Drained) -> Result<Response> {
        let event = nodes::set_drained(&self.parts, actor, name, drained).await?;
        self.seal_now(&[event]).await;
        Ok(Response::Done)
    }

    /// The change is made; what fails here is made good later, and told in the log.
    async fn after_commit(&self, events: &[Event]) {
        if let Some(directory) = &self.parts.directory
            && let Err(error) = directory.refresh().await
        {
            tracing::warn!(%error, "sessions see the change of configuration later");
        }
        self.seal_now(events).await;
    }

    async fn seal_now(&self, events: &[Event]) {
        for batch in events.chunks(limits::SEAL_BATCH) {
            if let Err(error) = self.seal(batch).await {
                tracing::warn!(%error, "the seal of a change is noted at the next start");
            }
        }
    }
}

/// A change that passed every check.
struct Computed {
    /// What it was checked against.
    before: Arc<State>,
    steps: Vec<Step>,
}

/// Off the reactor: hashing a password takes tens of milliseconds.
async fn compute(
    state: &Arc<State>,
    site: ChangedSite,
    wanted: Wanted,
    settler: Settler,
    work: PasswordWork,
) -> Result<Vec<Step>> {
    let state = state.clone();
    let task = move || plan::compute(&state, &site, wanted, &settler, work);
    let computed = tokio::task::spawn_blocking(task).await;
    computed.map_err(|error| AdminError::Internal {
        what: "computing the change",
        problem: error.to_string(),
    })?
}

fn missing<'a>(key: &NounKey, known: impl Iterator<Item = &'a Name>) -> AdminError {
    let hint = near::hint(key.name.as_str(), known.map(Name::as_str));
    AdminError::NotFound { what: key.kind.as_str(), name: key.name.to_string(), hint }
}

fn absent(state: &State, key: &NounKey) -> AdminError {
    let of_kind = state.keys().filter(|other| other.kind == key.kind);
    missing(key, of_kind.map(|other| &other.name))
}

fn documents_wanted(documents: Vec<Document>, others: Others) -> Result<Wanted> {
    let nouns: Vec<Given> = document::parse(&documents)?;
    Ok(Wanted { nouns, gone: Vec::new(), others, absent: Absent::Keeps, documents })
}

/// The noun with the patch applied, typed again.
fn patched(stored: &AnyNoun, patch: &Value) -> Result<AnyNoun> {
    let (kind, name) = (stored.kind(), stored.name());
    let refused = |field: &str, problem: String| AdminError::Field {
        place: document::place(&[], &Source::Request, field),
        kind,
        name: name.to_string(),
        field: field.to_owned(),
        problem,
    };
    if !patch.is_object() {
        return Err(refused("patch", "give an object of the fields to change".to_owned()));
    }
    if patch.get("name").is_some_and(|new| new.as_str() != Some(name.as_str())) {
        return Err(refused("name", "a name never changes; create another one".to_owned()));
    }
    let mut body = Value::Object(diff::body(stored));
    secrets::make_way(&mut body, patch);
    diff::merge(&mut body, patch);
    let typed = Value::Object([(kind.as_str().to_owned(), body)].into_iter().collect());
    serde_path_to_error::deserialize(typed).map_err(|error| {
        let path = error.path().to_string();
        let field = path.strip_prefix(kind.as_str()).unwrap_or(&path).trim_start_matches('.');
        let field = if field.is_empty() { "patch" } else { field };
        let secret = secrets::SECRET_INPUTS.contains(&field.rsplit('.').next().unwrap_or(field));
        let problem = if secret {
            "it must be one text".to_owned()
        } else {
            near::explained(&error.inner().to_string())
        };
        refused(field, problem)
    })
}
