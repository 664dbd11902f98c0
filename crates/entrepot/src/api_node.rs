//! What the API shows of this node besides what the administration knows: receipts and heads of its
//! journal, its metrics, and that events have become visible.

use entrepot_admin::{Problem, ProblemClass};
use entrepot_db::Db;
use entrepot_nouns::as2::As2Entry;
use entrepot_nouns::{NodeId, SiteId, TransferId};
use entrepot_proof::Heads;
use entrepot_web::ApiNode;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::as2;
use crate::metrics::Metrics;
use crate::receipt::{self, ReceiptRequest};

/// This node, as listeners of HTTP show it.
pub(crate) struct ServedApi {
    pub(crate) heads: Heads,
    pub(crate) metrics: Metrics,
    pub(crate) projected: watch::Receiver<u64>,
    pub(crate) db: Db,
    pub(crate) id: NodeId,
}

impl ApiNode for ServedApi {
    fn receipt(&self, site: SiteId, transfer: TransferId) -> BoxFuture<'_, Result<Value, Problem>> {
        Box::pin(async move {
            let request = ReceiptRequest { transfer };
            let receipt = receipt::answer(&self.heads, site, &request).await?;
            serde_json::to_value(&receipt).map_err(|error| Problem {
                code: "EP0113".to_owned(),
                message: format!("a receipt has no JSON form ({error}); please report this"),
                class: ProblemClass::Failed,
            })
        })
    }

    fn as2_evidence(&self, site: SiteId, entry: As2Entry) -> BoxFuture<'_, Result<Value, Problem>> {
        Box::pin(async move {
            let bundle = as2::of_entry(&self.heads, site, &entry).await?;
            serde_json::to_value(&bundle).map_err(|error| Problem {
                code: "EP0113".to_owned(),
                message: format!("evidence has no JSON form ({error}); please report this"),
                class: ProblemClass::Failed,
            })
        })
    }

    fn head(&self) -> BoxFuture<'_, Result<Value, Problem>> {
        Box::pin(async move {
            let head = self.db.last_head(self.id).await.map_err(|error| Problem {
                code: error.code().to_owned(),
                message: error.to_string(),
                class: ProblemClass::Unavailable,
            })?;
            let Some(head) = head else {
                return Err(Problem {
                    code: "EP0623".to_owned(),
                    message: "no head of this node's journal is signed yet; try again in a minute"
                        .to_owned(),
                    class: ProblemClass::NotFound,
                });
            };
            let key = self.heads.verifier().to_string();
            Ok(json!({
                "records": head.size, "signed_at": head.at, "note": head.note, "key": key,
            }))
        })
    }

    fn metrics(&self) -> BoxFuture<'_, String> {
        Box::pin(async move { self.metrics.encode(self.heads.sinks()).await })
    }

    fn projected(&self) -> watch::Receiver<u64> {
        self.projected.clone()
    }
}
