//! Who one is over FTP: sites by their host names, codes, certificates, and what policies say of
//! accounts.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};
use entrepot_testkit::clients::ftp::Protection::{Clear, Tls};
use entrepot_testkit::clients::{Login, local_file, text};
use entrepot_testkit::server::{Node, run};

use super::ftp::{Raw, node_with_ftp};
use crate::login::{Generator, set_login};

/// A site `north` with an account `acme` of its own, beside that of `main`.
fn add_north(node: &Node) -> Result<PathBuf> {
    let files = node.scratch().join("north");
    std::fs::create_dir_all(&files)?;
    node.cli(&["site", "create", "north", r#"hosts=["north.example","north.test"]"#])?;
    let north = |arguments: &[&str], input: &str| {
        node.cli_with_input(&[&["--site", "north"], arguments].concat(), input)
    };
    let target = format!(r#"target={{"directory":{{"path":"{}"}}}}"#, text(&files)?);
    north(&["endpoint", "create", "files", &target], "")?;
    north(&["account", "create", "acme", "--password-stdin"], "of north\n")?;
    north(&["mount", "create", "home", "account=acme", "path=/", "endpoint=files"], "")?;
    Ok(files)
}

fn codes(raw: &mut Raw, talk: &[(&str, u16)]) -> Result<()> {
    talk.iter().try_for_each(|(command, code)| raw.say(command, *code).map(drop))
}

#[test]
fn host_chooses_the_site_whose_account_logs_in() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    let own = format!("PASS {}", login.password);
    // No site has a host name yet.
    let mut raw = Raw::connect(&node)?;
    codes(&mut raw, &[("HOST north.example", 502), ("HELP HOST", 502)])?;
    let files = add_north(&node)?;
    let mut raw = node.until("HOST to be offered", || {
        let mut raw = Raw::connect(&node)?;
        raw.send("HELP HOST")?;
        Ok(raw.reply()?.starts_with("214").then_some(raw))
    })?;
    codes(
        &mut raw,
        &[
            ("HOST south.example", 504),
            ("HOST 192.0.2.9", 504),
            ("HOST north.example:21", 501),
            ("HOST NORTH.example", 220),
            ("USER acme", 331),
            ("HOST north.example", 503),
            (&own, 530),
            ("HOST north.test", 220),
            ("USER acme", 331),
            ("PASS of north", 230),
            ("HOST north.test", 503),
            ("TYPE I", 200),
        ],
    )?;
    // The list of sessions shows its site.
    let sessions = node.json(&["session", "list"])?;
    assert_eq!((&sessions[0]["site"], &sessions[1]), (&"north".into(), &serde_json::Value::Null));
    let mut other = Raw::connect(&node)?;
    codes(&mut other, &[("USER acme", 331), (&own, 230)])?;
    let sessions = node.json(&["session", "list"])?;
    let sites = sessions.as_array().into_iter().flatten().map(|row| row["site"].to_string());
    let mut sites: Vec<String> = sites.collect();
    sites.sort();
    assert_eq!(sites, ["\"main\"", "\"north\""]);
    drop(other);
    let mut data = raw.data()?;
    raw.say("STOR here", 150)?;
    std::io::Write::write_all(&mut data, b"north")?;
    drop(data);
    raw.await_code(226)?;
    assert_eq!(std::fs::read(files.join("here"))?, b"north");
    // REIN forgets it; our own address and nothing at all mean the listener's site.
    codes(
        &mut raw,
        &[
            ("REIN", 220),
            ("USER acme", 331),
            ("PASS of north", 530),
            ("HOST 127.0.0.1", 220),
            ("USER acme", 331),
            (&own, 230),
            ("SIZE here", 550),
        ],
    )?;
    let opened =
        node.cli(&["--site", "north", "event", "list", "--kind", "session.opened", "--json"])?;
    assert_eq!(opened.matches("session.opened").count(), 1, "{opened}");
    node.cli(&["site", "change", "main", r#"hosts=["main.example"]"#])?;
    let taken = node.command(&["site", "change", "main", r#"hosts=["north.test"]"#]).output()?;
    ensure!(String::from_utf8_lossy(&taken.stderr).contains("'north' is reached by"), "{taken:?}");
    Ok(())
}

#[test]
fn the_server_name_of_tls_chooses_the_site_and_host_must_say_the_same() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    let files = add_north(&node)?;
    let local = local_file(&node, "f", b"by name")?;
    let port = node.ftp_port()?;
    let curl = |host: &str, password: &str| {
        let mut curl = Command::new("curl");
        curl.args(["-sSkv", "--ssl-reqd", "-u", &format!("acme:{password}")]);
        curl.args(["--resolve", &format!("{host}:{port}:127.0.0.1")]);
        curl.arg("-T").arg(&local).arg(format!("ftp://{host}:{port}/f")).output()
    };
    node.until("the host name to be known", || {
        Ok(curl("north.example", "of north")?.status.success().then_some(()))
    })?;
    assert_eq!(std::fs::read(files.join("f"))?, b"by name");
    let said = |output: &std::process::Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let north = said(&curl("north.example", "of north")?);
    ensure!(north.contains("331 Send the password of your account at north.example."), "{north}");
    ensure!(north.contains("230 You are logged in at north.example."), "{north}");
    let refused = curl("north.example", &login.password)?;
    ensure!(!refused.status.success());
    let why = "530 The login is not right: it was tried at north.example, the host name that";
    ensure!(said(&refused).contains(why), "{}", said(&refused));
    let log = node.log();
    let line = log.lines().find(|line| line.contains("the host name chose the site"));
    let words = ["listener=ftp", "host=\"north.example\"", "site=north"];
    ensure!(line.is_some_and(|line| words.iter().all(|word| line.contains(word))), "{log}");
    // A name of no site is the listener's own.
    let other = curl("other.example", &login.password)?;
    ensure!(other.status.success());
    ensure!(said(&other).contains("230 You are logged in.\r"), "{}", said(&other));
    ensure!(login.on_disk(&node, "f").exists());
    let script = "
import socket
def secured(name):
    ftp = ftplib.FTP_TLS(); ftp.connect('localhost', PORT, timeout=30)
    ftp.sendcmd('HOST north.test')
    ftp.voidcmd('AUTH TLS')
    context = ssl.create_default_context()
    context.check_hostname = False; context.verify_mode = ssl.CERT_NONE
    ftp.sock = context.wrap_socket(ftp.sock, server_hostname=name)
    ftp.file = ftp.sock.makefile(mode='r', encoding='utf-8')
    return ftp
def logs_in(ftp, password):
    ftp.sendcmd('USER acme')
    return refused(ftp, 'PASS ' + password)
# What was said in clear holds where TLS says no name, and gives way to one.
assert logs_in(secured(None), 'of north')[:6] == 'taken:'
assert logs_in(secured('localhost'), 'of north') == '530'
assert logs_in(secured('localhost'), PASSWORD)[:6] == 'taken:'
ftp = secured('north.example')
assert refused(ftp, 'HOST north.test') == '504' and refused(ftp, 'HOST 127.0.0.1') == '504'
assert ftp.sendcmd('HOST North.Example')[:3] == '220'
assert logs_in(ftp, 'of north')[:6] == 'taken:'
";
    login.ftplib(&node, Clear, script)?;
    Ok(())
}

#[test]
fn a_code_is_given_by_acct() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    let mut generator = Generator::of(&node, "acme")?;
    let script = format!(
        "
def login(code, password=PASSWORD):
    ftp = ftplib.FTP(); ftp.connect('localhost', PORT, timeout=30)
    try:
        ftp.login(USER, password, code)
        put(ftp, 'f' + code, b'x'); return ftp
    except ftplib.Error as error:
        return str(error)[:3]
first, second = '{}', '{}'
assert login('000000') == '530'
assert login(first, 'wrong') == '530'
known = login(first)
assert not isinstance(known, str), known
assert known.sendcmd('ACCT more')[:3] == '202'
assert login(first) == '530', 'a code is good once'
assert not isinstance(login(second), str)
ftp = ftplib.FTP(); ftp.connect('localhost', PORT, timeout=30)
assert ftp.sendcmd('USER ' + USER)[:3] == '331'
assert ftp.sendcmd('PASS ' + PASSWORD)[:3] == '332'
assert refused(ftp, 'LIST') == '530'
# Half a login of one name is none of another.
assert ftp.sendcmd('USER other')[:3] == '331' and refused(ftp, 'ACCT 1') == '503'
",
        generator.next(0)?,
        generator.next(1)?
    );
    // It logs in by itself.
    let mut command = Command::new("python3");
    let prelude = "
import ftplib, io, sys
PORT, USER, PASSWORD = int(sys.argv[1]), sys.argv[2], sys.argv[3]
def put(ftp, name, data):
    return ftp.storbinary('STOR ' + name, io.BytesIO(data))
def refused(ftp, command):
    try:
        return 'taken: ' + ftp.sendcmd(command)
    except ftplib.Error as error:
        return str(error)[:3]
";
    command.args(["-c", &format!("{prelude}{script}"), &node.ftp_port()?.to_string()]);
    run(command.args([&login.account, &login.password]))?;
    let proof = node.until("the event of the login", || {
        Ok(node.events("session.opened")?.into_iter().next())
    })?;
    assert_eq!(proof["proof"], "password + code");
    // FTP cannot ask for the steps of these accounts, and says so.
    set_login(&node, "acme", r#"[["password","public-key"]]"#)?;
    let told = node.until("the change", || {
        let mut raw = Raw::connect(&node)?;
        raw.say("USER acme", 331)?;
        raw.send(&format!("PASS {}", login.password))?;
        let reply = raw.reply()?;
        Ok(reply.starts_with("530").then_some(reply))
    })?;
    ensure!(told.contains("use SFTP"), "{told}");
    Ok(())
}

/// Certificates of clients, made by openssl.
pub(super) struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    pub(super) fn new(node: &Node) -> Result<Certificates> {
        let made = Certificates { folder: node.scratch().to_owned() };
        for (authority, client) in [("ca", "acme"), ("rogue-ca", "rogue")] {
            let args = ["req", "-x509", "-subj", &format!("/CN={authority}"), "-days", "30"];
            made.openssl(authority, &args)?;
            let (ca, key) = (made.file(authority, "pem"), made.file(authority, "key"));
            let by = ["-CA", text(&ca)?, "-CAkey", text(&key)?];
            let names = "subjectAltName=email:Ops@acme.example,DNS:node1.acme.example";
            let of = ["req", "-x509", "-subj", "/CN=Acme Ltd", "-addext", names, "-days", "30"];
            let no_ca = ["-addext", "basicConstraints=critical,CA:FALSE"];
            made.openssl(client, &[&of[..], &no_ca, &by].concat())?;
        }
        Ok(made)
    }

    pub(super) fn file(&self, name: &str, ending: &str) -> PathBuf {
        self.folder.join(format!("{name}-tls.{ending}"))
    }

    fn openssl(&self, name: &str, arguments: &[&str]) -> Result<()> {
        let mut openssl = Command::new("openssl");
        openssl.args(arguments).args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
        openssl.args(["-nodes", "-keyout"]).arg(self.file(name, "key"));
        run(openssl.arg("-out").arg(self.file(name, "pem"))).map(drop)
    }

    pub(super) fn fingerprint(&self, name: &str) -> Result<String> {
        let mut openssl = Command::new("openssl");
        openssl.args(["x509", "-noout", "-fingerprint", "-sha256", "-in"]);
        let said = run(openssl.arg(self.file(name, "pem")))?.stdout;
        let said = String::from_utf8(said)?;
        Ok(said.trim().rsplit('=').next().unwrap_or_default().to_owned())
    }
}

/// What curl said of an upload: it worked, and all of its talk.
fn upload(
    (node, login): (&Node, &Login),
    made: Option<(&Certificates, &str)>,
    (password, name): (&str, &str),
) -> Result<(bool, String)> {
    let local = local_file(node, "sent", name.as_bytes())?;
    let mut curl = Command::new("curl");
    curl.args(["-sSv", "--ssl-reqd", "-u", &format!("{}:{password}", login.account)]);
    curl.arg("--cacert").arg(node.certificate_of("ftp")?);
    if let Some((made, client)) = made {
        curl.arg("--cert").arg(made.file(client, "pem"));
        curl.arg("--key").arg(made.file(client, "key"));
    }
    let output = curl.arg("-T").arg(&local).arg(login.ftp_url(node, name)?).output()?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        assert_eq!(std::fs::read(login.on_disk(node, name))?, name.as_bytes());
    }
    Ok((output.status.success(), told))
}

/// Waits until connections see the options.
fn set_listener(node: &Node, options: &str, seen: impl Fn() -> Result<bool>) -> Result<()> {
    node.cli(&["listener", "change", "ftp", &format!("tls={options}")])?;
    node.until("the change of the listener", || Ok(seen()?.then_some(())))
}

fn set_account(node: &Node, account: &str, change: &str) -> Result<()> {
    node.cli(&["account", "change", account, change]).map(drop)
}

fn asking(made: &Certificates, word: &str) -> Result<String> {
    let pem = std::fs::read_to_string(made.file("ca", "pem"))?;
    let options = serde_json::json!({"client_certificates": word, "client_authorities": pem});
    Ok(options.to_string())
}

#[test]
fn a_certificate_that_an_authority_signed_logs_in_by_a_name_in_it() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    let other = Login::create(&node, "other")?;
    let made = Certificates::new(&node)?;
    let with = |login: &Login, client: &str, password: &str, name: &str| {
        upload((&node, login), Some((&made, client)), (password, name))
    };
    set_account(&node, "acme", r#"certificates=["email:ops@acme.example"]"#)?;
    set_listener(&node, &asking(&made, "ask")?, || {
        Ok(with(&login, "acme", "wrong", "by-name")?.1.contains("< 232 "))
    })?;
    let (moved, told) = with(&login, "acme", "wrong", "by-name")?;
    ensure!(moved && !told.contains("> PASS"), "{told}");
    node.until("the session in the audit log", || {
        let opened = node.events("session.opened")?;
        Ok(opened.into_iter().find(|it| it["proof"] == "certificate email:ops@acme.example"))
    })?;
    // Others, and those without one, are asked for their passwords.
    let (moved, told) = with(&other, "acme", "wrong", "x")?;
    ensure!(!moved && told.contains("< 331 ") && told.contains("< 530 "), "{told}");
    ensure!(with(&other, "acme", &other.password, "x")?.0);
    // Where data need not resume, it shows the same certificate.
    policy(&node, "acme", &["tls_reuse=preferred"])?;
    let script = "
context = ssl.create_default_context(cafile=CERTIFICATE)
context.load_cert_chain(sys.argv[5], sys.argv[6])
ftp = ftplib.FTP_TLS(context=context); ftp.connect('localhost', PORT, timeout=30)
ftp.auth(); assert ftp.sendcmd('USER ' + USER)[:3] == '232'; ftp.prot_p()
put(ftp, 'same', b'x'); assert get(ftp, 'same') == b'x'
ftp.context = ssl.create_default_context(cafile=CERTIFICATE)
try:
    put(ftp, 'none', b'x'); raise SystemExit('taken')
except (ftplib.Error, OSError):
    pass
";
    let shown = [made.file("acme", "pem"), made.file("acme", "key")];
    login.ftplib_with(&node, Tls, script, &shown)?;
    ensure!(!login.on_disk(&node, "none").exists());
    ensure!(upload((&node, &login), None, (&login.password, "by-password"))?.0);
    // The same names, signed by another authority: no handshake.
    let (moved, told) = with(&login, "rogue", &login.password, "x")?;
    // In TLS 1.3 the client is done before it hears of it.
    ensure!(!moved && told.contains("alert") && !told.contains("< 331"), "{told}");
    // Both are asked for.
    set_login(&node, "acme", r#"[["certificate","password"]]"#)?;
    node.until("both to be asked for", || {
        let (moved, _) = upload((&node, &login), None, (&login.password, "one"))?;
        Ok((!moved).then_some(()))
    })?;
    let (moved, told) = with(&login, "acme", &login.password, "both")?;
    ensure!(moved && told.contains("< 331 ") && told.contains("< 230 "), "{told}");
    ensure!(!with(&login, "acme", "wrong", "x")?.0);
    Ok(())
}

#[test]
fn a_certificate_that_is_required_is_shown_before_anything() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    let made = Certificates::new(&node)?;
    set_account(&node, "acme", r#"certificates=["dns:node1.acme.example"]"#)?;
    set_listener(&node, &asking(&made, "require")?, || {
        Ok(!upload((&node, &login), None, (&login.password, "none"))?.0)
    })?;
    let (moved, told) = upload((&node, &login), None, (&login.password, "none"))?;
    // In TLS 1.3 the client is done before it hears of it.
    ensure!(!moved && told.contains("alert") && !told.contains("< 331"), "{told}");
    Raw::connect(&node)?.say("USER acme", 530)?;
    let (moved, told) = upload((&node, &login), Some((&made, "acme")), ("", "required"))?;
    ensure!(moved && told.contains("< 232 "), "{told}");
    // A session ends when its certificate is taken away; a code may follow one.
    let mut generator = Generator::of(&node, "acme")?;
    set_login(&node, "acme", r#"[["certificate","totp"]]"#)?;
    let other = Login::create(&node, "other")?;
    let script = format!(
        "
import ftplib, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[2])
context.load_cert_chain(sys.argv[3], sys.argv[4])
while True:
    ftp = ftplib.FTP_TLS(context=context); ftp.connect('localhost', int(sys.argv[1]), timeout=60)
    try:
        ftp.login('acme', '000000'); ftp.quit()
    except ftplib.error_perm:
        break
ftp = ftplib.FTP_TLS(context=context); ftp.connect('localhost', int(sys.argv[1]), timeout=60)
ftp.auth(); assert ftp.sendcmd('USER acme')[:3] == '331'
# The next name is asked for what is its own.
assert ftp.login('other', '{}')[:3] == '230'
assert ftp.login('acme', '{}')[:3] == '230'
print('in', flush=True); sys.stdin.readline()
try:
    print(ftp.getresp())
except (ftplib.Error, EOFError) as error:
    print(error)
",
        other.password,
        generator.next(0)?
    );
    let mut python = Command::new("python3");
    python.args(["-c", &script, &node.ftp_port()?.to_string()]);
    python.arg(node.certificate_of("ftp")?);
    python.arg(made.file("acme", "pem")).arg(made.file("acme", "key"));
    let line = said_after(python, || set_account(&node, "acme", "certificates=[]"))?;
    ensure!(line.starts_with("421") && line.contains("certificate"), "{line}");
    Ok(())
}

/// What a program says behind `in`, once there was a change.
fn said_after(mut program: Command, change: impl FnOnce() -> Result<()>) -> Result<String> {
    program.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = program.spawn()?;
    let mut said = std::io::BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line)?;
    assert_eq!(line, "in\n");
    change()?;
    drop(child.stdin.take());
    line.clear();
    std::io::BufRead::read_line(&mut said, &mut line)?;
    child.wait()?;
    Ok(line)
}

#[test]
fn a_certificate_counts_only_while_its_authority_does() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    let made = Certificates::new(&node)?;
    let with = |client: &str| upload((&node, &login), Some((&made, client)), ("wrong", "f"));
    set_account(&node, "acme", r#"certificates=["email:ops@acme.example"]"#)?;
    set_listener(&node, &asking(&made, "ask")?, || Ok(with("acme")?.0))?;
    let script = "
import ftplib, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[2])
context.load_cert_chain(sys.argv[3], sys.argv[4])
def secured():
    ftp = ftplib.FTP_TLS(context=context); ftp.connect('localhost', int(sys.argv[1]), timeout=60)
    ftp.auth(); return ftp
assert secured().sendcmd('USER acme')[:3] == '232'
ftp = secured()
print('in', flush=True); sys.stdin.readline()
try:
    print(ftp.sendcmd('USER acme'))
except (ftplib.Error, EOFError) as error:
    print(error)
";
    let mut python = Command::new("python3");
    python.args(["-c", script, &node.ftp_port()?.to_string()]).arg(node.certificate_of("ftp")?);
    python.arg(made.file("acme", "pem")).arg(made.file("acme", "key"));
    let pem = std::fs::read_to_string(made.file("rogue-ca", "pem"))?;
    let other = serde_json::json!({"client_certificates": "ask", "client_authorities": pem});
    let line =
        said_after(python, || set_listener(&node, &other.to_string(), || Ok(with("rogue")?.0)))?;
    ensure!(line.starts_with("421"), "{line}");
    // One that cannot be read changes nothing.
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let other = serde_json::json!({"client_certificates": "ask", "client_authorities": broken});
    let refused = node.command(&["listener", "change", "ftp", &format!("tls={other}")]).output()?;
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure!(!refused.status.success() && told.contains("tls.client_authorities"), "{told}");
    Ok(())
}

#[test]
fn without_authorities_a_certificate_counts_by_its_fingerprint_only() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    let made = Certificates::new(&node)?;
    set_account(&node, "acme", r#"certificates=["cn:Acme Ltd"]"#)?;
    let with =
        |client: &str, name: &str| upload((&node, &login), Some((&made, client)), ("wrong", name));
    node.cli(&["listener", "change", "ftp", "tls.client_certificates=ask"])?;
    let entry = format!(r#"certificates=["cn:Acme Ltd","SHA256:{}"]"#, made.fingerprint("rogue")?);
    set_account(&node, "acme", &entry)?;
    node.until("the fingerprint to count", || Ok(with("rogue", "pinned")?.0.then_some(())))?;
    let (moved, told) = with("acme", "x")?;
    ensure!(!moved && told.contains("< 331 "), "a name counts that nobody vouched for: {told}");
    Ok(())
}

fn policy(node: &Node, account: &str, fields: &[&str]) -> Result<()> {
    let name = format!("of-{account}");
    node.cli(&[&["policy", "create", &name], fields].concat())?;
    set_account(node, account, &format!("policy={name}"))
}

#[test]
fn the_policy_of_an_account_says_whether_data_must_resume_tls() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    let other = Login::create(&node, "other")?;
    policy(&node, "acme", &["tls_reuse=off"])?;
    let taken = "put(ftp, 'f', b'x' * 300000); assert get(ftp, 'f') == b'x' * 300000; ftp.quit()";
    login.ftplib(&node, Tls, taken)?;
    ensure!(other.ftplib(&node, Tls, taken).is_err(), "the listener still asks for it");
    let local = local_file(&node, "f", b"resumed")?;
    let url = other.ftp_url(&node, "f")?;
    run(other.curl_ftp(&node, Tls)?.arg("-T").arg(&local).arg(url))?;
    Ok(())
}

#[test]
fn an_upload_that_is_not_as_long_as_announced_is_not_published() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    policy(&node, "acme", &["strict_size=true"])?;
    let script = "
def code(size, data, verb='STOR', rest=None):
    if size is not None:
        ftp.voidcmd('TYPE I'); ftp.voidcmd('ALLO %d' % size)
    try:
        return put(ftp, 'f', data, verb, rest)[:3]
    except ftplib.Error as error:
        return str(error)[:3]
assert code(10, b'x' * 9) == '426'
assert ftp.nlst() == [], 'it is seen'
ftp.voidcmd('TYPE I'); assert ftp.size('f') == 9, 'what came is not kept'
assert code(1, b'y', rest=9) == '226'
assert get(ftp, 'f') == b'x' * 9 + b'y'
assert code(3, b'abcd') == '552'
assert code(3, b'abcd' * 100000) == '552'
assert get(ftp, 'f') == b'x' * 9 + b'y'
assert code(14, b'more', 'APPE') == '226', 'the whole may be announced'
assert code(4, b'more', 'APPE') == '226'
assert code(3, b'abc') == '226' and code(None, b'any') == '226'
assert code(0, b'') == '226' and code(1, b'') == '426'
ftp.voidcmd('ALLO 5')
ftp.storlines('STOR text', io.BytesIO(b'a\\nb\\n'))
";
    login.ftplib(&node, Clear, script)?;
    Ok(())
}

#[test]
fn digests_have_a_budget_of_their_account() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    let other = Login::create(&node, "other")?;
    for login in [&login, &other] {
        std::fs::create_dir_all(login.on_disk(&node, ""))?;
        std::fs::write(login.on_disk(&node, "f"), [7; 900_000])?;
    }
    policy(&node, "acme", &["digest_bytes_per_hour=1000000"])?;
    let refused = "
first = refused(ftp, 'XMD5 f'); second = refused(ftp, 'HASH f')
print(second, refused(session(), 'XCRC f'), refused(ftp, 'XSHA256 f 0 10')[:10])
";
    let said = login.ftplib(&node, Clear, refused)?;
    ensure!(said.starts_with("450 450 taken: 250"), "{said}");
    let said = other.ftplib(&node, Clear, refused)?;
    ensure!(said.starts_with("taken: 213"), "another account pays for it: {said}");
    Ok(())
}

#[test]
fn an_idle_session_is_told_and_ended() -> Result<()> {
    let (node, login) = node_with_ftp()?;
    policy(&node, "acme", &["idle_seconds=1"])?;
    let mut raw = Raw::log_in(&node, &login)?;
    // The server's own end is waited for.
    let reply = raw.await_code(421)?;
    ensure!(reply.contains("idle"), "{reply}");
    ensure!(raw.reply().is_err(), "the connection is still there");
    Ok(())
}
