//! The one door for changes.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use entrepot_crypto::{HashCost, MasterKey};
use entrepot_db::{Drained, ListenerPlace, Tx};
use entrepot_journal::{RecordKind, Scope};
use entrepot_nouns::event::{BackupFact, ConfigExportFact};
use entrepot_nouns::{
    AccountId, AdminRight, AnyNoun, Event, EventId, Fact, Kind, Name, PoolPlaces, SessionId,
    SiteId, Stored,
};
use uuid::Uuid;

use crate::actor::Actor;
use crate::document::{self, Given};
use crate::error::{AdminError, Result};
use crate::jobs::JobAction;
use crate::limits;
use crate::log_levels::{LogLevel, LogLevels, LogSubject};
use crate::nodes::heads;
use crate::noun_change::NounChange;
use crate::once::KeptRequest;
use crate::parts::{AdminParts, ServingParts};
use crate::passwords::Passwords;
use crate::plan::{self, Others, Step, Wanted};
use crate::planned_change::{Action, PlannedChange};
use crate::reader::{self, NounKey, Reader, State};
use crate::refused_passwords::RefusedPasswords;
use crate::request::{BackupNote, Document, RateOrder, Request, Response};
use crate::rule_orders::{RuleCritics, RuleDryRunner};
use crate::rule_question::RuleExplainer;
use crate::secrets::{self, Absent, PasswordWork, Settler};
use crate::site::ChangedSite;
use crate::{
    listing, near, nodes, noun_users, permissions, query, recovery_codes, rotation, serving,
    touched,
};

/// The administration. Cheap to clone.
#[derive(Clone)]
pub struct Admin {
    parts: Arc<AdminParts>,
    pub(crate) settler: Settler,
    program_check: ProgramCheck,
    pub(crate) rule_explainer: RuleExplainer,
    pub(crate) rule_dry_runner: RuleDryRunner,
    pub(crate) rule_critics: Option<RuleCritics>,
    serving: Option<ServingParts>,
}

