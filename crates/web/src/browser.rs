//! Pages for people besides those of files: signing in and out, the first administrator, and what
//! an account may see and change of itself. They are forms that a server answers, and work without
//! a script, but for passkeys, which browsers offer to scripts alone. Every change needs what only
//! a page of the same sign-in knows (`login::FormCheck`).

mod account_page;
mod oidc_links;
mod oidc_page;
mod own_passkeys_page;
mod own_tokens_page;
mod page_form;
mod passkey_form;
mod passkey_page;
mod prove_page;
mod set_up_page;
mod sign_in_page;

use axum::http::Method;
use axum::routing::{MethodRouter, get, post};

use crate::api::WebApi;
use crate::api::served::Api;
use crate::route_table::{Access, Served};

/// The addresses of these pages.
pub(crate) fn served_routes(WebApi(api): &WebApi) -> Vec<Served> {
    let both = [Method::GET, Method::POST];
    let page = |path: &str, access, methods: &[Method], handler: MethodRouter<Api>| {
        Served::new(path, methods, access, handler.with_state(api.clone()))
    };
    let form = |path, handler| page(path, Access::Browser, &[Method::POST], handler);
    vec![
        page(
            "/sign-in",
            Access::Everybody,
            &both,
            get(sign_in_page::show).post(sign_in_page::submit),
        ),
        page("/sign-in/code", Access::Everybody, &[Method::POST], post(sign_in_page::submit_code)),
        page(passkey_form::ASK, Access::Everybody, &[Method::POST], post(passkey_page::begin)),
        page("/sign-in/passkey", Access::Everybody, &[Method::POST], post(passkey_page::sign_in)),
        page("/sign-in/oidc/{name}", Access::Everybody, &[Method::GET], get(oidc_page::begin)),
        page(
            "/sign-in/oidc/{name}/callback",
            Access::Everybody,
            &[Method::GET],
            get(oidc_page::back),
        ),
        page("/prove/oidc/{name}", Access::Browser, &[Method::GET], get(oidc_page::prove)),
        page("/setup", Access::Everybody, &both, get(set_up_page::show).post(set_up_page::submit)),
        page("/account", Access::Browser, &[Method::GET], get(account_page::show)),
        page("/prove", Access::Browser, &both, get(prove_page::show).post(prove_page::submit)),
        form("/prove/passkey", post(passkey_page::prove)),
        form("/sign-out", post(account_page::sign_out)),
        form("/account/sign-ins/end", post(account_page::end_sign_in)),
        form("/account/passkeys", post(own_passkeys_page::create)),
        form("/account/passkeys/begin", post(own_passkeys_page::begin)),
        form("/account/passkeys/remove", post(own_passkeys_page::remove)),
        form("/account/tokens", post(own_tokens_page::create)),
        form("/account/tokens/revoke", post(own_tokens_page::revoke)),
    ]
}
