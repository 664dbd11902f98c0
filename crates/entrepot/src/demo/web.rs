//! The part of the story that goes over HTTPS: an upload with curl, its event, and a share link.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use entrepot_admin::{NumberedEvent, Response};
use entrepot_nouns::{AnyNoun, Env, Fact};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::parts::{PATIENCE, wait_for_events, write};
use crate::ask::ask;
use crate::config::Config;
use crate::facts::describe;
use crate::failure::{Exit, Failure};
use crate::output::unexpected;
use crate::table;

/// Where the file goes that is shared afterwards.
const TARGET: &str = "/out/catalogue.txt";

/// The HTTPS listener of the demo, as curl reaches it.
pub(super) struct WebDemo {
    /// Its address: `https://localhost:PORT`.
    pub(super) server: String,
    /// The certificate that the server made for itself.
    certificate: PathBuf,
    /// The password of the account `demo`.
    password: String,
}

impl WebDemo {
    /// Finds the listener `https`, which `init` has made.
    pub(super) async fn find(
        config: &Config,
        folder: &Path,
        password: &str,
    ) -> Result<WebDemo, Failure> {
        let AnyNoun::Listener(listener) = show(config, "listener", "https").await? else {
            return Err(unexpected());
        };
        let AnyNoun::Key(key) = show(config, "key", "https-tls").await? else {
            return Err(unexpected());
        };
        let certificate = folder.join("https.pem");
        write(&certificate, &key.public)?;
        let server = format!("https://localhost:{}", listener.address.port());
        Ok(WebDemo { server, certificate, password: password.to_owned() })
    }

    /// Uploads a file, shares it, and fetches it by the link.
    pub(super) async fn tell(
        &self,
        config: &Config,
        folder: &Path,
        env: &Env,
    ) -> Result<(), Failure> {
        let file = folder.join("catalogue.txt");
        let content: String = (0..2_000).map(|row| format!("article {row}\n")).collect();
        write(&file, &content)?;
        let since = env.now().minus(Duration::from_secs(1));
        let address = format!("{}/files{TARGET}", self.server);
        self.curl(&["-T", &file.display().to_string(), &address], &self.login()).await?;
        println!("6. curl uploaded {} over HTTPS to {TARGET}:", table::bytes(content.len() as u64));
        let numbered = uploaded(config, env, since).await?;
        let event = &numbered.event;
        println!("   {}  {:<17} {}", event.at, event.fact.kind(), describe(event));

        let order = json!({
            "owner": "demo", "folder": "/out", "files": ["catalogue.txt"], "allows": ["download"],
            "downloads": 3, "title": "Our catalogue",
        });
        let made = ask(config, json!({"request": "create-link", "link": order})).await?;
        let Response::MadeLink { addresses, .. } = made else { return Err(unexpected()) };
        let shown = addresses.first().ok_or_else(unexpected)?.address.expose();
        let path = shown.find("/s/").and_then(|at| shown.get(at..)).unwrap_or(shown);
        let link = format!("{}{path}", self.server);
        let fetched = self.curl(&[&link], "").await?;
        if fetched != content.as_bytes() {
            let message = "the file that the share link gave is another one".to_owned();
            return Err(Failure::new("EP0202", Exit::Failed, message));
        }
        println!("7. a share link opens it to people without an account, three times:");
        println!("   {link}");
        println!("   curl fetched it by the link, the same {} bytes", fetched.len());
        Ok(())
    }

    /// Posts a value as the account `demo`. An address that is there only in a moment is asked
    /// again.
    pub(super) async fn post(&self, path: &str, value: &Value) -> Result<Vec<u8>, Failure> {
        let seconds = PATIENCE.as_secs().to_string();
        let retry = ["--retry", &*seconds, "--retry-delay", "1", "--retry-all-errors"];
        let json = value.to_string();
        let sent = ["-H", "Content-Type: application/json", "-d", &*json];
        let address = format!("{}{path}", self.server);
        let words: Vec<&str> = retry.into_iter().chain(sent).chain([&*address]).collect();
        self.curl(&words, &self.login()).await
    }

    /// Uploads a small file as the account `demo`.
    pub(super) async fn put(&self, path: &str, content: &str) -> Result<(), Failure> {
        let address = format!("{}/files{path}", self.server);
        let sent = ["-X", "PUT", "-d", content, &*address];
        self.curl(&sent, &self.login()).await.map(drop)
    }

    fn login(&self) -> String {
        format!("user = \"demo:{}\"\n", self.password)
    }

    /// Runs curl; `settings` are lines of its configuration, so that no password is an argument.
    async fn curl(&self, arguments: &[&str], settings: &str) -> Result<Vec<u8>, Failure> {
        let failed = |problem: String| Failure::start(format!("curl failed: {problem}"));
        let mut child = tokio::process::Command::new("curl")
            .args(["-q", "-sS", "--fail-with-body", "--max-time", "60", "--config", "-"])
            .arg("--cacert")
            .arg(&self.certificate)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|error| Failure::start(format!("cannot run curl ({error}); install curl")))?;
        if let Some(mut input) = child.stdin.take() {
            let written = input.write_all(settings.as_bytes()).await;
            written.map_err(|error| failed(error.to_string()))?;
        }
        let output = child.wait_with_output().await.map_err(|error| failed(error.to_string()))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        Err(failed(format!("{}: {said}", output.status)))
    }
}

async fn show(config: &Config, kind: &str, name: &str) -> Result<AnyNoun, Failure> {
    let request: Value = json!({"request": "show", "kind": kind, "name": name});
    match ask(config, request).await? {
        Response::Noun { noun, .. } => Ok(noun.noun),
        _ => Err(unexpected()),
    }
}

/// The event of the upload.
async fn uploaded(
    config: &Config,
    env: &Env,
    since: entrepot_nouns::Timestamp,
) -> Result<NumberedEvent, Failure> {
    let filter = json!({"since": since, "path": TARGET, "limit": 100});
    let is_upload = |event: &NumberedEvent| matches!(event.event.fact, Fact::FileUploaded { .. });
    let missing = "the upload over HTTPS is not in the audit log";
    let events = wait_for_events(config, env, filter, is_upload, missing).await?;
    events.into_iter().rev().find(is_upload).ok_or_else(unexpected)
}
