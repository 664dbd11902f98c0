//! Rules before and after commands, and programs: the pages `docs/howto/refuse-a-command.md` and
//! `docs/howto/run-a-program-after-a-transfer.md`, done, and what goes wrong.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::ftp::Protection::Clear;
use entrepot_testkit::clients::{Login, local_file, text};
use entrepot_testkit::server::{Node, feed, run};

use crate::program;

/// The blocks of a page in this language, in order.
pub(crate) fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

/// A node with FTP whose process file allows what lies in the folder. Programs may write to the
/// folder `book` beside it.
pub(crate) fn node_with_programs() -> Result<(Node, Login, PathBuf)> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    node.add_ftp()?;
    let folder = node.scratch().join("programs");
    std::fs::create_dir_all(&folder)?;
    let page = include_str!("../docs/howto/run-a-program-after-a-transfer.md");
    let allow = blocks(page, "toml").concat().replace("/usr/local/lib/entrepot", text(&folder)?);
    let open = node.scratch().join("book");
    std::fs::create_dir_all(&open)?;
    let allow = allow.replace("/var/lib/book", text(&open)?);
    let file = node.home().join("entrepot.toml");
    let own = std::fs::read_to_string(&file)?;
    std::fs::write(&file, own + "\n" + &allow)?;
    node.start()?;
    Ok((node, login, folder))
}

pub(crate) fn script(folder: &std::path::Path, name: &str, content: &str) -> Result<PathBuf> {
    let file = folder.join(name);
    std::fs::write(&file, content)?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))?;
    Ok(file)
}

pub(crate) fn apply(node: &Node, documents: &str) -> Result<String> {
    node.cli_with_input(&["apply", "-"], documents)
}

/// A command of the page, as it stands but for where things are.
fn shell(node: &Node, login: &Login, line: &str) -> Result<std::process::Output> {
    let config = node.home().join("entrepot.toml");
    let entrepot = format!("{} --config {} ", text(program())?, text(&config)?);
    let line = line.replace("entrepot ", &entrepot);
    let line = line.replace("--ssl-reqd", "--ssl-reqd --insecure");
    let line = line.replace("files.example.com", &format!("localhost:{}", node.ftp_port()?));
    let mut command = Command::new("sh");
    command.args(["-c", &line]).current_dir(node.scratch());
    command.env("USER_AND_PASSWORD", format!("{}:{}", login.account, login.password));
    Ok(command.output()?)
}

/// What a server answers, refusal or not.
pub(crate) const TOLD: &str = "
def told(command):
    try:
        return ftp.sendcmd(command)
    except ftplib.Error as error:
        return str(error)
";

#[test]
fn the_page_refuse_a_command_tells_the_truth() -> Result<()> {
    let (node, login, _) = node_with_programs()?;
    let archive = login.on_disk(&node, "archive");
    std::fs::create_dir_all(&archive)?;
    std::fs::write(archive.join("2016.txt"), "old")?;
    let page = include_str!("../docs/howto/refuse-a-command.md");
    std::fs::write(node.scratch().join("refuse.yaml"), blocks(page, "yaml").join("---\n"))?;
    let commands = blocks(page, "sh");
    let [apply, delete, events, again] = commands.as_slice() else { anyhow::bail!("{commands:?}") };
    ensure!(shell(&node, &login, apply)?.status.success());
    let told = blocks(page, "text").concat();
    // Within a second or so.
    node.until("the rule to count", || {
        let probe = "print(told('DELE /archive/nothing'))\n";
        let said = login.ftplib(&node, Clear, &format!("{TOLD}{probe}"))?;
        Ok(said.contains("ask archive").then_some(()))
    })?;
    let output = shell(&node, &login, delete)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(!output.status.success() && said.contains(told.trim()), "{said}");
    ensure!(archive.join("2016.txt").exists());
    let script = "
ftp.cwd('archive')
assert 'ask archive' in told('DELE 2016.txt')
assert 'ask archive' in told('RNFR ../archive/2016.txt')
assert 'ask archive' in told('STOR 2016.txt')
put(ftp, '/mine', b'1')
for line in ('RMDA /archive', 'RMDA /', 'XRMD /archive', 'RNFR /archive',
             'COMB /mine /archive/2016.txt', 'SITE COPY /mine /archive/2016.txt'):
    assert 'ask archive' in told(line), line
assert told('NOOP').startswith('200') and get(ftp, '2016.txt') == b'old'
ftp.cwd('/'); put(ftp, 'free', b'1'); assert told('DELE free').startswith('250')
assert told('DELE /archive/nothing').startswith('550 The archive')
";
    login.ftplib(&node, Clear, &format!("{TOLD}{script}"))?;
    let lftp = login.lftp_ftp(&node, Clear, "rm archive/2016.txt");
    let shown = format!("{:?}", lftp.err().context("lftp deleted it")?);
    ensure!(shown.contains("ask archive@example.com"), "lftp shows it: {shown}");
    node.until("the refusals in the log", || {
        let listed = shell(&node, &login, events)?;
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        Ok((listed.contains("DELE") && listed.contains("archive-stays")).then_some(()))
    })?;
    ensure!(shell(&node, &login, again)?.status.success());
    node.until("the rule to be gone", || {
        let output = shell(&node, &login, delete)?;
        Ok(output.status.success().then_some(()))
    })?;
    ensure!(!archive.join("2016.txt").exists());
    Ok(())
}

