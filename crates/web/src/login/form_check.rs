//! Requests of browsers that change something: the cookie comes by itself, whichever page made the
//! browser send it, so each must carry what only our pages know.

use std::sync::Arc;

use axum::http::{HeaderMap, Method, StatusCode};
use entrepot_nouns::Secret;

use super::browser::{BrowserSignIn, CSRF_FIELD};
use crate::problem::Problem;

/// Whether a request carries what only our pages know.
#[derive(Debug)]
pub(crate) enum FormCheck {
    /// It does, or need not: it changes nothing, or no cookie signs it in.
    Passed,
    /// Its form must have this in its field `csrf`, before anything else of it is carried out.
    Needed(Arc<BrowserSignIn>),
}

impl FormCheck {
    /// Of the head of a request.
    pub(super) fn of(
        method: &Method,
        fields: &HeaderMap,
        by: Option<&Arc<BrowserSignIn>>,
    ) -> FormCheck {
        let is_safe = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        let Some(sign_in) = by.filter(|_| !is_safe) else { return FormCheck::Passed };
        let mut check = FormCheck::Needed(Arc::clone(sign_in));
        if let Some(given) = fields.get(CSRF_FIELD) {
            check.give(given.as_bytes());
        }
        check
    }

    /// Passes if this is what it asks for.
    pub(crate) fn give(&mut self, given: &[u8]) {
        let given = Secret::new(given);
        if matches!(self, FormCheck::Needed(sign_in) if sign_in.known.is_csrf_token(&given)) {
            *self = FormCheck::Passed;
        }
    }

    /// # Errors
    /// It asks for something that was not given.
    pub(crate) fn must_be_passed(&self) -> Result<(), Problem> {
        match self {
            FormCheck::Passed => Ok(()),
            FormCheck::Needed(_) => Err(Problem::new(
                StatusCode::FORBIDDEN,
                "EP1017",
                "the form is not one of this sign-in: load the page again, then send it",
            )),
        }
    }
}
