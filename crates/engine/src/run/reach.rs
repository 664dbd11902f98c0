//! What a job reaches: its file, the account's view of files, and endpoints.

use entrepot_net::tls::ClientIdentity;
use entrepot_nouns::noun::Stored;
use entrepot_nouns::{Endpoint, Key, Name, VPath};

use super::Run;
use crate::client_key;
use crate::files::AccountFiles;
use crate::pattern;
use crate::step::StepError;

impl Run<'_> {
    /// Where the file is in the account's view.
    pub(crate) fn path(&self) -> Result<VPath, StepError> {
        if let Some(path) = &self.path {
            return path.clone();
        }
        if let Some(path) = self.taken_path() {
            return Ok(path);
        }
        let kind = self.job.event.fact.kind();
        let none = || StepError::permanent("EP0812", format!("event '{kind}' is about no file"));
        let path = pattern::event_path(&self.job.event).ok_or_else(none)?;
        path.parse().map_err(|_| none())
    }

    /// The account's view of files, or without one the files of the endpoint that the rule watches.
    pub(crate) async fn files(&mut self) -> Result<&dyn AccountFiles, StepError> {
        let files = match (self.files.take(), self.rule.noun.watched_without_account()) {
            (Some(files), _) => files,
            (None, Some(watch)) => self.endpoint_files(&watch.endpoint).await?,
            (None, None) => {
                let account = self.rule.noun.run_as.as_ref().or(self.job.event.account.as_ref());
                let account = account.ok_or_else(|| {
                    let text = "the event has no account, say in the rule whom it runs as";
                    StepError::permanent("EP0811", text)
                })?;
                let enter = self.shared.file_access.open_account(self.job, account);
                self.hold.waiting(enter).await??
            }
        };
        let files: &dyn AccountFiles = &**self.files.insert(files);
        Ok(files)
    }

    /// The files of an endpoint.
    pub(super) async fn endpoint_files(
        &self,
        name: &Name,
    ) -> Result<Box<dyn AccountFiles>, StepError> {
        let endpoint = self.endpoint(name).await?;
        let env = self.shared.recorder.env();
        self.hold.waiting(self.shared.file_access.open_endpoint(&endpoint, env)).await?
    }

    /// What proves to the server of an endpoint who we are, if the endpoint names a key for that.
    pub(crate) async fn identity(
        &self,
        server: &Stored<Endpoint>,
    ) -> Result<Option<ClientIdentity>, StepError> {
        let Some((_, name)) = server.noun.target.client_key() else { return Ok(None) };
        let (db, site) = (&self.shared.db, self.job.site);
        let key = self.hold.insist(|| db.find::<Key>(site, name)).await?;
        let key = key.map(|key| key.noun);
        self.hold.waiting(client_key::identity(self.shared, server, key)).await?
    }

    /// An endpoint by name.
    pub(crate) async fn endpoint(&self, name: &Name) -> Result<Stored<Endpoint>, StepError> {
        let (db, site) = (&self.shared.db, self.job.site);
        let found = self.hold.insist(|| db.find::<Endpoint>(site, name)).await?;
        found.ok_or_else(|| {
            let text = format!("there is no endpoint '{name}', create it or change the rule");
            StepError::permanent("EP0811", text)
        })
    }
}
