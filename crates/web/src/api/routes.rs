//! The table of all routes: what is served, how it is described, and what answers it. The router
//! and the description of the interface are both made from it.

use std::future::Future;
use std::sync::Arc;

use axum::http::Method;
use axum::response::Response;
use entrepot_nouns::{Kind, PoolPlaces};
use futures_util::future::BoxFuture;

use super::call::Call;
use super::live::LiveSubject;
use super::nouns::plural;
use super::schemas::{Schema, schema};
use super::{
    as2, certificates, configuration, events, explanations, host_sessions, jobs, links,
    live_stream, nodes, nouns, procedures, rules, sessions, stream, this_node, tokens, transfers,
};
use crate::problem::Problem;

/// What answers a route.
type Run = Arc<dyn Fn(Call) -> BoxFuture<'static, Result<Response, Problem>> + Send + Sync>;

/// One method at one address.
pub(crate) struct Route {
    pub(crate) method: Method,
    /// With parameters in braces.
    pub(crate) path: String,
    /// Names the operation in the description.
    pub(crate) id: String,
    pub(crate) tag: &'static str,
    pub(crate) summary: String,
    /// Parameters of the query besides `site`.
    pub(crate) query: Vec<Parameter>,
    pub(crate) body: Option<Schema>,
    pub(crate) answer: Answer,
    pub(crate) callers: Callers,
    pub(crate) run: Run,
}

/// Whose calls a route answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callers {
    /// Accounts of type admin.
    Administrators,
    /// Any account; one that is no administrator sees and changes what is its own.
    Accounts,
}

/// A parameter of a query.
#[derive(Clone, Copy)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) repeats: Repeats,
}

/// How often a parameter may stand in a query.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeats {
    Once,
    Often,
}

/// What a route answers when all is well.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) about: &'static str,
    pub(crate) media: &'static str,
    /// `None`: no body, or none that has a schema.
    pub(crate) schema: Option<Schema>,
    /// It has an `ETag`.
    pub(crate) has_version: HasVersion,
}

/// Whether an answer names the version of a noun.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum HasVersion {
    Yes,
    No,
}

const fn once(name: &'static str, about: &'static str) -> Parameter {
    Parameter { name, about, repeats: Repeats::Once }
}

const fn often(name: &'static str, about: &'static str) -> Parameter {
    Parameter { name, about, repeats: Repeats::Often }
}

const FIELDS: Parameter = often("fields", "Only these fields of each object, with commas between.");
const CURSOR: Parameter = once("cursor", "Where the page begins: `next` of the page before.");
const LIMIT: Parameter = once("limit", "Most objects of the page; 100 if unset, 1,000 at most.");
const DRY_RUN: Parameter =
    once("dry_run", "`true`: only say what would change, and change nothing.");

/// The parameters of every list, and these.
fn listed(more: &[Parameter]) -> Vec<Parameter> {
    [CURSOR, LIMIT, FIELDS].into_iter().chain(more.iter().copied()).collect()
}

const EVENT_FILTERS: [Parameter; 6] = [
    often("kind", "Events of this kind, such as `file.uploaded`."),
    once("account", "Of this account."),
    once("path", "Whose path holds this text. Not for streams."),
    once("session", "Of this session."),
    once("transfer", "Of this transfer."),
    once("job", "Of this job."),
];

const AS2_FILTERS: [Parameter; 6] = [
    once("partner", "Of the partner of this endpoint."),
    once("message", "This one, by its id, or those with this Message-ID."),
    once("direction", "`in` or `out`."),
    once("state", "In this state."),
    once("since", "In their state at or after this time."),
    once("until", "In their state before this time."),
];

impl Route {
    fn new<F, A>(method: Method, path: impl Into<String>, run: F) -> Route
    where
        F: Fn(Call) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Response, Problem>> + Send + 'static,
    {
        Route {
            method,
            path: format!("/api/v1{}", path.into()),
            id: String::new(),
            tag: "",
            summary: String::new(),
            query: Vec::new(),
            body: None,
            answer: Answer::json(200, "What was asked for.", None),
            callers: Callers::Administrators,
            run: Arc::new(move |call| Box::pin(run(call))),
        }
    }

