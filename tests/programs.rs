//! Programs of rules are kept apart from the server: what one of them reaches, in a node as it
//! runs, and what it does not.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::ftp::Protection::Clear;
use entrepot_testkit::clients::{Login, text};
use entrepot_testkit::server::{Node, run};
use entrepot_testkit::{is_root, not_run};

use crate::hooks::{apply, node_with_programs, script};
use crate::program;

/// Tries what a program must not be able to do, and says of each whether it could. With what can be
/// read of the token it asks the ops socket for the sessions, as the command line does.
const PROBE: &str = r#"#!/usr/bin/python3
import os, socket, sys
out, token, ops, given = sys.argv[1:5]
said = []
def tries(name, act):
    try:
        act()
        said.append(name + ' could')
    except OSError:
        said.append(name + ' refused')
def read(path):
    with open(path, 'rb') as file:
        file.read(1)
def asks():
    try:
        with open(token) as file:
            field = 'entrepot-token: ' + file.read() + '\r\n'
    except OSError:
        field = ''
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(ops)
        body = '{"request":"sessions"}'
        head = 'POST /v1/request HTTP/1.1\r\nhost: x\r\nconnection: close\r\n' + field
        line.sendall(f'{head}content-length: {len(body)}\r\n\r\n{body}'.encode())
        if not line.recv(100).startswith(b'HTTP/1.1 200'):
            raise OSError('refused')
for path in sys.argv[5:]:
    tries(os.path.basename(path), lambda: read(path))
    tries('w ' + os.path.basename(path), lambda: os.close(os.open(path, os.O_WRONLY)))
tries('socket', asks)
tries('environ', lambda: read(f'/proc/{os.environ["SERVER"]}/environ'))
tries('signal', lambda: os.kill(int(os.environ['SERVER']), 0))
with open(given, 'rb') if given != '-' else sys.stdin.buffer as file:
    said.append('given ' + file.read().decode())
with open('scratch', 'w') as file:
    file.write('x')
with open(out + '.new', 'w') as file:
    file.write('\n'.join(said) + '\n')
os.rename(out + '.new', out)
"#;

/// A node whose rule runs the probe for each file, and the folder of the probe.
struct Probed {
    node: Node,
    login: Login,
    folder: PathBuf,
    /// What the probe looks at, by absolute paths.
    secrets: Vec<PathBuf>,
}

impl Probed {
    /// `exec` is what the process file says besides what is allowed; `OUT` in it is the folder that
    /// the probe writes to.
    fn new(exec: &str, folder: PathBuf) -> Result<Probed> {
        let mut node = Node::new(program(), None)?;
        let login = Login::create(&node, "acme")?;
        node.add_ftp()?;
        script(&folder, "probe", PROBE)?;
        let out = folder.join("out");
        std::fs::create_dir(&out)?;
        std::fs::set_permissions(&out, std::fs::Permissions::from_mode(0o777))?;
        let file = node.home().join("entrepot.toml");
        let own = std::fs::read_to_string(&file)?;
        let exec = exec.replace("OUT", text(&out)?);
        let allow = format!("\n[exec]\nallow = ['{}']\n{exec}\n", folder.join("probe").display());
        std::fs::write(&file, own + &allow)?;
        node.start()?;
        let data = node.home().join("data");
        let segments = std::fs::read_dir(data.join("journal"))?.flatten();
        let segments = segments.filter(|entry| entry.path().is_file()).map(|entry| entry.path());
        let segment = segments.max().context("the journal has no segment")?;
        let mut secrets: Vec<PathBuf> =
            ["master.key", "entrepot.db", "ops.token"].map(|name| data.join(name)).into();
        secrets.extend([segment, file]);
        Ok(Probed { node, login, folder, secrets })
    }

    /// The arguments of the probe, with where it writes what it found and which file it is given.
    fn arguments(&self, out: &str, given: &str) -> Result<Vec<String>> {
        let data = self.node.home().join("data");
        let [token, ops] = ["ops.token", "ops.sock"].map(|name| data.join(name));
        let out = self.folder.join("out").join(out);
        let own = [out.as_path(), token.as_path(), ops.as_path(), Path::new(given)];
        let all = own.into_iter().chain(self.secrets.iter().map(PathBuf::as_path));
        all.map(|path| Ok(text(path)?.to_owned())).collect()
    }

    /// What the probe says when it runs with the rights of the test.
    fn by_itself(&self) -> Result<Vec<String>> {
        let given = self.folder.join("given");
        std::fs::write(&given, "by itself")?;
        let mut command = std::process::Command::new(self.folder.join("probe"));
        command.args(self.arguments("by-itself", text(&given)?)?).current_dir(&self.folder);
        run(command.env("SERVER", self.node.pid()?.to_string()))?;
        self.said("by-itself")
    }

