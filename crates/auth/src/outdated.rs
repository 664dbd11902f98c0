//! Passwords whose stored hash costs a guesser less than it should: the control plane makes it anew
//! while the password is at hand, at a login.

use std::sync::OnceLock;

use entrepot_nouns::{Name, Secret, SiteId};
use tokio::sync::mpsc;

use crate::limits::OUTDATED_WAITING;

/// The right password of an account whose hash costs less than those of new passwords.
#[derive(Clone, Debug)]
pub struct OutdatedPassword {
    /// The site of the account.
    pub site: SiteId,
    /// The account that gave it.
    pub account: Name,
    /// The stored hash that it fits.
    pub hash: String,
    /// The password itself.
    pub password: Secret,
}

/// Hands passwords over to whoever makes their hashes anew, if anybody does. No login waits for it.
#[derive(Debug, Default)]
pub(crate) struct OutdatedPasswords(OnceLock<mpsc::Sender<OutdatedPassword>>);

impl OutdatedPasswords {
    /// What is handed over from now on; `None` if somebody else has asked for it.
    pub(crate) fn subscribe(&self) -> Option<mpsc::Receiver<OutdatedPassword>> {
        let (sender, receiver) = mpsc::channel(OUTDATED_WAITING);
        self.0.set(sender).is_ok().then_some(receiver)
    }

    /// If there are too many, it is handed over at another login.
    pub(crate) fn hand_over(&self, password: OutdatedPassword) {
        if let Some(sender) = self.0.get() {
            let _ = sender.try_send(password);
        }
    }
}
