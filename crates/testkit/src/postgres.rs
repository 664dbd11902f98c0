//! A throw-away PostgreSQL: real server, temporary folder, own port; gone when the test process
//! ends, however it ends.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::is_root;
use crate::ports::free_port;

/// How often a start or the end of a process is looked for, and how long one look waits.
const LOOKS: u32 = 1000;
const LOOK: Duration = Duration::from_millis(20);
/// Free bytes of a file system in memory that are plenty.
const MEMORY_BYTES: u64 = 2 << 30;

/// Ends the server and removes its folder (`$1`) once the test process, which holds the other
/// end of the standard input, is gone.
const GUARD: &str = r#"
cat >/dev/null
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null)
# The command line of a process that has ended but was not waited for is empty.
ours() { grep -q postgres "/proc/$pid/cmdline" 2>/dev/null; }
if [ -n "$pid" ] && ours; then
    kill -QUIT "$pid"
    n=0
    while ours && [ $n -lt 50 ]; do sleep 0.1; n=$((n + 1)); done
    if ours; then kill -KILL "$pid"; fi
fi
rm -rf "$1"
"#;

/// A PostgreSQL cluster of our own. Dropping it removes it.
pub struct Postgres {
    folder: PathBuf,
    programs: PathBuf,
    port: u16,
    databases: AtomicU32,
    server: Mutex<Option<Child>>,
    guard: Child,
}