    /// What the probe says when a rule runs it for a file that is sent now.
    fn by_rule(&self, given: &str, stdin: &str) -> Result<Vec<String>> {
        let probe = self.folder.join("probe");
        let mut argv = vec![text(&probe)?.to_owned()];
        argv.extend(self.arguments("by-rule", given)?);
        let argv = serde_json::to_string(&argv)?;
        let rule = format!(
            "rule:\n  name: probe\n  when: {{event: file.uploaded}}\n  do:\n    - exec: {{argv: \
             {argv}, stdin: {stdin}, env: {{SERVER: '{}'}}}}\n",
            self.node.pid()?
        );
        apply(&self.node, &rule)?;
        self.login.ftplib(&self.node, Clear, "put(ftp, 'sent', b'as a client')")?;
        self.said("by-rule")
    }

    fn said(&self, out: &str) -> Result<Vec<String>> {
        let out = self.folder.join("out").join(out);
        let said =
            self.node.until("what the probe says", || Ok(std::fs::read_to_string(&out).ok()))?;
        Ok(said.lines().map(str::to_owned).collect())
    }
}

/// The first line of the report of `said` that is not what it should be.
fn check(said: &[String], word: &str, given: &str) -> Result<()> {
    let (last, tried) = said.split_last().context("the probe says nothing")?;
    ensure!(tried.len() == 2 * 5 + 3, "{said:?}");
    ensure!(tried.iter().all(|line| line.ends_with(word)), "not all '{word}': {said:?}");
    ensure!(last == &format!("given {given}"), "{last}");
    Ok(())
}

/// No folder of a program stays behind when it has ended.
fn nothing_stays(node: &Node) -> Result<()> {
    node.until("the temporary folders to go", || {
        let entries = std::fs::read_dir(std::env::temp_dir())?.flatten();
        let names = entries.map(|entry| entry.path());
        let mut left = names.filter(|path| {
            path.display().to_string().contains("entrepot-program-")
                && path.join("scratch").exists()
        });
        Ok(left.next().is_none().then_some(()))
    })
}

#[test]
fn a_program_under_landlock_reaches_its_file_and_nothing_of_the_server() -> Result<()> {
    let folder = tempfile::Builder::new().prefix("entrepot-probe-").tempdir()?;
    let probed = Probed::new("write = ['OUT']\nisolation = 'required'", folder.path().to_owned())?;
    ensure!(probed.node.log().contains("run under Landlock"), "{}", probed.node.log());
    // The probe finds what there is to find.
    check(&probed.by_itself()?, "could", "by itself")?;
    check(&probed.by_rule("{file}", "none")?, "refused", "as a client")?;
    nothing_stays(&probed.node)?;
    let doctor = probed.node.cli(&["doctor"]);
    let doctor = doctor.or_else(|error| anyhow::Ok(format!("{error:?}")))?;
    ensure!(doctor.contains("programs") && doctor.contains("under Landlock"), "{doctor}");
    Ok(())
}

#[test]
fn a_program_of_another_user_reaches_its_file_and_nothing_of_the_server() -> Result<()> {
    if !is_root() {
        return not_run("programs as another user", "only root can give programs another user");
    }
    let folder = tempfile::Builder::new().prefix("entrepot-probe-").tempdir()?;
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))?;
    let probed = Probed::new("user = 'nobody'", folder.path().to_owned())?;
    ensure!(probed.node.log().contains("run as the user 'nobody'"), "{}", probed.node.log());
    check(&probed.by_itself()?, "could", "by itself")?;
    check(&probed.by_rule("-", "file")?, "refused", "as a client")?;
    let written = std::fs::metadata(folder.path().join("out/by-rule"))?;
    ensure!(std::os::unix::fs::MetadataExt::uid(&written) != 0, "it ran as root");
    // A file by its path is for those who may read it.
    std::fs::remove_file(folder.path().join("out/by-rule"))?;
    nothing_stays(&probed.node)?;
    let rule = format!(
        "rule:\n  name: probe\n  when: {{event: file.uploaded}}\n  do:\n    - exec: {{argv: [{}, \
         '{{file}}']}}\n  retry: {{attempts: 1}}\n",
        folder.path().join("probe").display()
    );
    apply(&probed.node, &rule)?;
    probed.login.ftplib(&probed.node, Clear, "put(ftp, 'sent', b'again')")?;
    probed.node.until("the refusal", || {
        let jobs = probed.node.json(&["job", "list"])?;
        let jobs = jobs.as_array().cloned().unwrap_or_default();
        let error = |job: &serde_json::Value| job["error"].as_str().map(str::to_owned);
        Ok(jobs.iter().filter_map(error).find(|error| error.contains("'nobody' may not read")))
    })?;
    Ok(())
}

