//! `demo`: a server in `./demo`, a real file through the whole path, and its story.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use entrepot_admin::{Document, NumberedEvent};
use entrepot_nouns::{Env, Fact};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::args::InitArgs;
use crate::ask::ask;
use crate::config::{Config, Log};
use crate::facts::describe;
use crate::failure::Failure;
use crate::serve::{Server, ServerEnd};
use crate::{init, table};
use mainframe::Mainframe;
use parts::{PATIENCE, wait_for_events, write};
use web::WebDemo;

mod as2;
mod mainframe;
mod parts;
mod route;
mod web;

const FOLDER: &str = "demo";
/// Where the partner gets its files.
const INBOX: &str = "partner-inbox";

/// Starts the server, tells the story, and serves until interrupted; with `DEMO_EXIT` in the
/// environment it stops right after the story.
pub(crate) async fn run() -> Result<(), Failure> {
    let config = prepare().await?;
    let log = crate::log::start(&Log { level: "warn".to_owned(), ..Log::default() })?;
    let server = Server::start(&config, log).await?;
    let mainframe = Mainframe::start()?;
    let story = tell(&config, &server, &mainframe).await;
    match story {
        Ok(()) if std::env::var_os("DEMO_EXIT").is_some() => {}
        Ok(()) => {
            println!("the server is running; Ctrl-C stops it");
            let why = server.ended().await;
            let stopped = server.stop(&why).await;
            mainframe.end().await;
            return stopped;
        }
        Err(failure) => {
            server.stop(&ServerEnd::Asked).await?;
            mainframe.end().await;
            return Err(failure);
        }
    }
    let stopped = server.stop(&ServerEnd::Asked).await;
    mainframe.end().await;
    stopped
}

/// Makes `./demo` at the first run; later runs take what is there.
async fn prepare() -> Result<Config, Failure> {
    let folder = PathBuf::from(FOLDER);
    let file = folder.join("entrepot.toml");
    if file.is_file() {
        return Config::read(&file);
    }
    let args = InitArgs {
        folder,
        data: "data".into(),
        sftp: free_address(2022)?,
        ftp: None,
        https: Some(free_address(2443)?),
        ops: free_address(9422)?,
        database: "sqlite".to_owned(),
        node: Some("demo".parse().map_err(|error| Failure::start(format!("{error}")))?),
        master_key: None,
    };
    init::make(&args).await
}

/// The usual port, or any free one if it is taken.
fn free_address(port: u16) -> Result<SocketAddr, Failure> {
    let any =
        |port| entrepot_net::listen::free_address(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    any(port).or_else(|_| any(0)).map_err(|error| Failure::start(error.to_string()))
}

/// Everything that is shown.
async fn tell(config: &Config, server: &Server, mainframe: &Mainframe) -> Result<(), Failure> {
    let folder = config.file.parent().unwrap_or(Path::new(".")).to_owned();
    let env = Env::real();
    let password = configure(config, &folder, &env).await?;
    let listener = server.listening().await.into_iter().next();
    let (address, host_keys) =
        listener.ok_or_else(|| Failure::start("the demo's SFTP listener did not start"))?;
    let known_hosts = folder.join("known_hosts");
    let line = |key: &String| format!("[{}]:{} {key}\n", address.ip(), address.port());
    write(&known_hosts, &host_keys.iter().map(line).collect::<String>())?;
    println!("1. a server listens for SFTP on {address}");
    let path = "/out/orders.csv.pgp";
    let (file, size) = route::encrypted(&folder, &env)?;
    upload(&folder, address, &file, path).await?;
    let size = table::bytes(size);
    println!("2. OpenSSH's sftp uploaded {size}, which its sender encrypted by OpenPGP, to {path}");
    let events = wait_for_delivery(config, &env).await?;
    println!("3. what the audit log says of it:");
    for numbered in &events {
        let event = &numbered.event;
        println!("   {}  {:<17} {}", event.at, event.fact.kind(), describe(event));
    }
    route::tell(config, &folder, &folder.join(INBOX), path).await?;
    let web = WebDemo::find(config, &folder, &password).await?;
    web.tell(config, &folder, &env).await?;
    mainframe.tell(config, &web, &folder.join(INBOX), &env).await?;
    as2::tell(config, &web, &folder, free_address(2080)?, &env).await?;
    println!();
    look_further(config, address, &known_hosts, &password);
    println!(
        "  in a browser: {}/sign-in (it warns of the certificate, which is its own)",
        web.server
    );
    Ok(())
}

/// What can be tried while the server runs.
fn look_further(config: &Config, address: SocketAddr, known_hosts: &Path, password: &str) {
    println!("look further:");
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("entrepot"));
    let command = format!("{} -c {}", program.display(), config.file.display());
    for words in
        ["event follow", "transfer list", "as2 messages", "job list", "link list", "journal verify"]
    {
        println!("  {command} {words}");
    }
    println!();
    println!("log in yourself:");
    println!(
        "  sftp -P {} -o UserKnownHostsFile={} demo@{}",
        address.port(),
        known_hosts.display(),
        address.ip()
    );
    println!("  password: {password}");
    if let Some(ops) = config.ops_address {
        println!("  metrics and health: http://{ops}/metrics /live /ready");
    }
}

