//! What `fetch` would do: whether the file is at its endpoint, and what becomes of it there.

use async_trait::async_trait;
use entrepot_nouns::dry_run::LookedFor;
use entrepot_nouns::rule::{AfterFetch, FetchSpec};
use entrepot_storage::StoreError;
use serde_json::json;

use super::StepError;
use super::fetch::{Place, endpoint_name};
use crate::foresight::{Foresee, Foreseen, Foresight, UNREAD};
use crate::noted::{FILE, FileValue};
use crate::pattern::{self, Values};

#[async_trait]
impl Foresee for FetchSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let name = endpoint_name(self, foresight.event())?.clone();
        let path = pattern::store_path(&self.path, foresight.values())?;
        let endpoint = foresight.endpoint(&name).await?;
        let found = foresight.look_at_endpoint(&endpoint, &path).await;
        let at = Place { endpoint: &name, path: &path };
        let (size, open) = match found {
            LookedFor::File { size, .. } => (size, None),
            LookedFor::Nothing => return Err(at.failed(&StoreError::NotFound)),
            LookedFor::Directory => return Err(at.failed(&StoreError::IsDirectory)),
            LookedFor::Unknown { why } => (0, Some(why)),
        };
        let step = foresight.address.clone();
        let plain = path.file_name().unwrap_or_default().to_owned();
        let made = FileValue { name: plain, size, digest: UNREAD.to_owned(), step, epoch: 1 };
        let noted = foresight.noted.clone().with_file(made.clone());
        let values = Values { event: foresight.event(), noted: Some(&noted) };
        let to = self.to.as_ref().map(|to| pattern::store_path(to, values)).transpose()?;
        let after = match (self.after, to) {
            (AfterFetch::Keep, _) => "which keeps it".to_owned(),
            (AfterFetch::Move, Some(to)) => {
                format!("where it is moved to '{to}' when the job has ended well")
            }
            _ => "where it is removed when the job has ended well".to_owned(),
        };
        let what = format!("fetches '{path}' ({size} bytes) from endpoint '{name}', {after}");
        Ok(Foreseen { what, result: Some(json!({ FILE: made.told() })), open })
    }
}