/// What the process file asks for is kept, or the server does not start.
#[test]
fn a_server_that_cannot_keep_programs_apart_as_asked_does_not_start() -> Result<()> {
    for (exec, want) in [
        ("user = 'entrepot-has-no-such'", "EP0431"),
        ("user = 'root'", "EP0431"),
        ("write = ['/']", "EP0201"),
        ("read = ['DATA/files']", "EP0201"),
    ] {
        let mut node = Node::new(program(), None)?;
        let file = node.home().join("entrepot.toml");
        let own = std::fs::read_to_string(&file)?;
        let exec = exec.replace("DATA", text(&node.home().join("data"))?);
        std::fs::write(&file, format!("{own}\n[exec]\nallow = ['/usr/bin/true']\n{exec}\n"))?;
        node.spawn()?;
        let status = node.wait()?;
        ensure!(!status.success() && node.log().contains(want), "{exec}: {}", node.log());
        ensure!(node.command(&["doctor"]).output()?.status.code() == Some(6), "{exec}");
    }
    Ok(())
}

/// A process leaves the group, the session and the parent of its program, hears no signal but the
/// last one and holds the outputs open; the program goes on when it is there.
const FLEES: &str = "mkfifo up
(setsid sh -c 'trap \"\" TERM HUP INT QUIT; echo >up; sleep MARK; :' &)
read x <up
";

/// A program that does not end as it should, run for the file of the same name.
struct Unruly {
    name: &'static str,
    does: String,
    /// Of its step in the rule.
    limits: &'static str,
    /// What is said of its end.
    said: &'static str,
}

fn unruly() -> Vec<Unruly> {
    let one = |name, does: &str, limits, said| Unruly { name, does: does.to_owned(), limits, said };
    let after = |name, does: &str, said| one(name, &format!("{FLEES}{does}"), "", said);
    let deaf = format!("trap '' TERM HUP INT QUIT\n{FLEES}sleep MARK; :");
    let greedy = "python3 -c 'x = bytearray(1 << 30)' || exit 7";
    vec![
        after("flees", "exit 9", "exit code 9"),
        after("floods", "yes", "killed, it wrote too much"),
        // What it started would go on.
        after("dies", "kill -9 $$", "ended by signal 9"),
        one("stays", "sleep MARK & echo bye >&2; exit 8", "", "exit code 8: bye"),
        one("deaf", &deaf, ", timeout_seconds: 3", "killed, its time was over"),
        one("greedy", greedy, ", memory_mib: 256", "exit code 7"),
    ]
}

/// Whatever a program does, it ends with all it started, and one sentence says how.
#[test]
fn programs_that_flee_stay_grow_and_flood_are_stopped_and_said_in_a_sentence() -> Result<()> {
    let (node, login, folder) = node_with_programs()?;
    let mark = format!("3124.{:07}", std::process::id());
    let mut rules = Vec::new();
    for Unruly { name, does, limits, .. } in unruly() {
        let program =
            script(&folder, name, &format!("#!/bin/sh\n{does}\n").replace("MARK", &mark))?;
        rules.push(format!(
            "rule:\n  name: {name}\n  when: {{event: file.uploaded}}\n  if: file.name == \
             '{name}'\n  do:\n    - exec: {{argv: [{}]{limits}}}\n  retry: {{attempts: 1}}\n",
            program.display()
        ));
    }
    apply(&node, &rules.join("---\n"))?;
    for Unruly { name, .. } in unruly() {
        login.ftplib(&node, Clear, &format!("put(ftp, '{name}', b'x')"))?;
    }
    for Unruly { name, said, .. } in unruly() {
        let error = node.until(&format!("the job of '{name}' to fail"), || {
            let jobs = node.json(&["job", "list"])?;
            let jobs = jobs.as_array().cloned().unwrap_or_default();
            let job = jobs.iter().find(|job| job["rule"] == name && job["state"] == "failed");
            Ok(job.and_then(|job| job["error"].as_str().map(str::to_owned)))
        })?;
        ensure!(error.starts_with(&format!("EP0824: {said}")), "{name}: {error}");
        let trace = node.until(&format!("the trace of '{name}'"), || {
            let trace = node.cli(&["trace", &format!("/{name}")])?;
            Ok(trace.contains(said).then_some(trace))
        })?;
        ensure!(trace.contains("EP0824"), "{name}: {trace}");
        let ended = node.events("program.ended")?;
        let ended = ended.iter().find(|event| event["rule"] == name).context("no end is told")?;
        let how = ended["how"].as_str().context("how it ended")?;
        ensure!(said.starts_with(how) && ended["done"] == false, "{name}: {ended}");
    }
    let left = std::process::Command::new("pgrep").args(["-af", &mark]).output()?;
    let left = String::from_utf8(left.stdout)?;
    ensure!(left.is_empty(), "what programs started lives on: {left}");
    Ok(())
}