#[test]
fn the_page_run_a_program_after_a_transfer_tells_the_truth() -> Result<()> {
    let (node, login, folder) = node_with_programs()?;
    for directory in ["in", "now"] {
        std::fs::create_dir_all(login.on_disk(&node, directory))?;
    }
    let page = include_str!("../docs/howto/run-a-program-after-a-transfer.md");
    script(&folder, "enter", &blocks(page, "program").concat())?;
    let books = node.scratch().join("book");
    let book = books.join("arrived");
    let rules = blocks(page, "yaml").join("---\n");
    let rules = rules.replace("/usr/local/lib/entrepot", text(&folder)?);
    let rules = rules.replace("/var/lib/book", text(&books)?);
    std::fs::write(node.scratch().join("enter.yaml"), rules)?;
    let commands = blocks(page, "sh");
    let [apply, events] = commands.as_slice() else { anyhow::bail!("{commands:?}") };
    let applied = shell(&node, &login, apply)?;
    ensure!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    let line = |name: &str, content: &[u8]| {
        format!("4|{name}|{}|{}|acme", content.len(), blake3::hash(content).to_hex())
    };
    let mut wanted: Vec<String> = Vec::new();
    for (name, content) in [("a b", &b"one"[..]), ("-x", b"two!"), ("$(id);'\"{account}", b"3")] {
        let script = format!("put(ftp, {:?}, bytes({content:?}))", format!("in/{name}"));
        login.ftplib(&node, Clear, &script)?;
        wanted.push(line(name, content));
    }
    wanted.sort();
    node.until("the book", || {
        let book = std::fs::read_to_string(&book).unwrap_or_default();
        let mut lines: Vec<String> = book.lines().map(str::to_owned).collect();
        lines.sort();
        Ok((lines == wanted).then_some(()))
    })
    .with_context(|| format!("{wanted:?}, {:?}", std::fs::read_to_string(&book)))?;
    node.until("the ends in the log", || {
        let listed = shell(&node, &login, events)?;
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        Ok(listed.contains("exit code 0").then_some(()))
    })?;
    // The entry is there when the client hears 226.
    std::fs::remove_file(&book)?;
    node.until("the rule on commands to count", || {
        let _ = std::fs::remove_file(&book);
        login.ftplib(&node, Clear, "put(ftp, 'now/x y', b'at once')")?;
        let book = std::fs::read_to_string(&book).unwrap_or_default();
        Ok((book.trim() == line("x y", b"at once")).then_some(()))
    })?;
    Ok(())
}

/// Programs that a client waits for, and its reply when they fail.
#[test]
fn what_a_client_waits_for_refuses_unless_it_ends_well() -> Result<()> {
    let (node, login, folder) = node_with_programs()?;
    script(&folder, "exit", "#!/bin/sh\nexit \"$1\"\n")?;
    script(&folder, "hang", "#!/bin/sh\nsleep 31.0801 & sleep 31.0801\n")?;
    let rule = |name: &str, when: &str, program: &str, more: &str| {
        format!(
            "rule:\n  name: {name}\n  when: {when}\n  if: command.path.startsWith('/{name}')\n  \
             do:\n    - exec: {{argv: [{program}], timeout_seconds: 1{more}}}\n---\n"
        )
    };
    let at = |name: &str| format!("{}/{name}", folder.display());
    let before = "{before: [ftp DELE]}";
    let after = "{after: [ftp STOR]}";
    let documents = [
        rule("ok", before, &format!("{}, '0'", at("exit")), ""),
        rule("warn", before, &format!("{}, '1'", at("exit")), ""),
        rule("bad", before, &format!("{}, '2'", at("exit")), ""),
        rule("own", before, &format!("{}, '2'", at("exit")), ", failure_code: 554"),
        rule("gone", before, &at("no-such"), ""),
        rule("shell", before, "/bin/true", ""),
        rule("hang", before, &at("hang"), ""),
        rule("fails", before, &format!("{}, '0'", at("exit")), "")
            .replace("startsWith('/fails')", "startsWith('/fails') && 1 / 0 == 1"),
        rule("late", after, &format!("{}, '3'", at("exit")), ", reply: wait"),
    ];
    apply(&node, documents.concat().trim_end_matches("---\n"))?;
    let script = "
import time
def code(command):
    try:
        return ftp.sendcmd(command)[:3]
    except ftplib.Error as error:
        return str(error)[:3]
for name in ['ok', 'warn', 'bad', 'own', 'gone', 'shell', 'hang', 'fails']: put(ftp, name, b'x')
for _ in range(100):
    if code('DELE bad') == '451': break
    put(ftp, 'bad', b'x'); time.sleep(0.05)
names = ['ok', 'warn', 'bad', 'own', 'gone', 'shell', 'hang', 'fails']
got = [code('DELE ' + name) for name in names]
assert got == ['250', '250', '451', '554', '451', '451', '451', '451'], got
try:
    put(ftp, 'late', b'x'); raise Exception('226')
except ftplib.Error as error:
    assert str(error)[:3] == '451', error
assert get(ftp, 'late') == b'x' and code('NOOP') == '200'
";
    login.ftplib(&node, Clear, script)?;
    node.until("the refusals in the log", || {
        let refusals = node.events("command.refused")?;
        let by = |rule: &str| refusals.iter().any(|event| event["rule"] == rule);
        Ok((by("bad") && by("hang") && by("fails") && by("shell")).then_some(()))
    })?;
    let ended = node.events("program.ended")?;
    let hung = ended.iter().find(|event| event["rule"] == "hang").context("no end is told")?;
    assert_eq!(hung["done"], false);
    ensure!(hung["how"].as_str().is_some_and(|how| how.contains("time was over")), "{hung}");
    let left = Command::new("pgrep").args(["-f", "sleep 31.0801"]).output()?;
    ensure!(!left.status.success(), "what the program started lives");
    Ok(())
}