    fn about(mut self, tag: &'static str, id: impl Into<String>, summary: &str) -> Route {
        (self.tag, self.id, self.summary) = (tag, id.into(), summary.to_owned());
        self
    }

    fn query(mut self, query: Vec<Parameter>) -> Route {
        self.query = query;
        self
    }

    fn body(mut self, body: Schema) -> Route {
        self.body = Some(body);
        self
    }

    fn answers(mut self, answer: Answer) -> Route {
        self.answer = answer;
        self
    }

    fn for_accounts(mut self) -> Route {
        self.callers = Callers::Accounts;
        self
    }

    fn gives(self, schema: Schema) -> Route {
        self.answers(Answer::json(200, "What was asked for.", Some(schema)))
    }

    fn done(self) -> Route {
        self.answers(Answer::json(204, "It is done.", None))
    }
}

impl Answer {
    fn json(status: u16, about: &'static str, schema: Option<Schema>) -> Answer {
        let media = "application/json";
        Answer { status, about, media, schema, has_version: HasVersion::No }
    }

    fn noun(status: u16, about: &'static str, kind: Kind) -> Answer {
        let schema = Some(Schema::Noun(kind));
        Answer { has_version: HasVersion::Yes, ..Answer::json(status, about, schema) }
    }

    fn text(media: &'static str) -> Answer {
        Answer { media, ..Answer::json(200, "What was asked for.", None) }
    }
}

/// Every route, in the order in which they are described.
pub(crate) fn all() -> Vec<Route> {
    let kinds = [
        Kind::Site,
        Kind::Account,
        Kind::Key,
        Kind::Listener,
        Kind::Endpoint,
        Kind::Mount,
        Kind::Policy,
        Kind::Model,
        Kind::Rule,
    ];
    let mut routes: Vec<Route> = kinds.into_iter().flat_map(of_kind).collect();
    routes.extend(of_configuration());
    routes.extend(of_certificates());
    routes.extend(of_procedures());
    routes.extend(of_host_sessions());
    routes.extend(of_host_screens());
    routes.extend(of_links());
    routes.extend(of_sessions());
    routes.extend(of_transfers_and_events());
    routes.extend(of_rules());
    routes.extend(of_jobs());
    routes.extend(of_approvals());
    routes.extend(of_nodes());
    routes.extend(of_this_node());
    routes.extend(of_tokens());
    routes.extend(live_streams());
    routes
}

fn of_kind(kind: Kind) -> [Route; 6] {
    let (word, words) = (kind.as_str(), plural(kind));
    let (many, one) = (format!("/{words}"), format!("/{words}/{{name}}"));
    let id = |verb: &str| format!("{verb}_{word}");
    let filter = often("filter", "FIELD:VALUE or FIELD:BEGINNING*; all that are given must hold.");
    let sort = once("sort", "The field to sort by, with `-` in front for the opposite order.");
    [
        Route::new(Method::GET, &*many, move |call| nouns::list(call, kind))
            .about(words, format!("list_{words}"), "Lists them, by name unless sorted otherwise.")
            .query(listed(&[filter, sort]))
            .gives(Schema::NounPage(kind)),
        Route::new(Method::POST, &*many, move |call| nouns::create(call, kind))
            .about(words, id("create"), "Creates one; refused if the name is taken.")
            .query(vec![DRY_RUN])
            .body(Schema::Noun(kind))
            .answers(Answer::noun(201, "It is created.", kind)),
        Route::new(Method::GET, &*one, move |call| nouns::show(call, kind))
            .about(words, id("get"), "Shows one, without its secrets.")
            .query(vec![FIELDS])
            .answers(Answer::noun(200, "What was asked for.", kind)),
        Route::new(Method::PUT, &*one, move |call| nouns::replace(call, kind))
            .about(words, id("replace"), "Replaces one as a whole; `***` keeps a stored secret.")
            .query(vec![DRY_RUN])
            .body(Schema::Noun(kind))
            .answers(Answer::noun(200, "It is replaced.", kind)),
        Route::new(Method::PATCH, &*one, move |call| nouns::patch(call, kind))
            .about(words, id("patch"), "Changes fields by a JSON merge patch (RFC 7396).")
            .query(vec![DRY_RUN])
            .body(Schema::MergePatch)
            .answers(Answer::noun(200, "It is changed.", kind)),
        Route::new(Method::DELETE, &*one, move |call| nouns::delete(call, kind))
            .about(words, id("delete"), "Deletes one that nothing refers to.")
            .query(vec![DRY_RUN])
            .done(),
    ]
}

