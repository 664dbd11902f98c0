//! What nodes tell each other of penalties, by the database and off the path of logins: what is
//! counted here is counted at once, and what others count is added to it a moment later.

use entrepot_db::{Penalty, PenaltyAccount, PenaltyKind};

use super::{Books, Claimant, LastLogin, Moment, Origin, Penalties, Subject};
use crate::account_key::AccountKey;
use crate::limits::{ACCOUNT_WINDOW, ADDRESS_WINDOW, KNOWN_FOR, UNSHARED};

impl Penalties {
    /// From now on what other nodes should know is kept for [`Penalties::take_unshared`].
    pub(crate) fn begin_sharing(&self) {
        self.0.books.lock().unshared.get_or_insert_default();
    }

    /// The oldest entries that the others do not know yet, at most `limit`.
    pub(crate) fn take_unshared(&self, limit: usize) -> Vec<Penalty> {
        let mut books = self.0.books.lock();
        let Some(unshared) = &mut books.unshared else { return Vec::new() };
        let count = unshared.len().min(limit);
        unshared.drain(..count).collect()
    }

    /// They could not be shared: they come first the next time.
    pub(crate) fn give_back_unshared(&self, penalties: Vec<Penalty>) {
        let mut books = self.0.books.lock();
        let Some(unshared) = &mut books.unshared else { return };
        for penalty in penalties.into_iter().rev() {
            unshared.push_front(penalty);
        }
        unshared.truncate(UNSHARED);
    }

    /// Takes over what another node has seen, or this one before it was started. What nobody here
    /// understands is left out.
    pub(crate) fn take_over(&self, shared: &Penalty) {
        let moment = self.moment();
        let at = moment.of_this_clock(shared.at);
        let origin = shared.address.as_deref().and_then(|text| text.parse::<Origin>().ok());
        let account = shared.account.as_ref();
        let account = account.map(|it| AccountKey { site: it.site, name: it.name.clone() });
        let mut books = self.0.books.lock();
        let most = shared.most;
        match (shared.kind, account, origin) {
            (PenaltyKind::Address, _, Some(origin)) => books.origins.add(origin, at, most),
            (PenaltyKind::Spared, _, Some(origin)) => books.spared.add(origin, at, most),
            (PenaltyKind::Account, Some(account), _) => books.accounts.add(account, at, most),
            (PenaltyKind::Known, Some(account), Some(origin)) => {
                books.known.add(Claimant { origin, account }, at, most);
            }
            (PenaltyKind::Login, Some(account), Some(origin)) => {
                let login = LastLogin { origin, at, shared_at: at };
                books.know(&Claimant { origin, account }, login);
            }
            (PenaltyKind::Unlocked, Some(account), None) => books.unlock_account(&account),
            (PenaltyKind::Unlocked, None, Some(origin)) => books.unlock_address(origin),
            _ => {}
        }
        drop(books);
        self.0.settled.notify_waiters();
    }
}

impl Books {
    /// Keeps an entry for the other nodes, if anybody informs them.
    pub(super) fn share(
        &mut self,
        kind: PenaltyKind,
        subject: Subject<'_>,
        moment: Moment,
        most: u32,
    ) {
        let Some(unshared) = &mut self.unshared else { return };
        if unshared.len() >= UNSHARED {
            unshared.pop_front();
        }
        let counts_for = match kind {
            PenaltyKind::Address | PenaltyKind::Known | PenaltyKind::Spared => ADDRESS_WINDOW,
            PenaltyKind::Account | PenaltyKind::Unlocked => ACCOUNT_WINDOW,
            PenaltyKind::Login => KNOWN_FOR,
        };
        let account = subject
            .account
            .map(|account| PenaltyAccount { site: account.site, name: account.name.clone() });
        unshared.push_back(Penalty {
            kind,
            account,
            address: subject.origin.map(|origin| origin.to_string()),
            most,
            at: moment.now,
            expires_at: moment.now.plus(counts_for),
        });
    }
}