/// Account, keys, mount, endpoint and rule, through the same door as any administrator.
async fn configure(config: &Config, folder: &Path, env: &Env) -> Result<String, Failure> {
    let inbox = folder.join(INBOX);
    crate::parts::private_folder(&inbox)?;
    let password = entrepot_crypto::random_text(env, 20);
    let public = user_key(folder, env)?;
    let mut text = format!(
        "account: {{name: demo, type: partner, password: '{password}'}}\n---\n\
         key: {{name: demo-key, type: ssh-user, account: demo, public: '{public}'}}\n---\n\
         mount: {{name: demo-home, account: demo, path: /, endpoint: files, prefix: demo}}\n---\n"
    );
    if let Some(key) = route::key_document(folder)? {
        text += &format!("{key}\n---\n");
    }
    text += &route::documents(&inbox);
    let documents = [Document { file: "demo.yaml".to_owned(), text }];
    ask(config, json!({"request": "apply", "documents": documents, "prune": false})).await?;
    Ok(password)
}

/// A login key for OpenSSH's client, made once.
fn user_key(folder: &Path, env: &Env) -> Result<String, Failure> {
    let (private, public) = (folder.join("demo_key"), folder.join("demo_key.pub"));
    if let Ok(public) = std::fs::read_to_string(&public) {
        return Ok(public.trim().to_owned());
    }
    let pair = entrepot_ssh::keys::generate(env, "demo")
        .map_err(|error| Failure::start(error.to_string()))?;
    write_private(&private, pair.private.expose())?;
    write(&public, &format!("{}\n", pair.public))?;
    Ok(pair.public)
}

async fn upload(
    folder: &Path,
    address: SocketAddr,
    file: &Path,
    target: &str,
) -> Result<(), Failure> {
    let mut child = tokio::process::Command::new("sftp")
        .args(["-q", "-b", "-", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes"])
        .arg("-o")
        .arg(format!("UserKnownHostsFile={}", folder.join("known_hosts").display()))
        .arg("-i")
        .arg(folder.join("demo_key"))
        .args(["-o", "IdentitiesOnly=yes", "-P", &address.port().to_string()])
        .arg(format!("demo@{}", address.ip()))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| {
            Failure::start(format!("cannot run OpenSSH's sftp ({error}); install openssh-client"))
        })?;
    let commands = format!("-mkdir /out\nput {} {target}\n", file.display());
    if let Some(mut input) = child.stdin.take() {
        let cannot = |error| Failure::start(format!("cannot speak to sftp: {error}"));
        input.write_all(commands.as_bytes()).await.map_err(cannot)?;
    }
    let status = child.wait().await.map_err(|error| Failure::start(error.to_string()))?;
    if status.success() { Ok(()) } else { Err(Failure::start(format!("sftp failed: {status}"))) }
}

/// The events of the newest delivery: from its session's login to the job's end.
async fn wait_for_delivery(config: &Config, env: &Env) -> Result<Vec<NumberedEvent>, Failure> {
    let since = env.now().minus(Duration::from_secs(10));
    let filter = json!({"since": since, "limit": 100});
    let done = |event: &NumberedEvent| matches!(event.event.fact, Fact::JobDone { .. });
    let seconds = PATIENCE.as_secs();
    let missing = format!("the file was not delivered within {seconds} s; see 'entrepot job list'");
    let events = wait_for_events(config, env, filter, done, &missing).await?;
    let story = events.into_iter().filter(|event| {
        !matches!(
            event.event.fact,
            Fact::ConfigChanged { .. } | Fact::NodeStarted { .. } | Fact::NodeJoined { .. }
        )
    });
    Ok(story.collect())
}

fn write_private(path: &Path, content: &[u8]) -> Result<(), Failure> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(content))
        .map_err(|error| Failure::file(format!("cannot write '{}': {error}", path.display())))
}
