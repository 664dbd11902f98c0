//! The real program as a child process: its own folder, ports of its own, killed when dropped.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;

/// Longest wait for something that should happen at once.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at what is waited for.
const LEAST_REST: Duration = Duration::from_millis(20);
const MOST_REST: Duration = Duration::from_millis(200);

/// The cheapest hashes of new passwords that a node takes: with the usual ones the tests would
/// spend an eighth of their time on passwords.
const CHEAP_PASSWORDS: &str = "[passwords]\nhash_memory_mib = 7\nhash_passes = 5";

/// A node in a folder of its own. The program is the one given to [`Node::new`].
pub struct Node {
    program: PathBuf,
    folder: TempDir,
    child: Option<Child>,
    environment: Vec<(String, String)>,
    /// What the shell's `ulimit` is told before the server starts.
    limits: Option<String>,
}

impl Node {
    /// Makes a node with `entrepot init`, on SQLite or the database at `url`.
    pub fn new(program: &Path, database: Option<&str>) -> Result<Node> {
        Node::new_in(program, database, &std::env::temp_dir())
    }

    /// As [`Node::new`], with the folder below `parent` (a memory file system, a small disk).
    pub fn new_in(program: &Path, database: Option<&str>, parent: &Path) -> Result<Node> {
        let folder = tempfile::Builder::new().prefix("entrepot-").tempdir_in(parent)?;
        let node = Node::in_folder(program, folder);
        node.init(&database.map_or(Vec::new(), |url| vec!["--database", url]))?;
        Ok(node)
    }

    /// Makes the home of a node that has none, or an empty one, with `entrepot init`, on SQLite.
    pub fn initialize(&self) -> Result<()> {
        self.init(&[])
    }

    /// As [`Node::new`] on the database at `url`, with a name of the test's choice.
    pub fn new_called(program: &Path, url: &str, name: &str) -> Result<Node> {
        let node = Node::without_home(program)?;
        node.init(&["--database", url, "--node", name])?;
        Ok(node)
    }

    fn init(&self, options: &[&str]) -> Result<()> {
        let mut init = Command::new(&self.program);
        init.args(["init", "--sftp", "127.0.0.1:0", "--ops", "127.0.0.1:0"]).arg(self.home());
        run(init.args(options))?;
        self.configure(CHEAP_PASSWORDS)
    }

    /// One more node of the installation of `first`, on the database at `url`, made with
    /// `entrepot node join`.
    pub fn joined(first: &Node, url: &str, name: &str) -> Result<Node> {
        let node = Node::without_home(&first.program)?;
        let mut join = Command::new(&first.program);
        join.args(["node", "join", "--database", url, "--node", name, "--ops", "127.0.0.1:0"]);
        join.arg("--master-key").arg(first.home().join("data/master.key")).arg(node.home());
        run(&mut join)?;
        node.configure(CHEAP_PASSWORDS)?;
        Ok(node)
    }

    /// Adds lines to the process file; they hold from the next start on.
    pub fn configure(&self, lines: &str) -> Result<()> {
        let mut file = std::fs::OpenOptions::new();
        let mut file = file.append(true).open(self.home().join("entrepot.toml"))?;
        file.write_all(format!("\n{lines}\n").as_bytes()).context("extend the process file")
    }

    /// A node whose [`Node::home`] is made by the test.
    pub fn without_home(program: &Path) -> Result<Node> {
        let folder = tempfile::Builder::new().prefix("entrepot-").tempdir()?;
        Ok(Node::in_folder(program, folder))
    }

    fn in_folder(program: &Path, folder: TempDir) -> Node {
        let (program, environment) = (program.to_owned(), Vec::new());
        Node { program, folder, child: None, environment, limits: None }
    }

    /// The server may have so many file descriptors from its next start on, and cannot raise that.
    pub fn limit_descriptors(&mut self, most: u32) {
        self.limits = Some(format!("-n {most}"));
    }

    /// As [`Node::limit_descriptors`], but it may raise that to what this process may have.
    pub fn limit_soft_descriptors(&mut self, most: u32) {
        self.limits = Some(format!("-S -n {most}"));
    }

    /// Sets an environment variable of the next start.
    pub fn set(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    /// Unsets all that was set.
    pub fn unset(&mut self) {
        self.environment.clear();
    }

    /// Folder with the process file.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("node")
    }

