//! Wrong passwords count on all nodes, and after a restart: each node adds those that it has seen
//! to the database and reads those of the others. No login waits for it; while the database is
//! away, each node counts its own.

use entrepot_db::PenaltyPosition;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::Gate;
use crate::error::Result;
use crate::limits::{LAST_SHARING, SHARE_EVERY, SHARED_AT_A_TIME, SHARED_READ, SHARED_SWEPT_EVERY};

/// How far a node has come with what all nodes tell each other.
#[derive(Debug, Default)]
pub struct PenaltySharing {
    /// What stands before it was read.
    position: PenaltyPosition,
    /// What counted when this node began was read: from then on its own entries are known here.
    begun: bool,
}

impl Gate {
    /// Reads the wrong passwords that count already; to be called before the first login. If the
    /// database is away, they are read when it is back.
    ///
    /// # Errors
    /// The database is away.
    pub async fn begin_sharing(&self, sharing: &mut PenaltySharing) -> Result<()> {
        self.0.penalties.begin_sharing();
        self.share_penalties(sharing).await
    }

    /// Shares wrong passwords with the other nodes until `until`.
    pub async fn keep_sharing(&self, mut sharing: PenaltySharing, until: CancellationToken) {
        let mut ticks = interval(SHARE_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut is_away, mut swept_at) = (false, None);
        while until.run_until_cancelled(ticks.tick()).await.is_some() {
            let now = self.0.penalties.elapsed();
            let result = match self.share_penalties(&mut sharing).await {
                Ok(())
                    if swept_at.is_none_or(|at| now.saturating_sub(at) >= SHARED_SWEPT_EVERY) =>
                {
                    swept_at = Some(now);
                    self.forget_expired().await
                }
                result => result,
            };
            match result {
                Err(error) if !is_away => {
                    is_away = true;
                    tracing::warn!(
                        code = "EP0122",
                        %error,
                        "wrong passwords are counted on this node alone"
                    );
                }
                Ok(()) if is_away => {
                    is_away = false;
                    tracing::info!("wrong passwords are counted on all nodes again");
                }
                _ => {}
            }
        }
        if !matches!(timeout(LAST_SHARING, self.share_penalties(&mut sharing)).await, Ok(Ok(()))) {
            tracing::warn!(code = "EP0122", "the last wrong passwords are forgotten");
        }
    }

    /// Adds what this node has seen since the last time, and takes over what the others have.
    pub(crate) async fn share_penalties(&self, sharing: &mut PenaltySharing) -> Result<()> {
        let (db, penalties) = (self.0.directory.db(), &self.0.penalties);
        let node = self.0.recorder.node();
        if sharing.begun {
            let mut unshared = penalties.take_unshared(SHARED_AT_A_TIME);
            while !unshared.is_empty() {
                if let Err(error) = db.add_penalties(node, &unshared).await {
                    penalties.give_back_unshared(unshared);
                    return Err(error.into());
                }
                unshared = penalties.take_unshared(SHARED_AT_A_TIME);
            }
        }
        loop {
            let rows = db.penalties_after(sharing.position, SHARED_READ).await?;
            for row in &rows {
                if row.node != *node || !sharing.begun {
                    penalties.take_over(&row.penalty);
                }
                sharing.position = row.position;
            }
            if rows.len() < SHARED_READ as usize {
                sharing.begun = true;
                return Ok(());
            }
        }
    }

    async fn forget_expired(&self) -> Result<()> {
        self.0.directory.db().forget_penalties(self.0.recorder.env().now()).await?;
        Ok(())
    }
}
