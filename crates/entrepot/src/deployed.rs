//! Host applications that this node has deployed: as the models and endpoints of all sites say, and
//! as they change.

use entrepot_crypto::{MasterKey, SealingContext};
use entrepot_db::Db;
use entrepot_engine::Drained;
use entrepot_host::{Applications, Deployment};
use entrepot_nouns::{Endpoint, EndpointTarget, Model, Name, SiteId};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::parts::Parts;

/// Deploys models, and takes them back.
pub(crate) struct DeployedModels {
    db: Db,
    master: MasterKey,
    /// The name of this one.
    node: Name,
    applications: Applications,
}

impl DeployedModels {
    /// Nothing is deployed before it is asked for.
    pub(crate) fn new(parts: &Parts, applications: Applications) -> DeployedModels {
        DeployedModels {
            db: parts.db.clone(),
            master: parts.master.clone(),
            node: parts.recorder.node().clone(),
            applications,
        }
    }

    /// Follows changes until `end`.
    pub(crate) async fn follow(
        self,
        mut changes: watch::Receiver<i64>,
        mut drained: Drained,
        end: CancellationToken,
    ) {
        loop {
            self.settle(&drained).await;
            tokio::select! {
                () = end.cancelled() => return,
                changed = changes.changed() => if changed.is_err() { return },
                () = drained.changed() => {}
            }
        }
    }

    /// Makes what is deployed equal to what the database says. A node that is drained deploys
    /// nothing; one whose database is away goes on with what it has.
    async fn settle(&self, drained: &Drained) {
        let wanted = if drained.is_drained() { Ok(Vec::new()) } else { self.wanted().await };
        match wanted {
            Ok(wanted) => {
                for (model, problem) in self.applications.settle(wanted) {
                    tracing::error!(code = "EP1305", %model, "cannot be deployed: {problem}");
                }
            }
            Err(error) => tracing::warn!(%error, "the models of hosts cannot be read now"),
        }
    }

    async fn wanted(&self) -> Result<Vec<Deployment>, entrepot_db::DbError> {
        let mut wanted = Vec::new();
        for site in self.db.sites().await? {
            let id = SiteId::from(site.id);
            for stored in self.db.list::<Model>(id).await? {
                let model = stored.noun;
                let is_here = model.nodes.is_empty() || model.nodes.contains(&self.node);
                if !model.enabled || !is_here {
                    continue;
                }
                let endpoint = self.db.find::<Endpoint>(id, &model.endpoint).await?;
                // Relations are checked: an endpoint that is none was changed a moment ago.
                let target = endpoint.map(|endpoint| endpoint.noun.target);
                let Some(EndpointTarget::Tn3270(target)) = target else { continue };
                wanted.extend(
                    self.opened(
                        &site.noun.name,
                        Deployment { site: id, model, target, users: None },
                    ),
                );
            }
        }
        Ok(wanted)
    }

    /// With the users in clear text. `None`: they were sealed under another master key.
    fn opened(&self, site: &Name, deployment: Deployment) -> Option<Deployment> {
        let Some(sealed) = &deployment.model.users_sealed else { return Some(deployment) };
        let context = SealingContext::model_users(site, &deployment.model.name);
        match self.master.open(&context, sealed) {
            Ok(users) => Some(Deployment { users: Some(users), ..deployment }),
            Err(error) => {
                let model = &deployment.model.name;
                tracing::error!(code = "EP1305", %model, "its users cannot be read: {error}");
                None
            }
        }
    }
}