impl Postgres {
    /// The cluster that the tests of this process share; made at the first call. Tests that stop
    /// or break the server make one of their own with [`Postgres::launch`].
    ///
    /// # Panics
    /// If there is no PostgreSQL, with the package to install: such a test fails, it is never
    /// skipped.
    pub fn shared() -> &'static Postgres {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(|| match Postgres::launch() {
            Ok(postgres) => postgres,
            Err(error) => panic!("the test needs PostgreSQL: {error:#}"),
        })
    }

    /// Makes and starts a cluster.
    pub fn launch() -> Result<Postgres> {
        let programs = programs()?;
        let folder = tempfile::Builder::new().prefix("entrepot-postgres-").tempdir_in(place())?;
        let folder = folder.keep();
        let guard = guard(&folder)?;
        let postgres = Postgres {
            folder,
            programs,
            port: free_port()?,
            databases: AtomicU32::new(0),
            server: Mutex::default(),
            guard,
        };
        postgres.initialise()?;
        postgres.start()?;
        Ok(postgres)
    }

    fn initialise(&self) -> Result<()> {
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(&self.folder))?;
        }
        let data = self.folder.join("data");
        let mut initdb = self.as_server("initdb");
        initdb.args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8"]);
        run(initdb.args(["--locale=C", "--pgdata"]).arg(&data))?;
        let settings = format!(
            "listen_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = '{}'\n\
             fsync = on\nmax_connections = 300\nshared_buffers = 64MB\nwal_level = minimal\n\
             max_wal_senders = 0\nlog_min_messages = warning\n",
            self.port,
            self.folder.display(),
        );
        // Written through the server's user, who owns the folder.
        let path = data.join("postgresql.auto.conf");
        std::fs::write(&path, settings).with_context(|| format!("write {}", path.display()))
    }

    /// Adds a line to the configuration; it holds from the next start on.
    pub fn configure(&self, line: &str) -> Result<()> {
        use std::io::Write as _;
        let path = self.folder.join("data/postgresql.auto.conf");
        let mut file = std::fs::OpenOptions::new().append(true).open(path)?;
        writeln!(file, "{line}").context("extend the configuration of the server")
    }

    /// Puts a file into the server's data folder, readable by the server only: certificates.
    pub fn install(&self, name: &str, content: &[u8]) -> Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.folder.join("data").join(name);
        std::fs::write(&path, content)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(&path))?;
        }
        Ok(())
    }

    /// Starts a stopped or killed server, on the same port; returns once it serves.
    pub fn start(&self) -> Result<()> {
        let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        for _ in 0..LOOKS {
            let mut server = self.spawn_server()?;
            if self.serves(&mut server)? {
                *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
                return Ok(());
            }
            // After a kill the old server's children may need a moment to notice, and until then
            // they hold its memory.
            std::thread::sleep(LOOK);
        }
        bail!("PostgreSQL does not start; its log says:\n{}", log())
    }

    fn spawn_server(&self) -> Result<Child> {
        let mut log = std::fs::OpenOptions::new();
        let log = log.create(true).append(true).open(self.folder.join("log"))?;
        let mut postgres = self.as_server("postgres");
        postgres.arg("-D").arg(self.folder.join("data"));
        postgres.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // An interrupt from the keyboard is for the tests; the guard ends the server.
        postgres.process_group(0).spawn().context("start postgres")
    }

    /// Waits until the server answers; false if it ended instead.
    fn serves(&self, server: &mut Child) -> Result<bool> {
        for _ in 0..LOOKS {
            if server.try_wait()?.is_some() {
                return Ok(false);
            }
            let mut ready = Command::new(self.programs.join("pg_isready"));
            ready.args(["-q", "-h", "127.0.0.1", "-U", "postgres", "-p", &self.port.to_string()]);
            if ready.status()?.success() {
                return Ok(true);
            }
            std::thread::sleep(LOOK);
        }
        server.kill()?;
        server.wait()?;
        Ok(false)
    }

    /// Stops the server in good order, its clients' connections with it.
    pub fn stop(&self) -> Result<()> {
        self.end(rustix::process::Signal::INT)
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&self) -> Result<()> {
        self.end(rustix::process::Signal::KILL)
    }

    /// Stops every process of the server where it is, as a machine that hangs: connections stay
    /// open and nothing answers until what is given back is dropped.
    ///
    /// # Errors
    /// It does not run.
    pub fn freeze(&self) -> Result<Frozen> {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        let first = server.as_ref().context("the server does not run")?.id();
        let mut frozen = Frozen(vec![first]);
        frozen.tell(rustix::process::Signal::STOP);
        // What it started before; it starts no more.
        let children = std::fs::read_to_string(format!("/proc/{first}/task/{first}/children"))?;
        frozen.0.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        frozen.tell(rustix::process::Signal::STOP);
        Ok(frozen)
    }

    fn end(&self, signal: rustix::process::Signal) -> Result<()> {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut server = server.context("the server does not run")?;
        rustix::process::kill_process(rustix::process::Pid::from_child(&server), signal)?;
        server.wait()?;
        Ok(())
    }

    /// Makes an empty database and returns its URL (superuser, TCP on loopback).
    pub fn create_database(&self) -> Result<String> {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.run_sql("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(self.url("postgres", &name))
    }

    /// Copies a database as it is now. Its connections are ended for it.
    pub fn copy_database(&self, name: &str, copy: &str) -> Result<()> {
        self.close_database(name)?;
        self.run_sql("postgres", &format!("CREATE DATABASE {copy} TEMPLATE {name}"))?;
        let open = format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true");
        self.run_sql("postgres", &open).map(drop)
    }

    /// Puts a copy in the place of a database, as a restore of a backup does: what was committed
    /// since the copy is lost.
    pub fn restore_database(&self, name: &str, copy: &str) -> Result<()> {
        self.close_database(name)?;
        self.run_sql("postgres", &format!("DROP DATABASE {name} WITH (FORCE)"))?;
        self.run_sql("postgres", &format!("ALTER DATABASE {copy} RENAME TO {name}")).map(drop)
    }

    /// Ends the connections to a database and lets nobody in.
    fn close_database(&self, name: &str) -> Result<()> {
        let close = format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false");
        self.run_sql("postgres", &close)?;
        let others = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity";
        self.run_sql("postgres", &format!("{others} WHERE datname = '{name}'")).map(drop)
    }

    /// URL of a database for a role, TCP on loopback.
    pub fn url(&self, role: &str, database: &str) -> String {
        format!("postgres://{role}@127.0.0.1:{}/{database}", self.port)
    }

    /// URL of a database over the Unix socket.
    pub fn socket_url(&self, role: &str, database: &str) -> String {
        let folder = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres://{role}@{folder}:{}/{database}", self.port)
    }

    /// Runs SQL as superuser with `psql` and returns what it prints, bare.
    pub fn run_sql(&self, database: &str, sql: &str) -> Result<String> {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1"]);
        psql.args(["-U", "postgres", "-p", &self.port.to_string(), "-d", database, "-c", sql]);
        let output = run(&mut psql)?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// A program of PostgreSQL, to be run as the user who owns the cluster: never as root.
    fn as_server(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        let mut command = if is_root() {
            // It becomes the program; `runuser` would stay in between.
            let mut setpriv = Command::new("setpriv");
            setpriv.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(program);
            setpriv
        } else {
            Command::new(program)
        };
        command.current_dir("/").env("LC_ALL", "C");
        command
    }
}

/// A server that stands still; see [`Postgres::freeze`].
pub struct Frozen(Vec<u32>);

impl Frozen {
    fn tell(&self, signal: rustix::process::Signal) {
        let pids = self.0.iter().filter_map(|pid| i32::try_from(*pid).ok());
        for pid in pids.filter_map(rustix::process::Pid::from_raw) {
            // One that has ended meanwhile is as good.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.tell(rustix::process::Signal::CONT);
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ended = self.guard.wait();
        if let Some(mut server) = self.server.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            let _reaped = server.wait();
        }
    }
}

/// Where `initdb` and `postgres` are: in PATH, or the newest version as Debian installs it.
fn programs() -> Result<PathBuf> {
    let has_all =
        |folder: &PathBuf| ["initdb", "postgres", "psql"].iter().all(|p| folder.join(p).exists());
    let path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(folder) = std::env::split_paths(&path).find(has_all) {
        return Ok(folder);
    }
    let mut versions: Vec<(u32, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten() {
        let version = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let folder = entry.path().join("bin");
        versions.extend(version.filter(|_| has_all(&folder)).map(|version| (version, folder)));
    }
    versions.sort();
    match versions.pop() {
        Some((_, folder)) => Ok(folder),
        None => bail!(
            "neither PATH nor /usr/lib/postgresql/*/bin holds initdb, postgres and psql; \
             run 'apt-get install postgresql'"
        ),
    }
}

/// Memory if there is plenty, for speed; what tests break is processes, not disks.
fn place() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let plenty = rustix::fs::statvfs(memory)
        .is_ok_and(|space| space.f_bavail.saturating_mul(space.f_frsize) >= MEMORY_BYTES);
    if plenty { memory.to_owned() } else { std::env::temp_dir() }
}

/// A session of its own, so that an interrupt from the keyboard does not end it first.
fn guard(folder: &Path) -> Result<Child> {
    let arguments = [OsStr::new("sh"), "-c".as_ref(), GUARD.as_ref(), "guard".as_ref()];
    Command::new("setsid")
        .args(arguments)
        .arg(folder)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("start the guard of the throw-away PostgreSQL (setsid)")
}

fn run(command: &mut Command) -> Result<Output> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("run {:?}", command.get_program()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {said}", output.status);
    Ok(output)
}
