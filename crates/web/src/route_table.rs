//! What a table of routes says of each.

use axum::http::Method;
use axum::routing::MethodRouter;

/// An address that is served, with what answers there.
pub(crate) struct Served {
    /// With parameters in braces.
    pub(crate) path: String,
    /// What is answered otherwise than by 405.
    #[cfg_attr(not(test), expect(dead_code, reason = "the walk of rights calls each"))]
    pub(crate) methods: Vec<Method>,
    /// What the extractors of the handler ask for; the walk of rights compares them.
    #[cfg_attr(not(test), expect(dead_code, reason = "the walk of rights asserts it"))]
    pub(crate) access: Access,
    pub(crate) handler: MethodRouter,
}

/// Who gets more than a refusal at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nobody need sign in.
    Everybody,
    /// Who has the secret of a share link, which is a part of the address.
    Link,
    /// Who signs as a rule on web hooks says.
    Signature,
    /// Who sends a message of AS2 of a partner.
    As2,
    /// Every account, whatever it signs in with.
    Account,
    /// A browser with the cookie of an account.
    Browser,
    /// An account of type admin.
    Administrator,
}

impl Served {
    /// One address, for several methods.
    pub(crate) fn new(
        path: &str,
        methods: &[Method],
        access: Access,
        handler: MethodRouter,
    ) -> Served {
        Served { path: path.to_owned(), methods: methods.to_vec(), access, handler }
    }
}