fn of_configuration() -> Vec<Route> {
    const TAG: &str = "configuration";
    let kinds = often("kind", "Only nouns of this kind.");
    vec![
        Route::new(Method::POST, "/configuration/plan", configuration::plan)
            .about(TAG, "plan_configuration", "Says what applying documents would change.")
            .body(schema::<configuration::WantedDocuments>())
            .gives(Schema::Plan),
        Route::new(Method::POST, "/configuration/apply", configuration::apply)
            .about(TAG, "apply_configuration", "Makes the configuration as documents say.")
            .body(schema::<configuration::WantedDocuments>())
            .gives(Schema::Plan),
        Route::new(Method::GET, "/configuration/export", configuration::export)
            .about(
                TAG,
                "export_configuration",
                "The configuration as documents, which is recorded.",
            )
            .query(vec![kinds])
            .gives(Schema::Documents),
        Route::new(Method::GET, "/login-limits", configuration::login_limits)
            .about(TAG, "list_login_limits", "What wrong passwords have delayed or locked.")
            .gives(Schema::items::<entrepot_admin::LoginLimitRow>()),
        Route::new(Method::POST, "/login-limits/unlock", configuration::unlock)
            .about(TAG, "unlock", "Forgets the wrong passwords of an address or an account.")
            .body(schema::<entrepot_admin::UnlockTarget>())
            .gives(Schema::Object),
    ]
}

fn of_certificates() -> Vec<Route> {
    const TAG: &str = "listeners";
    vec![
        Route::new(Method::GET, "/certificates", certificates::list)
            .about(TAG, "list_certificates", "Certificates of listeners from authorities (ACME).")
            .query(listed(&[]))
            .gives(Schema::page::<entrepot_admin::CertificateRow>()),
        Route::new(Method::POST, "/listeners/{name}/renew-certificate", certificates::renew)
            .about(TAG, "renew_certificate", "Asks its authority for its certificate now.")
            .done(),
    ]
}

fn of_links() -> Vec<Route> {
    const TAG: &str = "links";
    vec![
        Route::new(Method::GET, "/links", links::list)
            .about(TAG, "list_links", "Share links, of others only for administrators.")
            .query(listed(&[once("owner", "Of the files of this account.")]))
            .gives(Schema::page::<entrepot_admin::LinkRow>())
            .for_accounts(),
        Route::new(Method::POST, "/links", links::create)
            .about(TAG, "create_link", "Makes one; its addresses are shown in this answer only.")
            .body(schema::<entrepot_admin::LinkOrder>())
            .answers(Answer::json(201, "It is made.", Some(schema::<links::MadeLink>())))
            .for_accounts(),
        Route::new(Method::GET, "/links/{name}", links::show)
            .about(TAG, "get_link", "Shows one, without its addresses.")
            .gives(schema::<entrepot_admin::LinkRow>())
            .for_accounts(),
        Route::new(Method::POST, "/links/{name}/revoke", links::revoke)
            .about(TAG, "revoke_link", "It opens nothing from now on, and stays in lists.")
            .gives(schema::<entrepot_admin::LinkRow>())
            .for_accounts(),
        Route::new(Method::DELETE, "/links/{name}", links::delete)
            .about(TAG, "delete_link", "Deletes one with its addresses.")
            .done()
            .for_accounts(),
    ]
}

fn of_procedures() -> Vec<Route> {
    const TAG: &str = "procedures";
    vec![
        Route::new(Method::GET, "/models/{name}/procedures", procedures::list)
            .about(TAG, "list_procedures", "The procedures of a model that the account may call.")
            .gives(Schema::Object)
            .for_accounts(),
        Route::new(Method::GET, "/models/{name}/procedures/openapi.json", procedures::openapi)
            .about(TAG, "describe_procedures", "The same as a description by OpenAPI.")
            .gives(Schema::Object)
            .for_accounts(),
        Route::new(Method::POST, "/models/{name}/procedures/{procedure}", procedures::run)
            .about(TAG, "call_procedure", "Calls one; the body has its parameters.")
            .body(Schema::Object)
            .gives(Schema::Object)
            .for_accounts(),
        Route::new(Method::GET, "/models/{name}/pool", procedures::pool)
            .about(TAG, "get_pool", "The sessions of a model on this node, by state.")
            .gives(Schema::Object),
    ]
}