    /// Folder of the endpoint `files`.
    pub fn files(&self) -> PathBuf {
        self.home().join("data/files")
    }

    /// A folder beside the node for the test's own files.
    pub fn scratch(&self) -> &Path {
        self.folder.path()
    }

    /// Starts the server and waits until it is ready.
    pub fn start(&mut self) -> Result<()> {
        self.spawn()?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            if self.ready() {
                return Ok(());
            }
            if let Some(status) =
                self.child.as_mut().and_then(|child| child.try_wait().ok().flatten())
            {
                bail!("the server ended with {status}:\n{}", self.log());
            }
            ensure!(Instant::now() < deadline, "the server was not ready in time:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts the server if it does not run.
    pub fn start_unless_it_runs(&mut self) -> Result<()> {
        if self.child.is_some() { Ok(()) } else { self.start() }
    }

    /// Starts the server without waiting.
    pub fn spawn(&mut self) -> Result<()> {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.path().join("log"))?;
        let _ = std::fs::remove_file(self.addresses_file());
        let mut command = match &self.limits {
            None => Command::new(&self.program),
            Some(limits) => {
                let limited = format!("ulimit {limits} && exec \"$0\" \"$@\"");
                let mut shell = Command::new("sh");
                shell.args(["-c", &limited]).arg(&self.program);
                shell
            }
        };
        let child = command
            .arg("--config")
            .arg(self.home().join("entrepot.toml"))
            .arg("serve")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        self.child = Some(child);
        Ok(())
    }

    fn addresses_file(&self) -> PathBuf {
        self.home().join("data/addresses.json")
    }

    /// What the server wrote about where it listens.
    pub fn addresses(&self) -> Result<Value> {
        let text = std::fs::read_to_string(self.addresses_file())?;
        Ok(serde_json::from_str(&text)?)
    }

    fn ready(&self) -> bool {
        self.addresses().is_ok_and(|addresses| addresses["ready"] == true)
    }

    /// Port of the SFTP listener.
    pub fn sftp_port(&self) -> Result<u16> {
        port(&self.addresses()?["listeners"]["sftp"]["address"])
    }

    /// Makes a listener `ftp` on a port of its own, where clients choose whether to use TLS.
    pub fn add_ftp(&self) -> Result<()> {
        let create = ["listener", "create", "ftp", "protocol=ftp", "address=127.0.0.1:0"];
        self.cli(&[&create[..], &["ftp.tls_required=none"]].concat()).map(drop)
    }

    /// Makes the listeners `ftps` (implicit TLS) and `ftp6` (on `::1`), beside [`Node::add_ftp`];
    /// clients choose whether to use TLS there too.
    pub fn add_ftps(&self, options: &str) -> Result<()> {
        for (name, address, tls) in
            [("ftps", "127.0.0.1", "implicit"), ("ftp6", "[::1]", "explicit")]
        {
            let address = format!("address={address}:0");
            let ftp = format!("ftp={{\"tls\":\"{tls}\",\"tls_required\":\"none\"{options}}}");
            self.cli(&["listener", "create", name, "protocol=ftp", &address, &ftp])?;
        }
        Ok(())
    }

    /// Port of the listener `ftp`.
    pub fn ftp_port(&self) -> Result<u16> {
        self.port_of("ftp")
    }

    /// Port of a listener.
    pub fn port_of(&self, listener: &str) -> Result<u16> {
        port(&self.addresses()?["listeners"][listener]["address"])
    }

    /// A file with the certificate of a listener of FTP.
    pub fn certificate_of(&self, listener: &str) -> Result<PathBuf> {
        let addresses = self.addresses()?;
        let certificate = addresses["listeners"][listener]["certificates"][0].as_str();
        let file = self.folder.path().join(format!("{listener}.pem"));
        std::fs::write(&file, certificate.context("no certificate")?)?;
        Ok(file)
    }

    /// Base URL of the ops listener.
    pub fn ops_url(&self) -> Result<String> {
        let address = self.addresses()?["ops"].as_str().map(str::to_owned);
        Ok(format!("http://{}", address.context("no ops address")?))
    }

    /// A known_hosts file with the server's host keys.
    pub fn known_hosts(&self) -> Result<PathBuf> {
        let addresses = self.addresses()?;
        let listener = &addresses["listeners"]["sftp"];
        let port = port(&listener["address"])?;
        let keys = listener["host_keys"].as_array().context("no host keys")?;
        let lines: String = keys
            .iter()
            .filter_map(Value::as_str)
            .map(|key| format!("[127.0.0.1]:{port} {key}\n"))
            .collect();
        let file = self.folder.path().join("known_hosts");
        std::fs::write(&file, lines)?;
        Ok(file)
    }

    /// Process id of the running server.
    pub fn pid(&self) -> Result<u32> {
        Ok(self.child.as_ref().context("the server does not run")?.id())
    }

    /// Runs a command of the program on this node, and gives its standard output.
    pub fn cli(&self, arguments: &[&str]) -> Result<String> {
        Ok(String::from_utf8(run(&mut self.command(arguments))?.stdout)?)
    }

    /// The same with `--json`.
    pub fn json(&self, arguments: &[&str]) -> Result<Value> {
        let text = self.cli(&[arguments, &["--json"]].concat())?;
        Ok(serde_json::from_str(&text)?)
    }

    /// The same, given standard input. What it prints meanwhile is read: a full pipe stops no one.
    pub fn cli_with_input(&self, arguments: &[&str], input: &str) -> Result<String> {
        let output = feed(&mut self.command(arguments), input)?;
        Ok(String::from_utf8(output.stdout)?)
    }

    /// A command of the program on this node, not yet run.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--config").arg(self.home().join("entrepot.toml")).args(arguments);
        command
    }

