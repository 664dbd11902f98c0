//! A terminal on a host, by the command line. The host is the other half of the protocol over a
//! socket: a logo, a sign-on with a hidden field, and a menu.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, Result, ensure};
use entrepot_host::{SAMPLE_LOANS, SampleLoan};
use entrepot_testkit::clients::Login;
use entrepot_testkit::server::{Node, run};
use entrepot_tn3270_proto::CodePage;
use entrepot_tn3270_proto::client::Wish;
use entrepot_tn3270_proto::enhanced::{DataType, Functions, Header};
use entrepot_tn3270_proto::host::{Host, HostEvent, HostOptions};
use serde_json::Value;

use crate::program;

const ERASE_WRITE: u8 = 0xf5;
const FREE: u8 = 0xc3;
const KEEP_LOCKED: u8 = 0xc1;
const SET_ADDRESS: u8 = 0x11;
const START_FIELD: u8 = 0x1d;
const INSERT_CURSOR: u8 = 0x13;
/// Protected; open; open and hidden.
const TEXT: u8 = 0xf0;
const OPEN: u8 = 0x40;
const HIDDEN: u8 = 0x4c;
const ENTER: u8 = 0x7d;
const PF3: u8 = 0xf3;

/// A record of the data stream that shows a screen, in pieces.
struct Record(Vec<u8>);

impl Record {
    fn new(control: u8) -> Record {
        Record(vec![ERASE_WRITE, control])
    }

    fn at(mut self, row: usize, column: usize) -> Record {
        let at = (row - 1) * 80 + column - 1;
        self.0.extend([SET_ADDRESS, (at >> 8) as u8, (at & 0xff) as u8]);
        self
    }

    fn field(mut self, attribute: u8) -> Record {
        self.0.extend([START_FIELD, attribute]);
        self
    }

    fn cursor(mut self) -> Record {
        self.0.push(INSERT_CURSOR);
        self
    }

    fn text(mut self, text: &str) -> Record {
        let page = CodePage::named("037").expect("the page is built in");
        self.0.extend(text.chars().map(|letter| page.code(letter).unwrap_or(0x6f)));
        self
    }
}

fn logo() -> Record {
    Record::new(FREE).at(3, 29).field(TEXT).text("CENTRAL LIBRARY").at(24, 1).field(OPEN).cursor()
}

fn sign_on(note: &str) -> Record {
    let screen = Record::new(FREE).at(1, 71).field(TEXT).text("LB010");
    let screen = screen.at(13, 39).field(OPEN).cursor().at(13, 48).field(TEXT);
    let screen = screen.at(14, 39).field(HIDDEN).at(14, 48).field(TEXT);
    screen.at(24, 1).field(TEXT).text(note)
}

/// The host works after the key, and then shows what it came to.
fn busy() -> Record {
    Record::new(KEEP_LOCKED).at(1, 1).field(TEXT).text("WORKING")
}

fn menu(user: &str) -> Record {
    let screen = Record::new(FREE).at(1, 71).field(TEXT).text("LB100");
    screen.at(5, 2).field(TEXT).text(&format!("HELLO {user}")).at(20, 14).field(OPEN).cursor()
}

/// What the terminal sent: its key, and the fields with their places.
fn said(data: &[u8]) -> (u8, Vec<String>) {
    let page = CodePage::named("037").expect("the page is built in");
    let key = data.first().copied().unwrap_or_default();
    let fields = data.get(3..).unwrap_or_default().split(|byte| *byte == SET_ADDRESS).skip(1);
    let text =
        |field: &[u8]| field.iter().skip(2).filter_map(|code| page.character(*code)).collect();
    (key, fields.map(text).collect())
}

struct Library {
    port: u16,
    /// Connections so far.
    came: Arc<AtomicUsize>,
    _thread: JoinHandle<()>,
}

