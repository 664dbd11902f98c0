//! `/setup`: the first administrator, made by whoever has the token that `entrepot init` printed.
//! There is no such page while there is an administrator, or no token that counts.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use entrepot_admin::Problem as Refusal;
use entrepot_nouns::{Name, Secret, SiteId};

use super::page_form::OpenForm;
use crate::answers::see_other;
use crate::api::served::Api;
use crate::context::RequestContext;
use crate::html::escape;
use crate::page::Page;
use crate::problem::Problem;

pub(super) async fn show(
    State(api): State<Api>,
    context: RequestContext,
) -> Result<Response, Problem> {
    must_wait(&api, &context).await?;
    Ok(page(&context, "", None))
}

/// Makes the administrator.
pub(super) async fn submit(
    State(api): State<Api>,
    mut form: OpenForm,
) -> Result<Response, Problem> {
    must_wait(&api, &form.context).await?;
    let token = Secret::new(form.text("token")?.trim());
    let (name, password) = (form.text("name")?, Secret::new(form.text("password")?));
    if form.text("again")?.as_bytes() != password.expose() {
        let why = "the two passwords are not the same".to_owned();
        let refusal = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "EP0102", why);
        return Ok(page(&form.context, &name, Some(&refusal)));
    }
    let called: Name = match name.parse() {
        Ok(called) => called,
        Err(error) => {
            let why = format!("'{name}' is no name of an account: {error}");
            let refusal = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "EP0102", why);
            return Ok(page(&form.context, &name, Some(&refusal)));
        }
    };
    match api.admin.set_up(&token, called, password).await {
        Ok(()) => Ok(see_other("/sign-in")),
        Err(error) => {
            let refusal = Problem::from(Refusal::from(error));
            Ok(page(&form.context, &name, Some(&refusal)))
        }
    }
}

/// Else there is no such page.
async fn must_wait(api: &Api, context: &RequestContext) -> Result<(), Problem> {
    let waits = context.site == SiteId::MAIN && api.admin.waits_for_set_up().await?;
    if waits { Ok(()) } else { Err(Problem::nothing_here()) }
}

fn page(context: &RequestContext, name: &str, refusal: Option<&Problem>) -> Response {
    let mut page = Page::new("Make the first administrator");
    let status = refusal.map_or(StatusCode::OK, |refusal| refusal.status);
    if let Some(refusal) = refusal {
        page.alert(&refusal.detail);
    }
    page.push(&format!(
        "<p>The token was printed by <code>entrepot init</code>; \
         <code>entrepot account set-up-token</code> prints another one.</p>\n\
         <form class=\"narrow\" method=\"post\" action=\"/setup\">\n\
         <p><label class=\"above\" for=\"token\">Token</label>\
         <input id=\"token\" name=\"token\" autocomplete=\"off\" autocapitalize=\"none\" \
         spellcheck=\"false\" placeholder=\"epi_…\" required autofocus></p>\n\
         <p><label class=\"above\" for=\"name\">Name</label>\
         <input id=\"name\" name=\"name\" autocomplete=\"username\" autocapitalize=\"none\" \
         spellcheck=\"false\" value=\"{}\" required></p>\n\
         <p><label class=\"above\" for=\"password\">Password</label>\
         <input id=\"password\" name=\"password\" type=\"password\" autocomplete=\"new-password\" \
         required></p>\n\
         <p><label class=\"above\" for=\"again\">The password again</label>\
         <input id=\"again\" name=\"again\" type=\"password\" autocomplete=\"new-password\" \
         required></p>\n\
         <p><button>Make the administrator</button></p>\n</form>\n",
        escape(name)
    ));
    page.answer(status, context.shared().env())
}