const HOST_SESSIONS: &str = "host-sessions";

/// Sessions with an application of a host that clients hold.
pub(super) fn of_host_sessions() -> Vec<Route> {
    const TAG: &str = HOST_SESSIONS;
    let one = schema::<entrepot_host::HostSessionView>;
    vec![
        Route::new(Method::GET, "/models/{name}/sessions", host_sessions::list)
            .about(TAG, "list_host_sessions", "The sessions with a host that the account holds.")
            .gives(Schema::items::<entrepot_host::HostSessionView>())
            .for_accounts(),
        Route::new(Method::POST, "/models/{name}/sessions", host_sessions::open)
            .about(TAG, "open_host_session", "Opens one, of the pool or for the account alone.")
            .body(schema::<host_sessions::HostSessionOrder>())
            .answers(Answer::json(201, "It is open.", Some(one())))
            .for_accounts(),
        Route::new(Method::GET, "/models/{name}/sessions/{id}", host_sessions::show)
            .about(TAG, "get_host_session", "Shows one.")
            .gives(one())
            .for_accounts(),
        Route::new(Method::POST, "/models/{name}/sessions/{id}/suspend", host_sessions::suspend)
            .about(TAG, "suspend_host_session", "Leaves it where it is, to be resumed later.")
            .gives(one())
            .for_accounts(),
        Route::new(Method::POST, "/models/{name}/sessions/{id}/resume", host_sessions::resume)
            .about(TAG, "resume_host_session", "Goes on with one that is suspended.")
            .gives(one())
            .for_accounts(),
        Route::new(Method::DELETE, "/models/{name}/sessions/{id}", host_sessions::end)
            .about(TAG, "end_host_session", "Gives it back: it goes home or is logged off.")
            .done()
            .for_accounts(),
        Route::new(
            Method::POST,
            "/models/{name}/sessions/{id}/procedures/{procedure}",
            host_sessions::run,
        )
        .about(TAG, "call_in_host_session", "Calls a procedure in it, from where it stands.")
        .body(Schema::Object)
        .gives(Schema::Object)
        .for_accounts(),
    ]
}

fn of_host_screens() -> Vec<Route> {
    const TAG: &str = HOST_SESSIONS;
    let screen = schema::<entrepot_host::HostScreen>;
    vec![
        Route::new(Method::GET, "/models/{name}/sessions/{id}/screen", host_sessions::screen)
            .about(TAG, "get_host_screen", "What the screen shows, without secrets.")
            .gives(screen())
            .for_accounts(),
        Route::new(Method::POST, "/models/{name}/sessions/{id}/type", host_sessions::type_text)
            .about(TAG, "type_on_host_screen", "Types a text; answers the screen.")
            .body(schema::<host_sessions::TypedText>())
            .gives(screen())
            .for_accounts(),
        Route::new(Method::POST, "/models/{name}/sessions/{id}/key", host_sessions::press)
            .about(TAG, "press_host_key", "Presses a key, and waits until the keyboard is free.")
            .body(schema::<host_sessions::PressedKey>())
            .gives(screen())
            .for_accounts(),
        Route::new(Method::POST, "/models/{name}/sessions/{id}/wait", host_sessions::wait)
            .about(TAG, "wait_for_host_screen", "Waits for a text, an entity or the keyboard.")
            .body(schema::<host_sessions::AwaitedScreen>())
            .gives(screen())
            .for_accounts(),
        Route::new(Method::POST, "/models/{name}/sessions/{id}/go", host_sessions::go)
            .about(TAG, "go_to_host_entity", "Takes the shortest way to an entity of the model.")
            .body(schema::<host_sessions::HostDestination>())
            .gives(screen())
            .for_accounts(),
    ]
}

