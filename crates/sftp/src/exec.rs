//! Commands on a channel: SCP, hashes, `pwd` and `cd`. Each runs in a task of its own that takes
//! what the client sends and puts its answers into an [`Outbox`]; it never waits for the session
//! task, which may be waiting for room in its queue.

mod ends;
mod glob;
mod sink;
mod source;

use std::sync::Arc;

use bytes::Bytes;
pub(crate) use entrepot_sftp_proto::exec::{Command, parse};
use entrepot_sftp_proto::exec::{HashCommand, hash_line};
use entrepot_sftp_proto::scp::Role;
use entrepot_sftp_proto::shell::Word;
use entrepot_vfs::{EntryKind, HashAlgorithm, HashRange, IncomingCommand, VfsError};
use tokio_util::sync::CancellationToken;

use crate::connection::ConnectionShared;
use crate::limits::HASH_PATHS;
use crate::out::{Out as _, Outbox};
use ends::resolve;

pub(crate) use ends::Ends;

/// Runs a command to its end and ends the channel with its exit status.
pub(crate) async fn run(command: Command, account: Arc<ConnectionShared>, ends: Ends) {
    let outbox = ends.outbox.clone();
    let status = match command {
        Command::Scp(command) => match command.role {
            Role::Sink => Box::pin(sink::run(&command, &account, ends)).await,
            Role::Source => Box::pin(source::run(&command, &account, ends)).await,
        },
        Command::Hash(command) => {
            let gone = ends.gone.clone();
            tokio::select! {
                status = hash(&command, &account, ends.outbox.clone(), &gone) => status,
                () = gone.cancelled() => 1,
            }
        }
        Command::WorkingDirectory => {
            let home = account.session.vfs().home();
            outbox.clone().send(Bytes::from(format!("{home}\n", home = home.as_str())));
            0
        }
        Command::ChangeDirectory(to) => change_directory(&account, to.as_ref(), &outbox).await,
        // The service runs it as the subsystem.
        Command::Sftp => 1,
    };
    outbox.finish(status);
}

fn tell(outbox: &Outbox, sentence: &str) {
    outbox.clone().tell(Bytes::from(format!("{sentence}\r\n")));
}

/// `md5sum` and the like: a line a path, as clients read it.
async fn hash(
    command: &HashCommand,
    account: &ConnectionShared,
    mut outbox: Outbox,
    gone: &CancellationToken,
) -> u32 {
    let Some(algorithm) = HashAlgorithm::named(command.algorithm) else { return 1 };
    if command.paths.len() > HASH_PATHS {
        tell(&outbox, "too many files in one command; name fewer");
        return 1;
    }
    if command.paths.is_empty() {
        let empty = algorithm.hash(&[]);
        outbox.send(Bytes::from(hash_line(&empty, "-", command.mode)));
        return 0;
    }
    let mut status = 0;
    for word in &command.paths {
        let _running = account.meter.running();
        let hashed = match resolve(account, word) {
            Ok(path) => {
                let range = HashRange::whole(algorithm);
                let command = || IncomingCommand::reading("check-file", word.text(), Some(&path));
                account.with_rules(command, gone, account.hash_path(&path, &range)).await
            }
            Err(error) => Err(error.into()),
        };
        match hashed {
            Ok(hash) => {
                outbox.send(Bytes::from(hash_line(&hash, word.text(), command.mode)));
            }
            Err(error) => {
                tell(&outbox, &format!("{}: {error}", word.text()));
                status = 1;
            }
        }
    }
    status
}

/// `cd`: there is no shell that would stay there, but clients look whether it works.
async fn change_directory(account: &ConnectionShared, to: Option<&Word>, outbox: &Outbox) -> u32 {
    let Some(to) = to else { return 0 };
    let found = match resolve(account, to) {
        Ok(path) => account.session.vfs().stat(&path).await,
        Err(error) => Err(error),
    };
    let problem = match found {
        Ok(found) if found.kind == EntryKind::Directory => return 0,
        Ok(_) => VfsError::NotDirectory,
        Err(error) => error,
    };
    tell(outbox, &format!("{}: {problem}", to.text()));
    1
}