    /// Kills the server as `kill -9` does.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            child.wait()?;
        }
        Ok(())
    }

    /// Lets the server work for some time.
    pub fn work_for(&self, time: Duration) {
        std::thread::sleep(time);
    }

    /// Kills the server after some time, as `kill -9` does.
    pub fn kill_after(&mut self, time: Duration) -> Result<()> {
        self.work_for(time);
        self.kill()
    }

    /// Waits until the server has ended by itself.
    pub fn wait(&mut self) -> Result<std::process::ExitStatus> {
        let mut child = self.child.take().context("the server does not run")?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                let _ = child.kill();
                child.wait()?;
                bail!("the server did not end:\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// True while the server runs.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Asks the server to stop in good order and waits for it.
    pub fn stop(&mut self) -> Result<()> {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.pid()?)?).context("pid")?;
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let status = self.wait()?;
        ensure!(status.success(), "the server ended with {status}:\n{}", self.log());
        Ok(())
    }

    /// Everything it logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Waits until `look` gives something.
    pub fn until<T>(&self, what: &str, look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        until(what, look).with_context(|| format!("log of the server:\n{}", self.log()))
    }

    /// Events of a kind, oldest first.
    pub fn events(&self, kind: &str) -> Result<Vec<Value>> {
        let events = self.json(&["event", "list", "--kind", kind, "--limit", "100000"])?;
        Ok(events.as_array().cloned().unwrap_or_default())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.kill();
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "log of the server:\n{}", self.log());
        }
    }
}

fn port(address: &Value) -> Result<u16> {
    let text = address.as_str().context("no address")?;
    Ok(text.parse::<std::net::SocketAddr>()?.port())
}

/// Waits until `look` gives something, at most [`PATIENCE`]. Between two looks it rests as long as
/// one takes: most start a program, and many tests wait at once.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let began = Instant::now();
        if let Some(found) = look()? {
            return Ok(found);
        }
        let ended = Instant::now();
        ensure!(ended < deadline, "waited too long for {what}");
        std::thread::sleep((ended - began).clamp(LEAST_REST, MOST_REST));
    }
}

/// Runs a command; an exit code other than 0 is an error that shows what it printed.
pub fn run(command: &mut Command) -> Result<Output> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    check(command, output)
}

/// The same, given standard input. What it prints meanwhile is read: a full pipe stops no one.
pub fn feed(command: &mut Command, input: &str) -> Result<Output> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {command:?}"))?;
    let mut stdin = child.stdin.take().context("no standard input")?;
    std::thread::scope(|scope| {
        let written = scope.spawn(move || stdin.write_all(input.as_bytes()));
        let output = check(command, child.wait_with_output()?)?;
        written.join().map_err(|_| anyhow!("the input was not written"))??;
        Ok(output)
    })
}

fn check(command: &Command, output: Output) -> Result<Output> {
    ensure!(
        output.status.success(),
        "{command:?} ended with {}:\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output)
}