impl Library {
    fn open(enhanced: Wish) -> Result<Library> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let came = Arc::new(AtomicUsize::new(0));
        let counted = came.clone();
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::SeqCst);
                // A terminal that goes away ends it.
                let _ = serve(stream, enhanced);
            }
        });
        Ok(Library { port, came, _thread: thread })
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

fn serve(mut stream: TcpStream, enhanced: Wish) -> Result<()> {
    let functions = Functions::RESPONSES;
    let device_name = "LIB01".to_owned();
    let mut host =
        Host::new(HostOptions { enhanced, functions, start_tls: Wish::Refuse, device_name });
    let mut buffer = [0; 4096];
    loop {
        stream.write_all(&std::mem::take(host.output()))?;
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        let mut input = &buffer[..length];
        while let Some(event) = host.next(&mut input) {
            let screens = match event {
                HostEvent::Ready(_) => vec![logo()],
                // Others say that a screen was taken.
                HostEvent::Record(header) if header.data_type == DataType::Data3270 => {
                    answer(host.data())
                }
                HostEvent::Unusable => return Ok(()),
                _ => Vec::new(),
            };
            for Record(screen) in screens {
                host.send(Header::default(), &screen);
            }
        }
    }
}

fn answer(data: &[u8]) -> Vec<Record> {
    let (key, fields) = said(data);
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    match (key, fields.as_slice()) {
        (ENTER, ["LOANS"]) => vec![sign_on("")],
        (ENTER, [user, "SECRET"]) => vec![busy(), menu(user)],
        (ENTER, [_, _]) => vec![sign_on("NOT AUTHORISED")],
        (PF3, _) => vec![logo()],
        _ => Vec::new(),
    }
}

fn terminal(arguments: &[&str], input: &str) -> Result<std::process::Output> {
    let mut command = Command::new(program());
    command.args(["host", "terminal"]).args(arguments);
    let pipe = Stdio::piped;
    let mut child = command.stdin(pipe()).stdout(pipe()).stderr(pipe()).spawn()?;
    child.stdin.take().context("no input")?.write_all(input.as_bytes())?;
    Ok(child.wait_with_output()?)
}

#[test]
fn a_person_signs_on_at_a_host_step_by_step() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let password = folder.path().join("password");
    std::fs::write(&password, "SECRET\n")?;
    for (enhanced, protocol) in [(Wish::Accept, "tn3270e, LU LIB01"), (Wish::Refuse, "tn3270")] {
        let library = Library::open(enhanced)?;
        let secret = format!("secret {}", password.display());
        let steps = [
            &library.host(),
            "type LOANS",
            "key enter",
            "wait 1,72 LB010",
            "type NOVAK",
            "key tab",
            &secret,
            "key enter",
            "wait 1,72 LB100",
        ];
        let done = terminal(&steps, "")?;
        let shown = String::from_utf8(done.stdout)?;
        ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        ensure!(shown.contains("HELLO NOVAK") && shown.contains("LB100"), "{shown}");
        ensure!(shown.contains("24 x 80, cursor 20,15, keyboard free"), "{shown}");
        ensure!(shown.contains(protocol) && !shown.contains("SECRET"), "{shown}");
        // Each run is one session.
        ensure!(library.came.load(Ordering::SeqCst) == 1);
    }
    Ok(())
}