/// What a request comes to. The code of an async function is compiled in each crate that awaits it,
/// with all that it awaits; what is behind a box is compiled here alone.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Response>> + Send + 'a>>;

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
            endpoint_check: Arc::new(|_| Ok(())),
            model_check: |_| Ok(()),
        };
        Admin {
            parts: Arc::new(parts),
            settler,
            program_check: Arc::new(|_| Ok(())),
            rule_explainer: |_, _, _| Vec::new(),
            rule_critics: None,
            rule_dry_runner: Arc::new(|_| {
                Box::pin(async { Err("nothing here runs rules".into()) })
            }),
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
            let known = sites.iter().map(|site| &site.noun.name);
            return Err(near::missing(Kind::Site, name, known));
        };
        Ok(actor.working_at(SiteId(site.id)))
    }

    /// Does what `request` says at the site of `actor`.
    ///
    /// # Errors
    /// See [`AdminError`]; nothing was changed then.
    pub fn handle<'a>(&'a self, actor: &'a Actor, request: Request) -> Answering<'a> {
        Box::pin(async move {
            if actor.link_rights().is_some() {
                return self.own_links(actor, request).await;
            }
            actor.must(permissions::needed(&request))?;
            self.dispatch(actor, request).await
        })
    }

    /// Does what an actor may do.
    async fn dispatch(&self, actor: &Actor, request: Request) -> Result<Response> {
        let parts = &*self.parts;
        let others = |prune| if prune { Others::Go } else { Others::Stay };
        let want = |documents, prune| documents_wanted(documents, others(prune));
        let kept = |lost| if lost { nodes::Journal::Lost } else { nodes::Journal::Projected };
        match request {
            Request::List { .. } => listing::nouns(parts, actor.site, request).await,
            Request::Show { kind, name } => self.show(actor, &NounKey { kind, name }).await,
            Request::Create { .. }
            | Request::Replace { .. }
            | Request::Change { .. }
            | Request::Delete { .. } => self.change_noun(actor, request, None).await,
            Request::DryRun { of } => self.dry_run(actor, *of).await,
            Request::Plan { documents, prune } => self.plan(actor, want(documents, prune)?).await,
            Request::Apply { documents, prune } => self.apply(actor, want(documents, prune)?).await,
            Request::Export { kinds } => self.export(actor, &kinds).await,
            Request::Transfers { filter } => query::transfers(parts, actor.site, filter).await,
            Request::Transfer { id } => query::transfer(parts, actor.site, id).await,
            Request::Events { filter } => query::events(parts, actor.site, filter).await,
            Request::Trace { subject } => self.trace(actor, subject).await,
            Request::As2 { ask } => self.as2(actor, ask).await,
            Request::Jobs { filter } => query::jobs(parts, actor.site, filter).await,
            Request::Job { id } => query::shown_job(parts, actor.site, id).await,
            Request::RetryJob { id, rule } => self.act(actor, id, JobAction::Retry(rule)).await,
            Request::CancelJob { id } => self.act(actor, id, JobAction::Cancel).await,
            Request::DecideHeld { id, decision } => self.decide_held(actor, id, decision).await,
            Request::Approvals | Request::AnswerApproval { .. } => self.asked(actor, request).await,
            Request::Sessions => serving::sessions(parts, self.serving()?, actor).await,
            Request::EndSession { id } => serving::end_session(parts, self.serving()?, actor, id),
            Request::EndSignIn { id } => self.end_sign_in(actor, id).await,
            Request::LimitSession { id, rates } => self.limit_session(actor, id, rates),
            Request::LimitNode { rates } => serving::limit_node(self.serving()?, actor, rates),
            Request::StopNode => serving::stop_node(self.serving()?, actor),
            Request::LogLevels => serving::log_levels(self.serving()?, actor),
            Request::SetLogLevels { levels } => self.change_log_levels(actor, levels),
            Request::ResetLogLevels => self.reset_log_levels(actor),
            Request::Nodes => nodes::list(parts, actor).await,
            Request::Node { name } => nodes::show(parts, actor, &name).await,
            Request::DrainNode { name } => self.drain(actor, name, Drained::Yes).await,
            Request::UndrainNode { name } => self.drain(actor, name, Drained::No).await,
            Request::SetNodePools { name, places } => self.set_pools(actor, name, places).await,
            Request::RemoveNode { name, lost } => self.remove_node(actor, name, kept(lost)).await,
            Request::JournalHeads { after, limit } => heads(parts, actor, after, limit).await,
            Request::NoteBackup { backup } => self.note_backup(actor, backup).await,
            Request::Certificates => self.list_certificates(actor).await,
            Request::RenewCertificate { listener } => self.renew_certificate(actor, listener).await,
            Request::Tokens { account } => self.list_tokens(actor, account.as_ref()).await,
            Request::CreateToken { token } => self.create_token(actor, token).await,
            Request::RevokeToken { name } => self.revoke_token(actor, name).await,
            Request::Passkeys { account } => self.list_passkeys(actor, account.as_ref()).await,
            Request::RemovePasskey { name } => self.remove_passkey(actor, name).await,
            Request::Links { owner } => self.list_links(actor, owner.as_ref()).await,
            Request::Link { name } => self.show_link(actor, &name).await,
            Request::CreateLink { link } => self.create_link(actor, *link).await,
            Request::RevokeLink { name } => self.revoke_link(actor, name).await,
            Request::DeleteLink { name } => self.delete_link(actor, name).await,
            Request::SignIns { account } => self.list_sign_ins(actor, account.as_ref()).await,
            Request::MakeRecoveryCodes { account } => self.recovery_codes(actor, &account).await,
            Request::MakeSetUpToken => self.make_set_up_token(actor).await,
            Request::LoginLimits => Ok(serving::login_limits(self.serving()?, actor).await),
            Request::Unlock { target } => serving::unlock(self.serving()?, actor, &target),
            request => self.of_rules(actor, request).await,
        }
    }

    /// Makes the configuration what is wanted.
    async fn apply(&self, actor: &Actor, wanted: Wanted) -> Result<Response> {
        let steps = self.commit(actor, None, |_| Ok(wanted.clone())).await?;
        Ok(self.shown(actor, &steps).await)
    }

    /// A noun as it is stored.
    pub(crate) async fn noun(&self, site: SiteId, key: &NounKey) -> Result<Option<AnyNoun>> {
        Ok(reader::find(&self.parts.db, site, key).await?.map(|stored| stored.noun))
    }

    /// What the hashes of new passwords cost.
    pub(crate) fn hash_cost(&self) -> HashCost {
        self.settler.cost
    }

    /// What every administration works with.
    pub(crate) fn parts(&self) -> &AdminParts {
        &self.parts
    }

    /// The name of this node.
    pub(crate) fn node_name(&self) -> &Name {
        self.parts.recorder.node()
    }

    /// The node that serves in this process.
    pub(crate) fn serving(&self) -> Result<&ServingParts> {
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
        noun_users::check(&self.parts.db, actor, &state, &steps).await?;
        Ok(self.shown(actor, &steps).await)
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
        let Some(found) = reader::find(&self.parts.db, actor.site, key).await? else {
            return Err(self.missing_noun(actor, key.kind, &key.name).await);
        };
        Ok(self.noun_answer(found))
    }

    /// The answer that shows a noun, without its secrets.
    pub(crate) fn noun_answer(&self, mut stored: Stored<AnyNoun>) -> Response {
        stored.noun = secrets::redacted(stored.noun);
        let warnings = self.warnings(&stored.noun).collect();
        Response::Noun { noun: Box::new(stored), warnings }
    }

    /// Changes one noun; with `once` at most once, and the answer is kept with the change.
    pub(crate) async fn change_noun(
        &self,
        actor: &Actor,
        request: Request,
        once: Option<&KeptRequest>,
    ) -> Result<Response> {
        let change = NounChange::of(request).map_err(|_| no_noun_change())?;
        let key = change.key();
        let order = Order { actor, subject: Some(&key), once };
        match self.carry_out(order, |state| change.wanted(state)).await? {
            Outcome::Before(answer) => Ok(answer),
            Outcome::Made(Made { answer: Some(answer), .. }) => Ok(answer),
            Outcome::Made(_) => self.show(actor, &key).await,
        }
    }

    /// What the change of a noun would do. Hashes nothing and changes nothing.
    async fn dry_run(&self, actor: &Actor, request: Request) -> Result<Response> {
        let change = NounChange::of(request).map_err(|_| no_noun_change())?;
        let key = change.key();
        let wanted = |state: &State| change.wanted(state);
        let computed = self.computed(actor.site, Some(&key), wanted, Thoroughness::Plan).await?;
        self.check_actor(actor, &computed.before, &computed.steps).await?;
        Ok(self.shown(actor, &computed.steps).await)
    }

    /// That there is no such noun, with the name that may have been meant.
    pub(crate) async fn missing_noun(&self, actor: &Actor, kind: Kind, name: &Name) -> AdminError {
        match Reader::Db(&self.parts.db).kind(actor.site, kind).await {
            Ok(all) => {
                let names = all.iter().map(|stored| stored.noun.name());
                near::missing(kind, name, names)
            }
            Err(error) => error,
        }
    }

    async fn shown(&self, actor: &Actor, steps: &[Step]) -> Response {
        let nouns = steps.iter().filter_map(|step| step.noun.as_ref());
        let mut warnings: Vec<String> = nouns.flat_map(|noun| self.warnings(noun)).collect();
        warnings.extend(self.flaws(actor.site, steps).await);
        let changes = steps.iter().map(|step| step.shown.clone()).collect();
        Response::Plan { changes, warnings }
    }

    fn warnings<'a>(&'a self, noun: &'a AnyNoun) -> impl Iterator<Item = String> + 'a {
        let problems = noun.programs().into_iter().filter_map(|it| (self.program_check)(it).err());
        let (kind, name) = (noun.kind(), noun.name());
        problems.map(move |problem| format!("{kind} '{name}' will not run on this node: {problem}"))
    }

    /// Makes one noun; the answer shows it.
    pub(crate) async fn create(&self, actor: &Actor, noun: AnyNoun) -> Result<Response> {
        self.change_noun(actor, Request::Create { noun: Box::new(noun) }, None).await
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
        let exported = ConfigExportFact { kinds: of_kinds, secrets, by };
        let fact = Fact::ConfigExported { exported };
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
    /// [`AdminError::Forbidden`], [`AdminError::SecretsInUse`], [`AdminError::CannotRotate`],
    /// [`AdminError::Database`].
    pub async fn rotate_secrets(&self, actor: &Actor, new: &MasterKey) -> Result<u64> {
        actor.must(AdminRight::Steer)?;
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
        let backup = BackupFact { folder, manifest, records, files, with_master_key, by };
        let fact = Fact::BackupMade { backup };
        let scope = Scope { account: actor.account(), ..Scope::site(SiteId::MAIN) };
        self.parts.recorder.record_durable(&scope, fact).await?;
        Ok(Response::Done)
    }

    async fn state(&self, site: SiteId) -> Result<Arc<State>> {
        Ok(Arc::new(Reader::Db(&self.parts.db).all(site).await?))
    }

    /// Makes a change as [`Admin::carry_out`] does; says what was done.
    pub(crate) async fn commit(
        &self,
        actor: &Actor,
        subject: Option<&NounKey>,
        wanted: impl Fn(&State) -> Result<Wanted>,
    ) -> Result<Vec<Step>> {
        match self.carry_out(Order { actor, subject, once: None }, wanted).await? {
            Outcome::Made(made) => Ok(made.steps),
            Outcome::Before(_) => Ok(Vec::new()),
        }
    }

    /// Makes a change: rows and events in one transaction. Checked and hashed before it begins,
    /// so that it is short; if the configuration has changed meanwhile, all is computed anew.
    async fn carry_out(
        &self,
        order: Order<'_>,
        wanted: impl Fn(&State) -> Result<Wanted>,
    ) -> Result<Outcome> {
        let Order { actor, subject, once } = order;
        let mut attempt = 0;
        loop {
            attempt += 1;
            // A change that was overtaken too often keeps the others out while it is computed.
            let revision = self.parts.db.config_revision().await?;
            let keeps_out = attempt >= limits::CHANGE_ATTEMPTS;
            let mut held = if keeps_out { Some(self.parts.db.begin().await?) } else { None };
            // Whoever made the same request first has changed the revision.
            if let Some(once) = once
                && let Some(answer) = once.answer(&self.parts.db).await?
            {
                return Ok(Outcome::Before(answer));
            }
            let Computed { before, steps } = match &mut held {
                None => self.computed(actor.site, subject, &wanted, Thoroughness::Change).await?,
                Some(tx) => {
                    let before = Arc::new(Reader::Tx(tx).all(actor.site).await?);
                    let wanted = wanted(&before)?;
                    let steps =
                        self.steps(actor.site, &before, wanted, Thoroughness::Change).await?;
                    Computed { before, steps }
                }
            };
            if steps.iter().all(|step| step.shown.action == Action::Unchanged) {
                return Ok(Outcome::Made(Made { steps, answer: None }));
            }
            self.check_actor(actor, &before, &steps).await?;
            let flaws = match subject {
                Some(_) => self.flaws(actor.site, &steps).await,
                None => Vec::new(),
            };
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
            let answer = self.answer_in(&mut tx, order, flaws).await?;
            tx.commit().await?;
            self.after_commit(&events).await;
            return Ok(Outcome::Made(Made { steps, answer }));
        }
    }

    /// The answer to the change of one noun, with what is probably not meant of it; kept with the
    /// change if it may be repeated.
    async fn answer_in(
        &self,
        tx: &mut Tx,
        order: Order<'_>,
        flaws: Vec<String>,
    ) -> Result<Option<Response>> {
        let Some(key) = order.subject else { return Ok(None) };
        let stored = reader::find_in(tx, order.actor.site, key).await?;
        let mut answer = stored.map_or(Response::Done, |stored| self.noun_answer(stored));
        if let Response::Noun { warnings, .. } = &mut answer {
            warnings.extend(flaws);
        }
        if let Some(once) = order.once {
            once.keep_in(tx, &answer).await?;
        }
        Ok(Some(answer))
    }

    /// Refuses steps of a change that are not for the actor.
    async fn check_actor(&self, actor: &Actor, before: &State, steps: &[Step]) -> Result<()> {
        may_change_sites(actor, steps)?;
        noun_users::check(&self.parts.db, actor, before, steps).await
    }

    /// The steps of a change, from what it touches. If it cannot be made, the error is that of the
    /// whole site: it can name all that is in the way, and what may have been meant.
    pub(crate) async fn computed(
        &self,
        site: SiteId,
        subject: Option<&NounKey>,
        wanted: impl Fn(&State) -> Result<Wanted>,
        thoroughness: Thoroughness,
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
                if let Ok(steps) = self.steps(site, &before, wanted, thoroughness).await {
                    return Ok(Computed { before, steps });
                }
            }
        }
        let before = self.state(site).await?;
        let steps = self.steps(site, &before, wanted(&before)?, thoroughness).await?;
        Ok(Computed { before, steps })
    }

    async fn steps(
        &self,
        site: SiteId,
        before: &Arc<State>,
        wanted: Wanted,
        thoroughness: Thoroughness,
    ) -> Result<Vec<Step>> {
        let site = self.changed_site(site, &wanted).await?;
        let work = match thoroughness {
            Thoroughness::Plan => PasswordWork::Leave,
            Thoroughness::Change => wanted.work(),
        };
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
    pub(crate) async fn site_name(&self, site: SiteId) -> Result<Name> {
        let name = self.parts.db.site_name(site).await?;
        name.ok_or_else(|| AdminError::NotFound {
            what: Kind::Site.as_str(),
            name: site.to_string(),
            hint: String::new(),
        })
    }

    pub(crate) async fn write(
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
            let old = before.get(&NounKey::new(*kind, name));
            recovery_codes::void(tx, old, step.noun.as_ref()).await?;
            match &step.noun {
                Some(noun) => {
                    let id = old.map_or_else(|| self.parts.env.new_id::<Uuid>(), |old| old.id);
                    tx.put_any(site, id, noun, at).await?;
                }
                None => {
                    tx.delete(site, *kind, name).await?;
                    if let Some(old) = old.filter(|_| *kind == Kind::Account) {
                        tx.forget_link_uses(AccountId(old.id)).await?;
                    }
                    if *kind == Kind::Listener {
                        let listener = name.clone();
                        tx.forget_acme(&ListenerPlace { site, listener }).await?;
                    }
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

    async fn recovery_codes(&self, actor: &Actor, account: &Name) -> Result<Response> {
        let Some(made) = recovery_codes::make(&self.parts, actor, account).await? else {
            return Err(self.missing_noun(actor, Kind::Account, account).await);
        };
        self.seal_now(&[made.event]).await;
        Ok(Response::RecoveryCodes { codes: made.codes })
    }

    async fn drain(&self, actor: &Actor, name: Name, drained: Drained) -> Result<Response> {
        let event = nodes::set_drained(&self.parts, actor, name, drained).await?;
        self.seal_now(&[event]).await;
        Ok(Response::Done)
    }

    async fn set_pools(&self, actor: &Actor, name: Name, places: PoolPlaces) -> Result<Response> {
        let event = nodes::set_pools(&self.parts, actor, name, places).await?;
        self.seal_now(&[event]).await;
        Ok(Response::Done)
    }

    fn limit_session(&self, actor: &Actor, id: SessionId, rates: RateOrder) -> Result<Response> {
        serving::limit_session(&self.parts, self.serving()?, actor, id, rates)
    }

    fn change_log_levels(
        &self,
        actor: &Actor,
        changes: BTreeMap<LogSubject, Option<LogLevel>>,
    ) -> Result<Response> {
        serving::change_log_levels(&self.parts, self.serving()?, actor, changes)
    }

    fn reset_log_levels(&self, actor: &Actor) -> Result<Response> {
        serving::set_log_levels(&self.parts, self.serving()?, actor, LogLevels::new())
    }

    async fn remove_node(
        &self,
        actor: &Actor,
        name: Name,
        journal: nodes::Journal,
    ) -> Result<Response> {
        let event = nodes::remove(&self.parts, actor, name, journal).await?;
        self.seal_now(&[event]).await;
        Ok(Response::Done)
    }

    /// The change is made; what fails here is made good later, and told in the log.
    pub(crate) async fn after_commit(&self, events: &[Event]) {
        if let Some(directory) = &self.parts.directory
            && let Err(error) = directory.refresh().await
        {
            tracing::warn!(%error, "sessions see the change of configuration later");
        }
        self.seal_now(events).await;
    }

    pub(crate) async fn seal_now(&self, events: &[Event]) {
        for batch in events.chunks(limits::SEAL_BATCH) {
            if let Err(error) = self.seal(batch).await {
                tracing::warn!(%error, "the seal of a change is noted at the next start");
            }
        }
    }
}

/// Who asks for a change, and what is known of it.
#[derive(Clone, Copy)]
struct Order<'a> {
    actor: &'a Actor,
    /// The one noun that the change asks the configuration for; `None`: for none.
    subject: Option<&'a NounKey>,
    /// The change may be repeated under a key.
    once: Option<&'a KeptRequest>,
}

/// What became of a change.
enum Outcome {
    /// It is made, or nothing had to be done.
    Made(Made),
    /// It was made before, with this answer.
    Before(Response),
}

/// A change that was made.
struct Made {
    steps: Vec<Step>,
    /// The answer to the change of one noun; unset where nothing was written.
    answer: Option<Response>,
}

/// How far a change is computed.
#[derive(Clone, Copy)]
pub(crate) enum Thoroughness {
    /// To be shown: no password is hashed.
    Plan,
    /// To be made.
    Change,
}

fn no_noun_change() -> AdminError {
    let problem = "only a request that creates, replaces, changes or deletes a noun can be tried; \
                   documents have 'plan'";
    AdminError::Query { problem: problem.to_owned() }
}

fn may_change_sites(actor: &Actor, steps: &[Step]) -> Result<()> {
    if actor.site != SiteId::MAIN && steps.iter().any(|step| step.shown.kind == Kind::Site) {
        let problem = "sites belong to the site 'main': change them there".to_owned();
        return Err(AdminError::Refused { problem });
    }
    Ok(())
}

/// A change that passed every check.
pub(crate) struct Computed {
    /// What it was checked against.
    pub(crate) before: Arc<State>,
    pub(crate) steps: Vec<Step>,
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

fn documents_wanted(documents: Vec<Document>, others: Others) -> Result<Wanted> {
    let nouns: Vec<Given> = document::parse(&documents)?;
    Ok(Wanted { nouns, gone: Vec::new(), others, absent: Absent::Keeps, documents })
}