fn of_sessions() -> Vec<Route> {
    const TAG: &str = "sessions";
    let protocol = once("protocol", "Of this protocol, such as `sftp`.");
    vec![
        Route::new(Method::GET, "/sessions", sessions::list)
            .about(TAG, "list_sessions", "The open sessions of this node.")
            .query(listed(&[once("account", "Of this account."), protocol]))
            .gives(Schema::page::<entrepot_admin::SessionRow>()),
        Route::new(Method::GET, "/sessions/{id}", sessions::show)
            .about(TAG, "get_session", "Shows one.")
            .gives(schema::<entrepot_admin::SessionRow>()),
        Route::new(Method::DELETE, "/sessions/{id}", sessions::end)
            .about(TAG, "end_session", "Ends it.")
            .done(),
        Route::new(Method::PUT, "/sessions/{id}/limits", sessions::limit)
            .about(TAG, "limit_session", "Sets how fast it may go until it ends.")
            .body(schema::<sessions::RateLimits>())
            .done(),
        Route::new(Method::DELETE, "/sessions/{id}/limits", sessions::unlimit)
            .about(TAG, "unlimit_session", "It goes as fast as its policies say again.")
            .done(),
    ]
}

fn of_transfers_and_events() -> Vec<Route> {
    let filters = [
        once("account", "Of this account."),
        once("state", "In this state."),
        once("direction", "`in` or `out`."),
        once("path", "Whose path holds this text."),
        once("since", "Changed at or after this time."),
    ];
    let times = [
        once("since", "At or after this time."),
        once("until", "Before this time."),
        once("order", "`newest` (the default) or `oldest` first."),
    ];
    let from = once("last_event_id", "As the field `Last-Event-ID`, where none can be sent.");
    vec![
        Route::new(Method::GET, "/transfers", transfers::list)
            .about("transfers", "list_transfers", "Transfers, running and ended, newest first.")
            .query(listed(&filters))
            .gives(Schema::page::<entrepot_nouns::Transfer>()),
        Route::new(Method::GET, "/transfers/{id}", transfers::show)
            .about("transfers", "get_transfer", "Shows one.")
            .gives(schema::<entrepot_nouns::Transfer>()),
        Route::new(Method::POST, "/transfers/{id}/decide", transfers::decide)
            .about("transfers", "decide_held", "Releases or deletes a file that its mount holds.")
            .body(schema::<transfers::Decided>())
            .done(),
        Route::new(Method::GET, "/transfers/{id}/receipt", transfers::receipt)
            .about("transfers", "get_receipt", "Proof that its file arrived or left.")
            .gives(Schema::Object),
        Route::new(Method::GET, "/as2/messages", as2::list)
            .about("as2", "list_as2_messages", "Messages of AS2, both ways, newest first.")
            .query(listed(&AS2_FILTERS))
            .gives(Schema::page::<entrepot_nouns::as2::As2Entry>()),
        Route::new(Method::GET, "/as2/messages/{id}", as2::show)
            .about("as2", "get_as2_message", "Shows one, by its id or its Message-ID.")
            .gives(schema::<entrepot_nouns::as2::As2Shown>()),
        Route::new(Method::GET, "/as2/messages/{id}/evidence", as2::evidence)
            .about("as2", "get_as2_evidence", "All that proves one, to be checked offline.")
            .gives(Schema::Object),
        Route::new(Method::POST, "/as2/messages/{id}/resend", as2::resend)
            .about("as2", "resend_as2_message", "Sends one again that left here.")
            .gives(schema::<entrepot_nouns::as2::As2Sending>()),
        Route::new(Method::POST, "/as2/messages/{id}/cancel", as2::cancel)
            .about("as2", "cancel_as2_message", "Ends the job that sends one.")
            .done(),
        Route::new(Method::POST, "/as2/partners/{name}/send", as2::send)
            .about("as2", "send_as2_file", "Sends a file of an endpoint to one, by a job.")
            .body(schema::<entrepot_nouns::as2::As2Order>())
            .gives(schema::<entrepot_nouns::as2::As2Sending>()),
        Route::new(Method::POST, "/as2/partners/{name}/test", as2::test)
            .about("as2", "test_as2_partner", "Tests the connection to one, by a small message.")
            .gives(schema::<entrepot_nouns::as2::As2Test>()),
        Route::new(Method::GET, "/events", events::list)
            .about("events", "list_events", "The audit log.")
            .query(listed(&[&EVENT_FILTERS[..], &times].concat()))
            .gives(Schema::page::<entrepot_admin::NumberedEvent>()),
        Route::new(Method::GET, "/events/stream", stream::events_stream)
            .about("events", "follow_events", "New events as they happen (server-sent events).")
            .query(EVENT_FILTERS.into_iter().chain([from]).collect())
            .answers(Answer::text("text/event-stream")),
    ]
}