#[test]
fn a_script_reads_screens_as_json_and_is_told_what_went_wrong() -> Result<()> {
    let library = Library::open(Wish::Accept)?;
    let host = library.host();
    let script = "# sign on, with a wrong password\ntype LOANS\nkey ENTER\ntype X\nkey TAB\n\
                  type WRONG\nfields\nkey ENTER\nwait 24,2 NOT AUTHORISED\n";
    let done = terminal(&[&host, "--json"], script)?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let shown = String::from_utf8(done.stdout)?;
    ensure!(!shown.contains("WRONG"), "{shown}");
    let values = serde_json::Deserializer::from_str(&shown).into_iter::<Value>();
    let values = values.collect::<Result<Vec<_>, _>>()?;
    let last = values.last().context("nothing was shown")?;
    ensure!(last["rows"][23].as_str().is_some_and(|row| row.contains("NOT AUTHORISED")), "{last}");
    ensure!(last["lu"] == "LIB01" && last["keyboard"] == "free", "{last}");
    let fields = values.iter().find(|value| value.is_array()).context("no fields")?;
    let hidden = fields.as_array().into_iter().flatten().find(|field| field["hidden"] == true);
    let hidden = hidden.context("no hidden field")?;
    ensure!(hidden["text"] == "" && hidden["row"] == 14 && hidden["column"] == 40, "{fields}");
    for (steps, code, word) in [
        (["move 5,1", "type X"].as_slice(), "EP1303", "nothing can be typed here"),
        (&["key PF9"], "EP1302", "a free keyboard did not come within 1 s"),
        (&["wait NEVER"], "EP1302", "'NEVER' did not come"),
        (&["key PF99"], "EP0205", "there are the keys"),
        (&["type \u{6c34}"], "EP1303", "has no character"),
    ] {
        let arguments: Vec<&str> =
            [host.as_str(), "--patience", "1"].iter().chain(steps).copied().collect();
        let done = terminal(&arguments, "")?;
        let error = String::from_utf8(done.stderr)?;
        ensure!(!done.status.success(), "{steps:?} was done");
        ensure!(error.contains(code) && error.contains(word), "{steps:?}: {error}");
    }
    let gone = terminal(&["127.0.0.1:1", "screen"], "")?;
    ensure!(gone.status.code() == Some(5), "{gone:?}");
    Ok(())
}

/// A logo, and a menu that ENTER brings.
const TRACE: &str = "\
< 0x0   fffd18fffa1801fff0fffd19fffb19fffd00fffb00
> 0x0   fffb18fffa180049424d2d333237382d322d45fff0fffb19fffd19fffb00fffd00
< 0x0   f5c21d60d3d6c7d6ffef
> 0x0   7d4040ffef
< 0x0   f5c21d60d4c5d5e4ffef
";

#[test]
fn a_trace_is_played_under_tls_to_a_terminal() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let trace = folder.path().join("session.trc");
    std::fs::write(&trace, TRACE)?;
    let mut command = Command::new(program());
    command.args(["host", "play", "--tls", "--lag", "1"]).arg(&trace).stdout(Stdio::piped());
    let mut player = command.spawn()?;
    let mut told = BufReader::new(player.stdout.take().context("no output")?);
    let mut lines = (&mut told).lines();
    let mut after = |begin: &str| -> Result<String> {
        loop {
            let line = lines.next().context("the player has ended")??;
            if let Some(rest) = line.strip_prefix(begin) {
                return Ok(rest.to_owned());
            }
        }
    };
    let pin = after("certificate: SHA-256 ")?;
    let address = format!("tls://{}", after("listening on ")?);
    let steps = [address.as_str(), "--pin", &pin, "wait LOGO", "key ENTER", "wait MENU", "screen"];
    let done = terminal(&steps, "")?;
    let shown = String::from_utf8(done.stdout)?;
    ensure!(done.status.success() && shown.contains("MENU"), "{shown}");
    let pid = rustix::process::Pid::from_child(&player);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
    ensure!(player.wait()?.success());
    let mut rest = String::new();
    told.read_to_string(&mut rest)?;
    ensure!(rest.contains("1 clients") && rest.contains("1 keys answered"), "{rest}");
    std::fs::write(&trace, "no trace")?;
    let refused = Command::new(program()).args(["host", "play"]).arg(&trace).output()?;
    ensure!(refused.status.code() == Some(4), "{refused:?}");
    ensure!(String::from_utf8(refused.stderr)?.contains("EP1304"));
    Ok(())
}

