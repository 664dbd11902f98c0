//! The search of `bench host` by processes of s3270, each driven by its script interface: what a
//! terminal emulator of others makes of the same host on the same machine.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use entrepot_loadgen::procedures::{HostRow, RowCosts, RowName, Transactions, Watched};
use entrepot_loadgen::process::{Spent, spent};
use entrepot_nouns::Env;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;

use crate::failure::{Exit, Failure};

/// The name of the program.
const PROGRAM: &str = "s3270";
/// What one action may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pages of the list that is searched, and the screens before and behind them.
const PAGES: u64 = 26;
const SCREENS: u64 = PAGES + 2;
const SIGN_ON: [&str; 7] =
    ["String(LOANS)", "Enter()", "String(CLERK)", "Tab()", "String(SECRET)", "Enter()", "Ascii()"];

/// True if it is installed.
pub(super) async fn is_there() -> bool {
    let asked = Command::new(PROGRAM).arg("-v").stdin(Stdio::null()).output().await;
    asked.is_ok_and(|asked| asked.status.success())
}

/// One process, with its script interface.
struct S3270 {
    child: Child,
    actions: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

/// What one of them did.
struct Searched {
    s3270: S3270,
    took: Vec<Duration>,
    failure: Option<String>,
}

/// Has as many processes search at once.
pub(super) async fn run(
    host: SocketAddr,
    clients: usize,
    transactions: u64,
    env: &Env,
) -> Result<HostRow, Failure> {
    let failed = |what: String| Failure::new("EP0209", Exit::Failed, what);
    let mut terminals = JoinSet::new();
    for _ in 0..clients {
        terminals.spawn(S3270::signed_on(host));
    }
    let terminals = terminals.join_all().await.into_iter().collect::<Result<Vec<_>, _>>();
    let terminals = terminals.map_err(|error| failed(format!("s3270: {error}")))?;
    let pids: Vec<u32> = terminals.iter().filter_map(|it| it.child.id()).collect();
    let watch = || RowCosts::read(Watched::default()).map_err(|error| failed(error.to_string()));
    let before = RowCosts { server: Some(spent_by(&pids).cpu), ..watch()? };
    let began = env.elapsed();
    let mut searches = JoinSet::new();
    for s3270 in terminals {
        let env = env.clone();
        searches.spawn(async move { s3270.search(transactions, &env).await });
    }
    let searched = searches.join_all().await;
    let time = env.elapsed().saturating_sub(began);
    let all = spent_by(&pids);
    let after =
        RowCosts { server: Some(all.cpu), server_bytes: Some(all.memory_bytes), ..watch()? };
    let took = searched.iter().flat_map(|it| it.took.iter().copied()).collect();
    let failures = searched.iter().filter_map(|it| it.failure.clone()).collect();
    let done = Transactions { took, failures };
    for mut ended in searched {
        // One that has ended by itself is no loss.
        let _ = ended.s3270.child.kill().await;
    }
    let name = RowName { row: "search, s3270 without a server".to_owned(), screens: SCREENS };
    Ok(HostRow::of_transactions(name, clients, done, time, after.since(&before)))
}

fn spent_by(pids: &[u32]) -> Spent {
    let mut all = Spent::default();
    for one in pids.iter().filter_map(|pid| spent(*pid)) {
        all.cpu += one.cpu;
        all.memory_bytes += one.memory_bytes;
    }
    all
}

impl S3270 {
    /// A process whose session is at the menu.
    async fn signed_on(host: SocketAddr) -> std::io::Result<S3270> {
        let mut child = Command::new(PROGRAM)
            .args(["-utf8", "-model", "3278-2-E", "-codepage", "cp037"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let gone = || std::io::Error::other("it has ended");
        let actions = child.stdin.take().ok_or_else(gone)?;
        let answers = BufReader::new(child.stdout.take().ok_or_else(gone)?).lines();
        let mut s3270 = S3270 { child, actions, answers };
        s3270.does(&format!("Connect({host})")).await?;
        s3270.does("Wait(InputField)").await?;
        for action in SIGN_ON {
            s3270.does(action).await?;
        }
        Ok(s3270)
    }

    async fn search(mut self, transactions: u64, env: &Env) -> Searched {
        let mut took = Vec::new();
        for _ in 0..transactions {
            let began = env.elapsed();
            if let Err(error) = self.search_once().await {
                return Searched { s3270: self, took, failure: Some(error.to_string()) };
            }
            took.push(env.elapsed().saturating_sub(began));
        }
        Searched { s3270: self, took, failure: None }
    }

    /// From the menu to the end of the list, and back.
    async fn search_once(&mut self) -> std::io::Result<()> {
        for action in ["String(1)", "Enter()", "String(MANY)", "Enter()"] {
            self.does(action).await?;
        }
        for _ in 1..PAGES {
            self.does("Ascii()").await?;
            self.does("PF(8)").await?;
        }
        let last = self.does("Ascii()").await?;
        if !last.iter().any(|row| row.contains("END OF LOANS")) {
            return Err(std::io::Error::other("the last page is another one"));
        }
        self.does("PF(12)").await.map(drop)
    }

    /// Does one thing; answers what it shows.
    async fn does(&mut self, action: &str) -> std::io::Result<Vec<String>> {
        let done = tokio::time::timeout(PATIENCE, self.asks(action)).await;
        done.unwrap_or_else(|_| Err(std::io::Error::other(format!("no answer to {action}"))))
    }

    async fn asks(&mut self, action: &str) -> std::io::Result<Vec<String>> {
        self.actions.write_all(format!("{action}\n").as_bytes()).await?;
        let mut data = Vec::new();
        loop {
            let line = self.answers.next_line().await?;
            let line = line.ok_or_else(|| std::io::Error::other("it has ended"))?;
            match line.strip_prefix("data: ") {
                Some(row) => data.push(row.to_owned()),
                None if line == "ok" => return Ok(data),
                None if line == "error" => {
                    return Err(std::io::Error::other(format!("{action}: {}", data.join(" "))));
                }
                // The state of the terminal, before each answer.
                None => {}
            }
        }
    }
}