const RETRY_RULE: &str = "The document of the rule by which it goes on: 'pinned', the one that it \
                          was made of, or 'current', the rule as it is now. Default 'pinned'.";

const STARTED: &str = "It is started: the job follows.";

const TRACED: &str = "A path as accounts see it, the name of a file, the id of an event, a \
                      transfer or a job, or the number of an event.";

fn of_rules() -> Vec<Route> {
    const TAG: &str = "jobs";
    vec![
        Route::new(Method::GET, "/explanations", explanations::show)
            .about(TAG, "explain_rules", "Why an event started which rules, and which not.")
            .query(vec![
                once("event", "The event: its id, or its sequence number."),
                once("path", "Instead of an event: the newest events about this path."),
                once("rule", "Only what this rule made of it."),
            ])
            .gives(schema::<entrepot_nouns::explanation::Explanation>()),
        Route::new(Method::GET, "/traces", rules::trace)
            .about(TAG, "trace", "Where a file is: the chain from its arrival to its deliveries.")
            .query(vec![once("of", TRACED)])
            .gives(schema::<entrepot_nouns::trace::Trace>()),
        Route::new(Method::POST, "/rule-tests", rules::test)
            .about(TAG, "test_rules", "What comes of the tests of rules, stored or not.")
            .body(schema::<entrepot_admin::RuleSource>())
            .gives(Schema::items::<entrepot_nouns::rule_report::RuleTestReport>()),
        Route::new(Method::POST, "/rule-findings", rules::lint)
            .about(TAG, "lint_rules", "What of rules, stored or not, is probably not meant.")
            .body(schema::<entrepot_admin::RuleSource>())
            .gives(Schema::items::<entrepot_nouns::rule_report::LintFinding>()),
        Route::new(Method::POST, "/rule-diffs", rules::diff)
            .about(TAG, "diff_rules", "What differs between rules of documents and stored ones.")
            .body(schema::<entrepot_admin::RuleSource>())
            .gives(Schema::items::<entrepot_nouns::rule_report::RuleDiff>()),
        Route::new(Method::POST, "/rule-replays", rules::replay)
            .about(TAG, "replay_rule", "Makes jobs of a rule again, or says which ones.")
            .body(schema::<entrepot_admin::ReplayOrder>())
            .gives(schema::<entrepot_nouns::rule_report::RuleReplay>()),
        Route::new(Method::POST, "/rule-dry-runs", rules::dry_run)
            .about(TAG, "dry_run_rule", "What a rule, stored or not, would do; touches nothing.")
            .body(schema::<entrepot_admin::DryRunOrder>())
            .gives(schema::<entrepot_nouns::dry_run::RuleDryRun>()),
        Route::new(Method::POST, "/rules/{name}/pause", rules::pause)
            .about(TAG, "pause_rule", "Has the jobs of a rule wait until it is resumed.")
            .done(),
        Route::new(Method::POST, "/rules/{name}/resume", rules::resume)
            .about(TAG, "resume_rule", "The jobs of a rule that is paused go on.")
            .done(),
        Route::new(Method::GET, "/rules/{name}/seen-files", rules::seen_files)
            .about(TAG, "list_seen_files", "Files found in the folder that a rule watches.")
            .query(vec![
                once("after", "Only those whose paths come after this one."),
                once("limit", "Most of them, up to 10000. Default 100."),
            ])
            .gives(Schema::items::<entrepot_nouns::watch::SeenFile>()),
        Route::new(Method::POST, "/rules/{name}/forget-file", rules::forget_file)
            .about(TAG, "forget_file", "Has a file of the folder that a rule watches found anew.")
            .body(schema::<rules::ForgottenFile>())
            .done(),
    ]
}

