//! Root, and the user that the data belongs to. Files that root makes in the data folder of another
//! user would lock the server out, so a command that works on the data itself either becomes that
//! user or refuses.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::{Gid, Uid, geteuid};

use crate::failure::{Exit, Failure};

/// The user of a data folder that root works on.
struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    /// `None`: this process is not root, or the folder is root's, or there is none.
    fn other_than_this_root(data: &Path) -> Option<Owner> {
        let meta = std::fs::metadata(data).ok()?;
        let owner = Owner { uid: meta.uid(), gid: meta.gid() };
        (geteuid().is_root() && owner.uid != 0).then_some(owner)
    }

    /// As `sudo -u` takes it.
    fn name(&self) -> String {
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let name = users.lines().find_map(|line| {
            let mut fields = line.split(':');
            let (name, uid) = (fields.next()?, fields.nth(1)?);
            (uid == self.uid.to_string()).then(|| name.to_owned())
        });
        name.unwrap_or_else(|| format!("'#{}'", self.uid))
    }
}

/// If root runs this process, makes it the user whom the data folder belongs to. To be called while
/// there is one thread: rights belong to threads.
pub(crate) fn become_owner_of(data: &Path) -> Result<(), Failure> {
    let Some(owner) = Owner::other_than_this_root(data) else { return Ok(()) };
    let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
    let become_owner = || {
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)
    };
    become_owner().map_err(|error: rustix::io::Errno| refusal(data, &owner, &error.to_string()))
}

/// Gives something that root has just made to the user whom the data folder belongs to.
pub(crate) fn give_to_owner_of(data: &Path, made: &Path) -> Result<(), Failure> {
    let Some(owner) = Owner::other_than_this_root(data) else { return Ok(()) };
    std::os::unix::fs::chown(made, Some(owner.uid), Some(owner.gid))
        .map_err(|error| Failure::file(format!("'{}': {error}", made.display())))
}

/// An error if root runs this process and the data folder belongs to another user.
pub(crate) fn refuse_root(data: &Path) -> Result<(), Failure> {
    match Owner::other_than_this_root(data) {
        None => Ok(()),
        Some(owner) => Err(refusal(data, &owner, "no server answers")),
    }
}

fn refusal(data: &Path, owner: &Owner, why: &str) -> Failure {
    let (data, owner) = (data.display(), owner.name());
    let message = format!(
        "{why}, and '{data}' belongs to {owner}: files that root made there would lock the server \
         out; nothing was changed; run the command as that user, with 'sudo -u {owner}', or start \
         the server"
    );
    Failure::new("EP0292", Exit::Failed, message)
}
