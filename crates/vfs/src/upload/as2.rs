//! The end of an upload that a message of AS2 brings.

use entrepot_db::As2MessageKey;
use entrepot_nouns::crash;
use entrepot_nouns::event::As2Message;

use super::Upload;
use crate::as2::{As2Arrival, ClaimResult};
use crate::error::Result;
use crate::refusal::CommandRefusal;
use crate::unbroken::unbroken;

impl Upload {
    /// Publishes the file as the message of AS2 that brought it, unless that was received before.
    /// When this returns, file, record and receipt are on stable storage. `permission` is asked
    /// for when it is known that the message is new; what it gives is kept until the end of the
    /// publish, which goes on to its end also if nobody waits for it any more.
    ///
    /// # Errors
    /// As [`Upload::finish`]; or the database is away, which alone knows what other nodes have
    /// received. The message may be sent again.
    pub async fn finish_as2<T: Send + 'static>(
        mut self,
        message: As2Message,
        permission: impl Future<Output = std::result::Result<T, CommandRefusal>> + Send + 'static,
    ) -> Result<As2Arrival> {
        unbroken(async move {
            let vfs = self.vfs.clone();
            let key = As2MessageKey::of(vfs.0.scope.site, &message);
            let claimed = match vfs.data_plane().as2.claim(key).await {
                Ok(ClaimResult::Ours(claimed)) => claimed,
                Ok(ClaimResult::Not(arrival)) => {
                    self.abort().await;
                    return Ok(arrival);
                }
                Err(error) => {
                    self.abort().await;
                    return Err(error);
                }
            };
            crash::point("as2.claimed");
            let transfer = self.transfer();
            let _kept = match permission.await {
                Ok(kept) => kept,
                Err(refusal) => {
                    self.abort().await;
                    claimed.failed(transfer).await;
                    return Ok(As2Arrival::Refused(refusal));
                }
            };
            self.as2 = Some(Box::new(message.clone()));
            match self.finish().await {
                Ok(uploaded) => {
                    crash::point("as2.published");
                    claimed.published(message);
                    Ok(As2Arrival::Published(uploaded))
                }
                Err(error) => {
                    claimed.failed(transfer).await;
                    Err(error)
                }
            }
        })
        .await
    }
}