fn of_jobs() -> Vec<Route> {
    const TAG: &str = "jobs";
    vec![
        Route::new(Method::GET, "/jobs", jobs::list)
            .about(TAG, "list_jobs", "Runs of rules, newest first.")
            .query(listed(&[once("state", "In this state."), once("rule", "Of this rule.")]))
            .gives(Schema::page::<entrepot_nouns::Job>()),
        Route::new(Method::POST, "/rules/{name}/run", jobs::run_rule)
            .about(TAG, "run_rule", "Starts a rule whose `when` is `call`.")
            .body(schema::<jobs::RuleRun>())
            .answers(Answer::json(202, STARTED, Some(schema::<entrepot_admin::StartedRule>()))),
        Route::new(Method::GET, "/jobs/{id}", jobs::show)
            .about(TAG, "get_job", "Shows one, with the event that started it.")
            .gives(schema::<entrepot_admin::ShownJob>()),
        Route::new(Method::POST, "/jobs/{id}/retry", jobs::retry)
            .about(TAG, "retry_job", "Makes a failed or cancelled one ready again.")
            .query(vec![once("rule", RETRY_RULE)])
            .done(),
        Route::new(Method::POST, "/jobs/{id}/cancel", jobs::cancel)
            .about(TAG, "cancel_job", "Ends one that is not done.")
            .done(),
    ]
}

fn of_approvals() -> Vec<Route> {
    const TAG: &str = "jobs";
    vec![
        Route::new(Method::GET, "/approvals", jobs::approvals)
            .about(TAG, "list_approvals", "What jobs ask people and wait for, the oldest first.")
            .gives(Schema::items::<entrepot_nouns::approval::Approval>()),
        Route::new(Method::POST, "/jobs/{id}/answer", jobs::answer)
            .about(TAG, "answer_approval", "Answers what one asks, as one of those who may.")
            .body(schema::<jobs::Answered>())
            .done(),
    ]
}

fn of_nodes() -> Vec<Route> {
    const TAG: &str = "nodes";
    let lost = once("lost", "`true`: its journal is lost, with what the database lacks of it.");
    vec![
        Route::new(Method::GET, "/nodes", nodes::list)
            .about(TAG, "list_nodes", "The nodes of the installation.")
            .query(listed(&[]))
            .gives(Schema::page::<entrepot_admin::NodeRow>()),
        Route::new(Method::GET, "/nodes/{name}", nodes::show)
            .about(TAG, "get_node", "Shows one.")
            .gives(schema::<entrepot_admin::NodeRow>()),
        Route::new(Method::DELETE, "/nodes/{name}", nodes::remove)
            .about(TAG, "remove_node", "Takes a node that has ended off the list.")
            .query(vec![lost])
            .done(),
        Route::new(Method::POST, "/nodes/{name}/drain", nodes::drain)
            .about(TAG, "drain_node", "It takes no new sessions and no new jobs.")
            .done(),
        Route::new(Method::PATCH, "/nodes/{name}/pools", nodes::set_pools)
            .about(TAG, "set_node_pools", "Sets how many steps of jobs it runs at once, by pool.")
            .body(schema::<PoolPlaces>())
            .done(),
        Route::new(Method::POST, "/nodes/{name}/undrain", nodes::undrain)
            .about(TAG, "undrain_node", "It takes new work again.")
            .done(),
    ]
}

