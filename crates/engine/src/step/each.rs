//! `each`: runs steps once for each item of a list. The list is recorded before the first turn, so
//! that a later attempt takes up the turn that its predecessor was in; [`crate::run`] walks them.

use async_trait::async_trait;
use entrepot_nouns::rule::EachSpec;
use serde_json::{Value as Json, json};

use super::find::{self, MORE};
use super::{Step, StepError};
use crate::foresight::{Foresee, Foreseen, Foresight};
use crate::ids::StepKey;
use crate::limits::{EACH_BYTES, EACH_FORESEEN, EACH_ITEMS};
use crate::noted::ITEMS;
use crate::run::Run;

/// The list that an expression gave.
fn list(given: Json) -> Result<Vec<Json>, StepError> {
    let refused = |text: String| StepError::permanent("EP0879", text);
    let items = match given {
        Json::Array(items) => items,
        other => {
            let text: String = other.to_string().chars().take(64).collect();
            return Err(refused(format!("'in' gave no list but {text}")));
        }
    };
    if items.len() > EACH_ITEMS {
        let count = items.len();
        return Err(refused(format!("the list has {count} items and {EACH_ITEMS} are the limit")));
    }
    let size = json!(items).to_string().len();
    if size > EACH_BYTES {
        return Err(refused(format!("the list has {size} bytes and {EACH_BYTES} are the limit")));
    }
    Ok(items)
}

#[async_trait]
impl Step for EachSpec {
    async fn run(&self, run: &mut Run<'_>, _key: &StepKey) -> Result<(), StepError> {
        let items = match (&self.find, &self.list) {
            (Some(find), _) => {
                let folder = find::folder(find, run.values())?;
                let endpoint = run.endpoint(&find.endpoint).await?;
                let store = run.hold.waiting(run.shared.file_access.store(&endpoint)).await??;
                let found = run.hold.waiting(find::found(find, &store, folder)).await??;
                run.leave(MORE, json!(found.more));
                found.items
            }
            (None, Some(text)) => list(run.value(text, &run.noted)?)?,
            (None, None) => Vec::new(),
        };
        run.leave(ITEMS, Json::Array(items));
        Ok(())
    }
}

#[async_trait]
impl Foresee for EachSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let noted = foresight.noted.clone();
        let items = match (&self.find, &self.list) {
            (Some(find), _) => {
                let folder = find::folder(find, foresight.values())?;
                let endpoint = foresight.endpoint(&find.endpoint).await?;
                match foresight.found(&endpoint, find, folder).await? {
                    Ok(found) => found.items,
                    Err(why) => return Ok(Foreseen::open("runs the steps inside it", why)),
                }
            }
            (None, Some(text)) => list(foresight.value("in", text, &noted)?)?,
            (None, None) => Vec::new(),
        };
        let what = match items.len() {
            0 => "runs nothing: the list is empty".to_owned(),
            1 => "runs the steps inside it once".to_owned(),
            count if count <= EACH_FORESEEN => format!("runs the steps inside it {count} times"),
            count => format!(
                "runs the steps inside it {count} times, of which {EACH_FORESEEN} are shown"
            ),
        };
        Ok(Foreseen { what, result: Some(json!({ ITEMS: items })), open: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_length_that_its_record_can_have() {
        assert_eq!(list(json!([])), Ok(Vec::new()));
        assert_eq!(list(json!(vec!["x"; EACH_ITEMS])).map(|items| items.len()), Ok(EACH_ITEMS));
        let long = "x".repeat(EACH_BYTES / 100);
        for (given, said) in [
            (json!(vec![0; EACH_ITEMS + 1]), "10001 items"),
            (json!(vec![long.as_str(); 100]), "bytes and 1048576 are the limit"),
            (json!(null), "no list but null"),
        ] {
            let error = list(given).unwrap_err().to_string();
            assert!(error.starts_with("EP0879: ") && error.contains(said), "{error}");
        }
    }
}