/// Without the helper nothing that must be asked passes; a new one comes by itself.
#[test]
fn a_helper_that_is_killed_lets_nothing_pass_and_comes_back() -> Result<()> {
    let (node, login, folder) = node_with_programs()?;
    script(&folder, "parent", "#!/bin/sh\necho $PPID >&2\nexit 0\n")?;
    let rule = format!(
        "rule:\n  name: parent\n  when: {{before: [ftp NOOP]}}\n  do:\n    - exec: {{argv: \
         [{}/parent]}}\n",
        folder.display()
    );
    apply(&node, &rule)?;
    let helpers = || -> Result<Vec<String>> {
        // While there is none, the command is refused.
        let _ = login.ftplib(&node, Clear, "for _ in range(4): ftp.voidcmd('NOOP')");
        let ended = node.events("program.ended")?;
        Ok(ended.iter().filter_map(|event| event["words"].as_str().map(str::to_owned)).collect())
    };
    let first = node.until("the rule to count", || {
        let pids = helpers()?;
        Ok((pids.len() >= 4).then_some(pids))
    })?;
    for pid in &first {
        // Twice the same one is no matter.
        let _ = Command::new("kill").args(["-9", pid]).output();
    }
    let after = node.until("a new helper", || {
        let pids = helpers()?;
        let new: Vec<String> = pids.into_iter().filter(|pid| !first.contains(pid)).collect();
        Ok((!new.is_empty()).then_some(new))
    })?;
    ensure!(after.iter().all(|pid| !first.contains(pid)));
    Ok(())
}

#[test]
fn a_rule_runs_only_what_the_process_file_allows() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    node.add_ftp()?;
    node.start()?;
    let mut applying = node.command(&["apply", "-"]);
    let applied = feed(
        &mut applying,
        "rule:\n  name: any\n  when: {event: file.uploaded}\n  do:\n    \
         - exec: {argv: [/bin/touch, /tmp/entrepot-was-here]}\n",
    )?;
    let warned = String::from_utf8(applied.stderr)?;
    let expected = "warning: rule 'any' will not run on this node: the program '/bin/touch'";
    ensure!(warned.contains(expected), "{warned}");
    let hook = r#"login={"hook":{"exec":{"program":["/bin/check"]}}}"#;
    let changed = run(&mut node.command(&["listener", "change", "ftp", hook]))?;
    let warned = String::from_utf8(changed.stderr)?;
    ensure!(warned.contains("listener 'ftp' will not run") && warned.contains("/bin/check"));
    node.until("the node's own warnings", || {
        let log = node.log();
        let said = |text: &str| log.lines().any(|it| it.contains("EP0820") && it.contains(text));
        Ok((said("/bin/touch") && said("/bin/check")).then_some(()))
    })?;
    node.cli(&["listener", "change", "ftp", "login="])?;
    let local = local_file(&node, "a", b"x")?;
    run(login.curl_ftp(&node, Clear)?.arg("-T").arg(&local).arg(login.ftp_url(&node, "a")?))?;
    let failed = node.until("the dead letter", || {
        let jobs = node.json(&["job", "list", "--state", "failed"])?;
        Ok(jobs.get(0).cloned())
    })?;
    ensure!(failed["error"].as_str().is_some_and(|text| text.contains("EP0820")), "{failed}");
    assert_eq!(failed["attempts"], 1, "asking again changes nothing");
    Ok(())
}
