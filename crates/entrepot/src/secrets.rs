//! `secrets rotate`: another master key, and all secrets sealed anew under it.
//!
//! Each step is durable before the next, and the same command goes on where it was cut: the new
//! key lies beside the old one; one transaction seals everything anew; the old key gets another
//! name; the new one gets its place. Meanwhile no other command takes the key.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use entrepot_admin::Problem;
use entrepot_crypto::MasterKey;
use entrepot_nouns::{Env, crash};
use serde_json::json;

use crate::args::RotateArgs;
use crate::ask::{actor_of, problem, server_answers};
use crate::backup::sync_folder;
use crate::config::{Config, MasterKeySource};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::owner;
use crate::parts::{Opening, Parts, key_beside};
use crate::process_file::write_new;

/// Where the new key is from, and what becomes of it.
enum NewKey {
    /// Made beside the present one, whose place it takes.
    InPlace { present: PathBuf, beside: PathBuf },
    /// The process file will name it.
    Named { source: MasterKeySource },
}

/// Makes or reads the new key, seals everything under it, and says what comes next.
pub(crate) async fn rotate(
    config: &Config,
    output: Output,
    args: &RotateArgs,
) -> Result<(), Failure> {
    if server_answers(config).await? {
        let why = "this node serves with the present master key; stop it first: 'entrepot stop'";
        return Err(Failure::new("EP0297", Exit::Invalid, why));
    }
    owner::refuse_root(&config.data)?;
    let place = NewKey::of(config, args)?;
    let old = match &config.master_key {
        MasterKeySource::File(path) => MasterKey::from_file(path),
        MasterKeySource::Environment(name) => MasterKey::from_env(name),
    };
    let old = old.map_err(|error| Failure::config(format!("master key: {error}")))?;
    // It is known to be the node's before anything is made.
    let parts = Parts::open_under(config, Opening::MustBeSound, old.clone()).await?;
    let rotated = rotate_with(&parts, &place, &old).await;
    parts.close().await?;
    let (new, secrets) = rotated.map(|it| (it.new, it.secrets))?;
    let kept = place.finish(&old)?;
    let value = json!({"from": old.id(), "to": new.id(), "secrets": secrets, "old_key": kept});
    output.value(&value, || {
        println!("{secrets} secrets are sealed under the master key {} now", new.id());
        match (&place, kept) {
            (NewKey::InPlace { present, .. }, kept) => {
                println!("new key  {}", present.display());
                if let Some(kept) = kept {
                    println!("old key  {}: backups made so far need it", kept.display());
                }
            }
            (NewKey::Named { .. }, _) => {
                println!("next: name it in the process file, as master_key, before the start");
            }
        }
        println!("copy the new key to a safe place, and to each other node before it is started");
    })
}

/// What was sealed under which key.
struct Rotated {
    new: MasterKey,
    secrets: u64,
}

async fn rotate_with(parts: &Parts, place: &NewKey, old: &MasterKey) -> Result<Rotated, Failure> {
    let admin = parts.admin(None);
    admin.join().await.map_err(|error| problem(Problem::from(error)))?;
    let new = place.key(&parts.env)?;
    if new.id() == old.id() {
        return Err(Failure::usage("the new master key is the present one"));
    }
    crash::point("rotation.key");
    let actor = actor_of(rustix::process::getuid().as_raw());
    let secrets = admin.rotate_secrets(&actor, &new).await;
    let secrets = secrets.map_err(|error| problem(Problem::from(error)))?;
    crash::point("rotation.sealed");
    Ok(Rotated { new, secrets })
}

impl NewKey {
    fn of(config: &Config, args: &RotateArgs) -> Result<NewKey, Failure> {
        let Some(to) = &args.to else {
            return match &config.master_key {
                MasterKeySource::File(present) => {
                    Ok(NewKey::InPlace { present: present.clone(), beside: key_beside(present) })
                }
                MasterKeySource::Environment(_) => Err(Failure::usage(
                    "the master key comes from the environment: say with --to where the new one is",
                )),
            };
        };
        let source = match to.split_once(':') {
            Some(("file", path)) => std::path::absolute(path)
                .map(MasterKeySource::File)
                .map_err(|error| Failure::usage(format!("--to: {error}")))?,
            Some(("env", name)) => MasterKeySource::Environment(name.to_owned()),
            _ => return Err(Failure::usage("--to: use 'file:PATH' or 'env:NAME'")),
        };
        Ok(NewKey::Named { source })
    }

    /// The new key: that of a rotation which was cut, the given one, or a new one, durable then.
    fn key(&self, env: &Env) -> Result<MasterKey, Failure> {
        let path = match self {
            NewKey::InPlace { beside, .. } => beside,
            NewKey::Named { source: MasterKeySource::File(path) } => path,
            NewKey::Named { source: MasterKeySource::Environment(name) } => {
                let key = MasterKey::from_env(name);
                return key.map_err(|error| Failure::config(format!("new key: {error}")));
            }
        };
        if !path.exists() {
            make_key(path, env)?;
        }
        MasterKey::from_file(path).map_err(|error| Failure::config(format!("new key: {error}")))
    }

    /// Gives the new key the place of the old one, which is kept under another name.
    fn finish(&self, old: &MasterKey) -> Result<Option<PathBuf>, Failure> {
        let NewKey::InPlace { present, beside } = self else { return Ok(None) };
        let mut name = present.file_name().unwrap_or_default().to_owned();
        name.push(format!(".old-{}", old.id()));
        let kept = present.with_file_name(name);
        let cannot =
            |error: std::io::Error| Failure::file(format!("'{}': {error}", kept.display()));
        match std::fs::hard_link(present, &kept) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(cannot(error)),
            _ => {}
        }
        let folder = folder_of(present);
        sync_folder(folder)?;
        crash::point("rotation.kept");
        std::fs::rename(beside, present).map_err(cannot)?;
        sync_folder(folder)?;
        Ok(Some(kept))
    }
}

/// Writes a new key to a file that is there whole or not at all.
fn make_key(path: &Path, env: &Env) -> Result<(), Failure> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    let cannot = |error: std::io::Error| Failure::file(format!("'{}': {error}", path.display()));
    match std::fs::remove_file(&part) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(cannot(error)),
        _ => {}
    }
    write_new(&part, 0o600, MasterKey::generate(env).to_text().expose())?;
    std::fs::rename(&part, path).map_err(cannot)?;
    sync_folder(folder_of(path))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