#[test]
fn a_session_is_recorded_without_its_password_and_played_again() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let library = Library::open(Wish::Accept)?;
    let traces = folder.path().join("traces");
    let mut command = Command::new(program());
    command.args(["host", "record", "--to", &library.host(), "--into"]).arg(&traces);
    let mut recorder = command.stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    let mut told = BufReader::new(recorder.stdout.take().context("no output")?);
    told.read_line(&mut line)?;
    let address = line.trim().strip_prefix("listening on ").context("no address")?;
    let steps = [
        "type LOANS",
        "key enter",
        "type NOVAK",
        "key tab",
        "type SECRET",
        "key enter",
        "wait 1,72 LB100",
    ];
    let signs_on = |address: &str| terminal(&[&[address], &steps[..]].concat(), "");
    let done = signs_on(address)?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let pid = rustix::process::Pid::from_child(&recorder);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
    ensure!(recorder.wait()?.success());
    line.clear();
    told.read_line(&mut line)?;
    ensure!(line == "1 sessions recorded, 0 of them not whole\n", "{line}");
    let file = std::fs::read_dir(&traces)?.next().context("no trace")??.path();
    let text = std::fs::read_to_string(&file)?;
    // SECRET in EBCDIC.
    ensure!(!text.contains("e2c5c3d9c5e3") && text.contains("5c5c5c5c5c5c"), "{text}");
    let mut command = Command::new(program());
    let mut player = command.args(["host", "play"]).arg(&file).stdout(Stdio::piped()).spawn()?;
    let lines = BufReader::new(player.stdout.take().context("no output")?).lines();
    let mut lines = lines.map_while(Result::ok);
    let address = lines.find_map(|line| line.strip_prefix("listening on ").map(str::to_owned));
    let done = signs_on(&address.context("no address")?)?;
    let shown = String::from_utf8(done.stdout)?;
    player.kill()?;
    player.wait()?;
    ensure!(done.status.success() && shown.contains("HELLO NOVAK"), "{shown}");
    Ok(())
}

const MODEL: &str = entrepot_host::SAMPLE_MODEL;

/// The sample application, for as long as this lives.
pub(crate) struct SampleHost {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl SampleHost {
    pub(crate) fn start() -> Result<SampleHost> {
        let mut command = Command::new(program());
        command.args(["host", "sample"]).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening on ").context("no address")?;
        Ok(SampleHost { address: address.parse()?, child })
    }