/// What the node that answers says and does, whichever node that is.
fn of_this_node() -> Vec<Route> {
    const TAG: &str = "node";
    let rates = "The rates in force now, bytes a second; null: no limit.";
    let rates = Answer::json(200, rates, Some(schema::<sessions::RateLimits>()));
    let levels = "What differs from the process file now.";
    let levels = Answer::json(200, levels, Some(schema::<entrepot_admin::LogLevels>()));
    vec![
        Route::new(Method::PUT, "/node/limits", this_node::limit)
            .about(TAG, "limit_node", "Sets how fast everything together may go until it ends.")
            .body(schema::<sessions::RateLimits>())
            .answers(rates.clone()),
        Route::new(Method::DELETE, "/node/limits", this_node::unlimit)
            .about(TAG, "unlimit_node", "As fast as the policy of the site `main` says again.")
            .answers(rates),
        Route::new(Method::POST, "/node/stop", this_node::stop)
            .about(TAG, "stop_node", "Ends it in good order: running transfers may finish.")
            .done(),
        Route::new(Method::GET, "/node/log-levels", this_node::log_levels)
            .about(TAG, "get_log_levels", "How its log differs from its process file.")
            .answers(levels.clone()),
        Route::new(Method::PATCH, "/node/log-levels", this_node::change_log_levels)
            .about(TAG, "change_log_levels", "Sets levels until it ends; null takes one back.")
            .body(schema::<this_node::LevelChanges>())
            .answers(levels.clone()),
        Route::new(Method::DELETE, "/node/log-levels", this_node::reset_log_levels)
            .about(TAG, "reset_log_levels", "It logs as its process file says again.")
            .answers(levels),
        Route::new(Method::GET, "/journal/head", this_node::head)
            .about(TAG, "get_journal_head", "The last signed head of this node's journal.")
            .gives(Schema::Object),
        Route::new(Method::GET, "/journal/heads", this_node::heads)
            .about(TAG, "list_journal_heads", "The signed heads of its journal, shortest first.")
            .query(listed(&[]))
            .gives(Schema::page::<entrepot_admin::JournalHead>()),
        Route::new(Method::GET, "/metrics", this_node::metrics)
            .about(TAG, "get_metrics", "The metrics of this node as they are now.")
            .answers(Answer::text("application/openmetrics-text")),
    ]
}

/// What happens on the node that answers, as server-sent events.
fn live_streams() -> Vec<Route> {
    let stream = |path: &str, subject| {
        Route::new(Method::GET, path, move |call| live_stream::follow(call, subject))
            .answers(Answer::text("text/event-stream"))
    };
    vec![
        stream("/sessions/stream", LiveSubject::Sessions).about(
            "sessions",
            "follow_sessions",
            "Sessions as they open and end (`opened`, `ended`).",
        ),
        stream("/transfers/stream", LiveSubject::Transfers).about(
            "transfers",
            "follow_transfers",
            "Transfers as they begin, move and end (`begun`, `progress`, `ended`).",
        ),
        stream("/throughput/stream", LiveSubject::Throughput).about(
            "node",
            "follow_throughput",
            "Bytes a second of everything together, each second.",
        ),
    ]
}

fn of_tokens() -> Vec<Route> {
    const TAG: &str = "tokens";
    let account = once("account", "Of this account.");
    let made = |about, schema| Answer::json(201, about, Some(schema));
    vec![
        Route::new(Method::GET, "/tokens", tokens::list)
            .about(TAG, "list_tokens", "API tokens, with their last use.")
            .query(listed(&[account]))
            .gives(Schema::page::<entrepot_admin::TokenRow>()),
        Route::new(Method::POST, "/tokens", tokens::create)
            .about(TAG, "create_token", "Makes an API token, which the answer shows once.")
            .body(schema::<entrepot_admin::TokenOrder>())
            .answers(made("The token and its key.", schema::<tokens::MadeToken>())),
        Route::new(Method::POST, "/tokens/{name}/revoke", tokens::revoke)
            .about(TAG, "revoke_token", "Lets a token count no more; its key stays.")
            .answers(Answer::noun(200, "Its key.", Kind::Key)),
        Route::new(Method::GET, "/passkeys", tokens::passkeys)
            .about(TAG, "list_passkeys", "Passkeys of accounts, with their last use.")
            .query(listed(&[account]))
            .gives(Schema::page::<entrepot_admin::PasskeyRow>()),
        Route::new(Method::DELETE, "/passkeys/{name}", tokens::remove_passkey)
            .about(TAG, "remove_passkey", "Removes a passkey.")
            .done(),
        Route::new(Method::GET, "/sign-ins", tokens::sign_ins)
            .about(TAG, "list_sign_ins", "Browsers that are signed in, on all nodes.")
            .query(listed(&[account]))
            .gives(Schema::page::<entrepot_auth::SignInInfo>()),
        Route::new(Method::DELETE, "/sign-ins/{id}", tokens::end_sign_in)
            .about(TAG, "end_sign_in", "Signs a browser out.")
            .done(),
        Route::new(Method::POST, "/accounts/{name}/recovery-codes", tokens::recovery_codes)
            .about(TAG, "make_recovery_codes", "Makes recovery codes in place of those it has.")
            .answers(made("The codes.", schema::<tokens::MadeCodes>())),
    ]
}
