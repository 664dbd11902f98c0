//! What happens when something has the name of a file that comes.

use axum::http::StatusCode;
use entrepot_vfs::OnConflict;
use serde::Deserialize;

use crate::problem::Problem;

/// What happens when something has the name of a file that comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Conflict {
    /// The file is refused.
    #[default]
    Fail,
    /// What has the name is replaced.
    Replace,
    /// The file gets another name, such as `report (1).pdf`.
    KeepBoth,
}

impl Conflict {
    /// Of the word that requests use.
    ///
    /// # Errors
    /// There is no such word.
    pub(crate) fn of(word: &str) -> Result<Conflict, Problem> {
        match word {
            "fail" => Ok(Conflict::Fail),
            "replace" => Ok(Conflict::Replace),
            "keep-both" => Ok(Conflict::KeepBoth),
            _ => {
                let why = "what happens to a name that is taken is fail, replace or keep-both";
                Err(Problem::new(StatusCode::BAD_REQUEST, "EP1013", why))
            }
        }
    }
}

impl From<Conflict> for OnConflict {
    fn from(conflict: Conflict) -> OnConflict {
        match conflict {
            Conflict::Fail => OnConflict::Refuse,
            Conflict::Replace => OnConflict::Replace,
            Conflict::KeepBoth => OnConflict::KeepBoth,
        }
    }
}