    /// Endpoint and model of it, for one session of a clerk.
    pub(crate) fn documents(&self) -> String {
        let port = self.address.port();
        let definition: String = MODEL.lines().map(|line| format!("    {line}\n")).collect();
        format!(
            "endpoint: {{name: library, target: {{tn3270: {{host: 127.0.0.1, port: {port}}}}}}}\n\
             ---\nmodel:\n  name: loans\n  endpoint: library\n  users: |\n    user,password\n    \
             CLERK1,SECRET\n    CLERK2,SECRET\n  definition: |\n{definition}"
        )
    }
}

impl Drop for SampleHost {
    fn drop(&mut self) {
        // One that has ended is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the sample application has, as a file of rows.
pub(crate) fn loans_csv() -> String {
    let rows = (0..SAMPLE_LOANS).map(|place| {
        let SampleLoan { id, title, due, fine } = SampleLoan::at(place);
        let fine = if fine.is_empty() { "" } else { "1250.50" };
        format!("{id},{title},2026-11-{},{fine}\r\n", &due[..2])
    });
    std::iter::once("id,title,due,fine\r\n".to_owned()).chain(rows).collect()
}

/// A node with the sample application, and a rule that calls it.
pub(crate) struct Loans {
    pub(crate) node: Node,
    login: Login,
    out: PathBuf,
    server: String,
}

impl Loans {
    pub(crate) fn start(sample: &SampleHost) -> Result<Loans> {
        let mut node = Node::new(program(), None)?;
        let login = Login::create(&node, "anna")?;
        for who in ["bob", "clara", "dora"] {
            let create = ["account", "create", who, "--password-stdin"];
            node.cli_with_input(&create, &format!("a word of {who}"))?;
        }
        node.cli(&["listener", "create", "https", "protocol=https", "address=127.0.0.1:0"])?;
        let out = node.scratch().join("out");
        std::fs::create_dir(&out)?;
        let documents = sample.documents()
            + "  callers: {bob: [find_loans]}\n  terminals: [clara]\n  pool: {initial: 1}\n---\n"
            + &format!("endpoint: {{name: out, target: {{directory: {{path: {out:?}}}}}}}\n")
            + "---\nrule:\n  name: loans\n  when: {event: file.uploaded}\n  do:\n  \
               - name: loans\n    procedure: {model: loans, call: find_loans, \
               in: {reader: '{stem}'}, name: '{stem}.csv'}\n  \
               - check: {that: steps.loans.result.loans == 30, message: other loans}\n  \
               - deliver: {endpoint: out, path: '{name}'}\n";
        node.cli_with_input(&["apply", "-"], &documents)?;
        node.start()?;
        let server = format!("https://127.0.0.1:{}/api/v1/models/loans", node.port_of("https")?);
        Ok(Loans { node, login, out, server })
    }

    pub(crate) fn ask(
        &self,
        who: &str,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<(u16, Value)> {
        let mut curl = Command::new("curl");
        curl.args(["-sSk", "--max-time", "60", "-u", &format!("{who}:a word of {who}")]);
        curl.args(["-X", method, "-H", "Content-Type: application/json", "-w", "\n%{http_code}"]);
        if !body.is_empty() {
            curl.args(["-d", body]);
        }
        let address = format!("{}{path}", self.server);
        let output = String::from_utf8(run(curl.arg(address))?.stdout)?;
        let (body, status) = output.rsplit_once('\n').context("a status")?;
        let value = if body.is_empty() { Value::Null } else { serde_json::from_str(body)? };
        Ok((status.parse()?, value))
    }

    pub(crate) fn find(&self, who: &str, body: &str) -> Result<(u16, Value)> {
        self.ask(who, "POST", "/procedures/find_loans", body)
    }
}

/// Over HTTPS by somebody who may, and by a rule whose file is delivered.
#[test]
fn procedures_are_called_over_https_and_by_rules() -> Result<()> {
    let sample = SampleHost::start()?;
    let mut loans = Loans::start(&sample)?;
    let novak = r#"{"reader": "NOVAK"}"#;
    // The model is deployed a moment after the node is there.
    let (status, found) = loans.node.until("the model", || {
        let found = loans.find("bob", novak)?;
        Ok((found.1["code"] != "EP1314").then_some(found))
    })?;
    ensure!(status == 200 && found["reader"] == "NOVAK", "{status} {found}");
    ensure!(found["loans"].as_array().is_some_and(|loans| loans.len() == SAMPLE_LOANS), "{found}");
    for (who, body, wanted, code) in [
        ("clara", novak, 403, "EP1315"),
        ("bob", "{}", 422, "EP1306"),
        ("bob", r#"{"reader": ["NOVAK"]}"#, 422, "EP1114"),
        ("bob", r#"{"reader": "NOBODY"}"#, 404, "EP1307"),
    ] {
        let (status, answer) = loans.find(who, body)?;
        ensure!(status == wanted && answer["code"] == code, "{who} {body}: {status} {answer}");
        if code == "EP1307" {
            ensure!(answer["error"] == "not_found" && answer["entity"] == "Find", "{answer}");
            let rows = answer["screen"].as_array().context("no screen")?;
            ensure!(rows.iter().any(|row| row.to_string().contains("NO SUCH READER")), "{answer}");
        }
    }
    let (status, described) = loans.ask("bob", "GET", "/procedures/openapi.json", "")?;
    let paths = described["paths"].as_object().context("no paths")?;
    let base = "/api/v1/models/loans";
    let wanted = [
        "procedures/find_loans",
        "sessions",
        "sessions/{id}",
        "sessions/{id}/suspend",
        "sessions/{id}/resume",
        "sessions/{id}/procedures/find_loans",
    ];
    let wanted: BTreeSet<String> = wanted.iter().map(|path| format!("{base}/{path}")).collect();
    ensure!(
        status == 200 && paths.keys().collect::<BTreeSet<_>>() == wanted.iter().collect(),
        "{paths:?}"
    );
    let of_session = &paths[&format!("{base}/sessions/{{id}}/procedures/find_loans")]["post"];
    ensure!(of_session["operationId"] == "find_loans_in_session", "{of_session}");
    let at_once = &paths[&format!("{base}/procedures/find_loans")]["post"];
    ensure!(of_session["responses"] == at_once["responses"], "{of_session}");
    // Nothing that is secret is shown.
    let node = &loans.node;
    let shown = node.cli(&["model", "show", "loans"])?;
    ensure!(shown.contains("***") && !shown.contains("CLERK1"), "{shown}");

    std::fs::write(node.scratch().join("NOVAK.txt"), "whose loans?")?;
    loans.login.sftp_batch(node, &format!("put {}/NOVAK.txt", node.scratch().display()))?;
    let file = loans.out.join("NOVAK.csv");
    let made = node.until("the file of the rule", || Ok(std::fs::read_to_string(&file).ok()))?;
    ensure!(made == loans_csv(), "{made}");
    let calls = node.until("the calls to be told of", || {
        let calls = node.events("procedure.called")?;
        Ok((calls.len() >= 4).then_some(calls))
    })?;
    let told: Vec<_> = calls.iter().map(|it| (&it["account"], &it["code"])).collect();
    let of_bob = calls.iter().filter(|it| it["account"] == "bob").count();
    ensure!(calls.len() == 4 && of_bob == 3, "{told:?}");
    // A model that is taken away cannot be called, and its sessions are logged off.
    node.cli(&["model", "change", "loans", "enabled=false"])?;
    node.until("its end", || Ok((loans.find("bob", novak)?.1["code"] == "EP1314").then_some(())))?;
    loans.node.stop()
}

/// A session over many requests: at its screens by who may, and by procedures of who may call.
#[test]
fn sessions_are_held_over_https() -> Result<()> {
    let sample = SampleHost::start()?;
    let mut loans = Loans::start(&sample)?;
    let opened = |who: &str, body: &str| loans.ask(who, "POST", "/sessions", body);
    let (status, session) = loans.node.until("the model", || {
        let opened = opened("clara", "{}")?;
        Ok((opened.1["code"] != "EP1314").then_some(opened))
    })?;
    ensure!(status == 201 && session["state"] == "active" && session["pooled"] == true);
    let path = |session: &Value, rest: &str| format!("/sessions/{}{rest}", text(&session["id"]));
    let at = |who: &str, rest: &str, body: &str| -> Result<(u16, Value)> {
        let method = if rest == "/screen" || rest.is_empty() { "GET" } else { "POST" };
        loans.ask(who, method, &path(&session, rest), body)
    };
    for (rest, body, stands) in [
        ("/screen", "", "Menu"),
        ("/type", r#"{"field": "option", "text": "1"}"#, "Menu"),
        ("/key", r#"{"key": "ENTER"}"#, "Find"),
        ("/type", r#"{"at": "10,20", "text": "NOVAK"}"#, "Find"),
        ("/key", r#"{"key": "enter"}"#, "Loans"),
        ("/wait", r#"{"text": "TITLE OF BOOK 3", "timeout": "20s"}"#, "Loans"),
        ("/go", r#"{"to": "Find"}"#, "Find"),
    ] {
        let (status, screen) = at("clara", rest, body)?;
        ensure!(status == 200 && screen["entity"] == stands, "{rest} {body}: {status} {screen}");
        let rows = screen["rows"].as_array().context("no rows")?;
        ensure!(rows.len() == 24 && screen["cursor"]["row"].is_u64(), "{screen}");
    }
    bad_requests_are_refused_in_plain_words(&at)?;
    // Bob may call a procedure, in a session of his own, and see no screen.
    let (_, of_bob) = opened("bob", "")?;
    let of_bob =
        |rest: &str, method: &str, body: &str| loans.ask("bob", method, &path(&of_bob, rest), body);
    let (status, found) = of_bob("/procedures/find_loans", "POST", r#"{"reader": "NOVAK"}"#)?;
    ensure!(status == 200 && found["reader"] == "NOVAK", "{status} {found}");
    let (status, refused) = of_bob("/screen", "GET", "")?;
    ensure!(status == 403 && refused["code"] == "EP1315", "{status} {refused}");
    let (status, shown) = of_bob("/suspend", "POST", "")?;
    ensure!(status == 200 && shown["state"] == "suspended", "{shown}");
    let (status, refused) = of_bob("/procedures/find_loans", "POST", r#"{"reader": "NOVAK"}"#)?;
    ensure!(status == 409 && refused["code"] == "EP1318", "{status} {refused}");
    let suspended = r#"model="loans",state="suspended""#;
    loans.node.until("the gauge", || {
        let url = format!("{}/metrics", loans.node.ops_url()?);
        let page = run(Command::new("curl").args(["-sf", "-m", "20", &url]))?.stdout;
        let metrics = String::from_utf8(page)?;
        let is_shown = |line: &str| {
            line.starts_with("entrepot_host_sessions{")
                && line.contains(suspended)
                && line.ends_with(" 1.0")
        };
        Ok(metrics.lines().any(is_shown).then_some(()))
    })?;
    ensure!(of_bob("/resume", "POST", "")?.1["state"] == "active");
    ensure!(loans.ask("clara", "DELETE", &path(&session, ""), "")?.0 == 204);
    ensure!(at("clara", "/screen", "")?.1["code"] == "EP1313");
    let node = &loans.node;
    let ends = node.until("the end", || Ok(node.events("host-session.ended")?.pop()))?;
    ensure!(ends["account"] == "clara" && ends["why"] == "ended" && ends["keys"] == 2, "{ends}");
    ensure!(node.events("host-session.opened")?.len() == 2);
    loans.node.stop()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

type Ask<'a> = &'a dyn Fn(&str, &str, &str) -> Result<(u16, Value)>;

fn bad_requests_are_refused_in_plain_words(at: Ask<'_>) -> Result<()> {
    for (who, rest, body, wanted, code, words) in [
        ("bob", "/procedures/find_loans", r#"{"reader": "NOVAK"}"#, 404, "EP1313", "not held"),
        ("dora", "/suspend", "", 403, "EP1315", "may not hold a session"),
        ("clara", "/procedures/find_loans", "{}", 403, "EP1315", "may not call"),
        ("clara", "/type", "{}", 422, "EP0205", "text"),
        ("clara", "/type", r#"{"text": "A\nB"}"#, 422, "EP1114", "no control characters"),
        ("clara", "/type", r#"{"text": "A", "at": "0,1"}"#, 422, "EP1114", "'5,12'"),
        ("clara", "/type", r#"{"text": "A", "at": "99,1"}"#, 422, "EP1306", "24 rows"),
        ("clara", "/type", r#"{"text": "A", "at": "1,1"}"#, 409, "EP1303", "key reset"),
        ("clara", "/key", r#"{"key": "RESETT"}"#, 422, "EP1114", "there are ENTER"),
        ("clara", "/key", r#"{"key": ["ENTER"]}"#, 422, "EP0205", ""),
        ("clara", "/wait", r#"{"at": "1,1"}"#, 422, "EP1114", "give both"),
        ("clara", "/wait", r#"{"timeout": "1h"}"#, 422, "EP1114", "at most 300s"),
        ("clara", "/wait", r#"{"text": "X", "timeout": "1ms"}"#, 422, "EP0205", ""),
        ("clara", "/go", r#"{"to": "Fined"}"#, 422, "EP1306", "there are Logo"),
    ] {
        let (status, answer) = at(who, rest, body)?;
        let told = format!("{who} {rest} {body}: {status} {answer}");
        ensure!(status == wanted && answer["code"] == code, "{told}");
        ensure!(text(&answer["detail"]).contains(words), "{told}");
    }
    Ok(())
}

#[test]
fn a_procedure_is_called_recorded_and_tested_from_the_recording() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(file("loans.yaml"), MODEL)?;
    std::fs::write(file("password"), "SECRET\n")?;
    let run = |arguments: &[&str]| Command::new(program()).args(arguments).output();
    let checked = run(&["host", "model", "check", &file("loans.yaml")])?;
    ensure!(checked.status.success(), "{checked:?}");

    let mut command = Command::new(program());
    let sample = SampleHost::start()?;
    let host = sample.address.to_string();
    command.args(["host", "record", "--to", &host, "--into", &file("traces")]);
    let mut recorder = command.stdout(Stdio::piped()).spawn()?;
    let mut told = BufReader::new(recorder.stdout.take().context("no output")?);
    let mut line = String::new();
    told.read_line(&mut line)?;
    let address = line.trim().strip_prefix("listening on ").context("no address")?.to_owned();
    let (model, secret) = (file("loans.yaml"), format!("password={}", file("password")));
    let call = |reader: &str| {
        let reader = format!("reader={reader}");
        let given = ["--in", &reader, "--set", "user=CLERK", "--secret", &secret];
        run(&[&["host", "call", &model, "find_loans", "--address", &address], &given[..]].concat())
    };
    let found = call("NOVAK")?;
    ensure!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    let value: Value = serde_json::from_slice(&found.stdout)?;
    ensure!(value["loans"].as_array().is_some_and(|loans| loans.len() == SAMPLE_LOANS));
    ensure!(value["loans"][29]["title"] == SampleLoan::at(29).title.as_str(), "{value}");
    let refused = call("NOBODY")?;
    ensure!(refused.status.code() == Some(1), "{refused:?}");
    ensure!(String::from_utf8(refused.stderr)?.contains("not_found: NO SUCH READER"));
    let pid = rustix::process::Pid::from_child(&recorder);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
    recorder.wait()?;

    // The first session was the one that found something.
    let traces = std::fs::read_dir(file("traces"))?.collect::<Result<Vec<_>, _>>()?;
    let trace = traces.iter().map(|entry| entry.path()).min().context("no trace")?;
    std::fs::rename(trace, file("find.trc"))?;
    std::fs::write(file("find.json"), &found.stdout)?;
    let tests = "tests:\n  - {trace: find.trc, call: find_loans, in: {reader: NOVAK}, \
                 variables: {user: CLERK, password: X}, want: find.json}\n";
    std::fs::write(file("loans.yaml"), format!("{MODEL}{tests}"))?;
    let tested = run(&["host", "model", "test", &file("loans.yaml")])?;
    ensure!(tested.status.success(), "{tested:?}");
    std::fs::write(file("find.json"), "{}")?;
    let tested = run(&["host", "model", "test", &file("loans.yaml")])?;
    ensure!(tested.status.code() == Some(6), "{tested:?}");
    let wrong = MODEL.replace("home: Menu", "home: Meno");
    std::fs::write(file("loans.yaml"), wrong)?;
    let checked = run(&["host", "model", "check", &file("loans.yaml")])?;
    let told = String::from_utf8(checked.stdout)?;
    ensure!(checked.status.code() == Some(6) && told.contains("did you mean 'Menu'?"), "{told}");
    Ok(())
}
