//! Asks a directory service: a simple bind with the client's password, then, where the hook has
//! one, a search with the rights of that bind (RFC 4511, 4513).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use entrepot_net::NetError;
use entrepot_net::dial::{self, DialPolicy};
use entrepot_net::tls::{ServerTrust, TlsClient};
use entrepot_nouns::login::{LdapHook, LdapSearch, LdapSecurity};
use ldap3::{
    Ldap, LdapConnAsync, LdapConnSettings, Scope, SearchEntry, SearchOptions, StdStream, dn_escape,
    ldap_escape,
};
use tokio::net::TcpStream;

use super::decision::HookDecision;
use crate::limits::LDAP_DIAL_TIME;

/// Result codes that say no to this name and password: noSuchObject, invalidDNSyntax,
/// inappropriateAuthentication and invalidCredentials. Every other one but 0 is no decision.
const NO: [u32; 4] = [32, 34, 48, 49];
/// Result code of a search that found more entries than were asked for.
const SIZE_LIMIT_EXCEEDED: u32 = 4;
/// Stands for no attribute in a search (RFC 4511, section 4.5.1.8).
const NO_ATTRIBUTE: &str = "1.1";

/// Asks about a password; the caller limits the time. An error says why there is no decision,
/// without anything of the password.
pub(super) async fn ask(
    hook: &LdapHook,
    user: &str,
    password: &str,
) -> Result<HookDecision, String> {
    // A bind without a password succeeds, as nobody (RFC 4513, section 5.1.2).
    if password.is_empty() || user.is_empty() || user.contains(char::is_control) {
        return Ok(HookDecision::Refused);
    }
    let mut ldap = connect(hook).await?;
    let decided = decide(&mut ldap, hook, user, password).await;
    // It has decided; a service that does not hear the farewell sees the connection end.
    let _ = ldap.unbind().await;
    decided
}

async fn decide(
    ldap: &mut Ldap,
    hook: &LdapHook,
    user: &str,
    password: &str,
) -> Result<HookDecision, String> {
    let name = bind_name(&hook.bind, user);
    let result = ldap.simple_bind(&name, password).await.map_err(|error| error.to_string())?;
    match result.rc {
        0 => {}
        code if NO.contains(&code) => return Ok(HookDecision::Refused),
        code => return Err(format!("it answered the bind with code {code}")),
    }
    match &hook.search {
        None => Ok(HookDecision::Allowed(user.to_owned())),
        Some(search) => find(ldap, search, user).await,
    }
}

/// Looks for the one entry that must be there.
async fn find(ldap: &mut Ldap, search: &LdapSearch, user: &str) -> Result<HookDecision, String> {
    let many = || "more than one entry fits its search".to_owned();
    let base = search.base.replace("{user}", &dn_escape(user));
    let filter = search.filter.replace("{user}", &ldap_escape(user));
    let wanted = search.account.as_deref().unwrap_or(NO_ATTRIBUTE);
    let found = ldap
        .with_search_options(SearchOptions::new().sizelimit(2))
        .search(&base, Scope::Subtree, &filter, [wanted])
        .await
        .map_err(|error| error.to_string())?;
    let mut entries = match (found.0, found.1.rc) {
        (entries, 0) => entries,
        (_, SIZE_LIMIT_EXCEEDED) => return Err(many()),
        (_, code) if NO.contains(&code) => return Ok(HookDecision::Refused),
        (_, code) => return Err(format!("it answered the search with code {code}")),
    };
    // A hint at another server is no entry.
    entries.retain(|entry| !entry.is_ref() && !entry.is_intermediate());
    let Some(entry) = entries.pop() else { return Ok(HookDecision::Refused) };
    if !entries.is_empty() {
        return Err(many());
    }
    if search.account.is_none() {
        return Ok(HookDecision::Allowed(user.to_owned()));
    }
    let mut values = SearchEntry::construct(entry).attrs.into_values().flatten();
    match (values.next(), values.next()) {
        (Some(account), None) => Ok(HookDecision::Allowed(account)),
        (None, _) => Err(format!("the entry has no attribute '{wanted}'")),
        (Some(_), Some(_)) => Err(format!("the entry has more than one '{wanted}'")),
    }
}

/// The name of the bind; in one that is a path of the directory what the client gave stays one
/// value.
fn bind_name(template: &str, user: &str) -> String {
    if template.contains('=') {
        template.replace("{user}", &dn_escape(user))
    } else {
        template.replace("{user}", user)
    }
}

async fn connect(hook: &LdapHook) -> Result<Ldap, String> {
    let url = &hook.url;
    let stream = dial(hook).await?.into_std().map_err(|error| error.to_string())?;
    let mut settings = LdapConnSettings::new().set_std_stream(StdStream::Tcp(stream));
    if hook.security() != LdapSecurity::Clear {
        let own = hook.authorities.as_ref();
        let own = own.map(|pem| ServerTrust::Authorities(pem.clone().into_bytes()));
        let trust = own.unwrap_or(ServerTrust::System);
        let client = TlsClient::new(&url.host, &trust).map_err(|error| error.to_string())?;
        settings = settings.set_config(Arc::new(client.config()));
    }
    settings = settings.set_starttls(hook.security() == LdapSecurity::StartTls);
    let text = String::from(url.clone());
    let (connection, ldap) =
        LdapConnAsync::with_settings(settings, &text).await.map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        if let Err(error) = connection.drive().await {
            tracing::debug!(%error, "a connection to a directory service ended");
        }
    });
    Ok(ldap)
}

/// Connects; in clear text to the loopback addresses alone, whatever a resolver says.
async fn dial(hook: &LdapHook) -> Result<TcpStream, String> {
    let (host, port) = (&hook.url.host, hook.url.port);
    let clear = hook.security() == LdapSecurity::Clear;
    let hosts = if clear && host == "localhost" {
        [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)]
            .map(|address| address.to_string())
            .to_vec()
    } else {
        vec![host.clone()]
    };
    let policy = DialPolicy { allow_private: hook.private || clear };
    let mut problem = String::new();
    for host in hosts {
        problem = match dial::tcp(&host, port, &policy, LDAP_DIAL_TIME).await {
            Ok(stream) => return Ok(stream),
            Err(NetError::PrivateAddress { host, .. }) => {
                format!("'{host}' lies in a private network, set 'private' if that is meant")
            }
            Err(error) => error.to_string(),
        };
    }
    Err(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_value_of_the_name_that_is_bound() {
        let path = |user| bind_name("uid={user},ou=people,dc=a", user);
        assert_eq!(path("anna"), "uid=anna,ou=people,dc=a");
        assert_eq!(path("anna,ou=boss"), r"uid=anna\2cou\3dboss,ou=people,dc=a");
        assert_eq!(bind_name("{user}@corp.example", "an=na"), "an=na@corp.example");
    }

    #[tokio::test]
    async fn an_empty_password_is_not_asked_about() {
        let json = r#"{"url": "ldap://127.0.0.1:9", "bind": "uid={user},dc=a"}"#;
        let hook = serde_json::from_str::<LdapHook>(json).unwrap();
        assert_eq!(ask(&hook, "anna", "").await, Ok(HookDecision::Refused));
        assert_eq!(ask(&hook, "an\0na", "x").await, Ok(HookDecision::Refused));
        assert!(ask(&hook, "anna", "x").await.is_err(), "nobody listens there");
    }
}
