//! The external check of passwords: a web service, a program or a directory decides about a login
//! (`docs/howto/check-logins-elsewhere.md`). A hook that does not answer in time and in the right
//! form admits nobody. Neither its request nor its response reaches a log.

mod decision;
mod ldap;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use entrepot_net::NetError;
use entrepot_net::dial::DialPolicy;
use entrepot_net::http::{
    ClearText, Client, HeaderValue, HttpError, Method, Request, Response, StatusCode,
};
use entrepot_net::tls::ServerTrust;
use entrepot_nouns::login::{ExecHook, HookUrl, HttpHook, LoginCheck, LoginHook};
use entrepot_nouns::{Name, Secret, SiteId, Timestamp};
use entrepot_spawn::{How, Program, Spawner, Stdin};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

use crate::limits::{
    HOOK_ANSWER_BYTES, HOOKS_AT_A_TIME, HOOKS_OF_A_SITE, HOOKS_WAITING, HOOKS_WAITING_OF_A_SITE,
};
use crate::peer::Peer;
pub(crate) use decision::HookDecision;
use decision::decision;

/// A login with a password that this server cannot check itself.
pub(crate) struct PasswordLogin<'a> {
    /// The name as the client gave it, which need not be an account's.
    pub(crate) user: &'a str,
    pub(crate) password: &'a Secret,
    pub(crate) peer: &'a Peer,
}

/// The JSON document that a hook gets.
#[derive(Serialize)]
struct HookRequest<'a> {
    user: &'a str,
    password: &'a str,
    ip: String,
    protocol: &'a str,
    listener: &'a Name,
    time: Timestamp,
}

/// Asks login hooks, with a limit on concurrent calls, and a lower one for each site.
pub(crate) struct LoginHooks {
    calls: Semaphore,
    waiting: Mutex<WaitingLogins>,
    spawner: OnceLock<Spawner>,
    /// For services whose certificates this machine trusts.
    client: Client,
}

impl LoginHooks {
    pub(crate) fn new() -> Self {
        LoginHooks {
            calls: Semaphore::new(HOOKS_AT_A_TIME),
            waiting: Mutex::default(),
            spawner: OnceLock::new(),
            client: Client::new(ServerTrust::System),
        }
    }

    /// Hooks that are programs are started by `spawner`; without one they fail.
    pub(crate) fn start_programs_by(&self, spawner: Spawner) {
        let _ = self.spawner.set(spawner);
    }

    /// Asks about a password, within the time of `check`, the wait in the queue included.
    pub(crate) async fn ask(
        &self,
        check: &LoginCheck,
        login: &PasswordLogin<'_>,
        now: Timestamp,
    ) -> HookDecision {
        let PasswordLogin { user, password, peer } = login;
        let Ok(text) = std::str::from_utf8(password.expose()) else { return HookDecision::Refused };
        let request = HookRequest {
            user,
            password: text,
            ip: peer.address.ip().to_canonical().to_string(),
            protocol: peer.protocol.as_str(),
            listener: &peer.listener,
            time: now,
        };
        let request = match serde_json::to_vec(&request) {
            Ok(request) => Zeroizing::new(request),
            Err(error) => return HookDecision::Failed(error.to_string()),
        };
        let Some(waiting) = WaitingLogin::join(&self.waiting, peer.site) else {
            return HookDecision::Busy;
        };
        let limit = Duration::from_secs(u64::from(check.seconds()));
        let asking = async {
            // Neither semaphore is ever closed. Few logins of a site wait for the second, which is
            // first come, first served.
            let Ok(_of_site) = waiting.site_calls.acquire().await else {
                return HookDecision::Busy;
            };
            let Ok(_of_all) = self.calls.acquire().await else { return HookDecision::Busy };
            let answered = match &check.hook {
                LoginHook::Http(http) => self.post(http, request).await,
                LoginHook::Exec(exec) => self.run(exec, request, limit).await,
                LoginHook::Ldap(hook) => {
                    let decided = ldap::ask(hook, user, text).await;
                    return decided.unwrap_or_else(HookDecision::Failed);
                }
            };
            let decided = answered.and_then(|answer| decision(&answer, user));
            decided.unwrap_or_else(HookDecision::Failed)
        };
        let answered = tokio::time::timeout(limit, asking).await;
        answered.unwrap_or_else(|_| HookDecision::Failed(format!("no answer within {limit:?}")))
    }

    /// One POST; the time of the check limits it as a whole.
    async fn post(&self, http: &HttpHook, body: Zeroizing<Vec<u8>>) -> Result<Vec<u8>, String> {
        let body = Bytes::from_owner(body);
        let own = http.authorities.as_ref();
        let own = own.map(|pem| Client::new(ServerTrust::Authorities(pem.clone().into_bytes())));
        let client = own.as_ref().unwrap_or(&self.client);
        let mut problem = String::new();
        for url in urls(&http.url) {
            let mut request = Request::new(Method::POST, &String::from(url))
                .map_err(|error| error.to_string())?
                .content(HeaderValue::from_static("application/json"), body.clone());
            request.dial = DialPolicy { allow_private: http.private || !http.url.secure };
            request.clear_text = ClearText::ThisMachine;
            problem = match client.send(request).await {
                Ok(response) => return answer(response).await,
                Err(HttpError::Dial(NetError::PrivateAddress { host, .. })) => {
                    format!("'{host}' lies in a private network, set 'private' if that is meant")
                }
                Err(HttpError::Dial(error)) => error.to_string(),
                Err(other) => return Err(other.to_string()),
            };
        }
        Err(problem)
    }

    async fn run(
        &self,
        exec: &ExecHook,
        request: Zeroizing<Vec<u8>>,
        limit: Duration,
    ) -> Result<Vec<u8>, String> {
        let spawner = self.spawner.get().ok_or("no programs are started here")?;
        let mut program = Program::new(exec.program.clone());
        program.stdin = Stdin::Bytes(request);
        program.limit = limit;
        let ended = spawner.run(program).await.map_err(|error| error.to_string())?;
        match ended.how {
            How::Code(0) if ended.stdout.dropped == 0 => Ok(ended.stdout.bytes),
            How::Code(0) => Err("it said too much".to_owned()),
            // Not what it wrote on standard error: that may show the password.
            how => Err(how.to_string()),
        }
    }
}

/// Where a service is asked, in order. One in clear text is on this machine, and nobody is asked
/// where that is: a resolver could lead the connection elsewhere.
fn urls(url: &HookUrl) -> Vec<HookUrl> {
    if url.secure || url.host != "localhost" {
        return vec![url.clone()];
    }
    let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
    loopback.map(|address| HookUrl { host: address.to_string(), ..url.clone() }).to_vec()
}

/// What a service answered.
async fn answer(response: Response) -> Result<Vec<u8>, String> {
    if response.status != StatusCode::OK {
        return Err(format!("it answered {}", response.status.as_u16()));
    }
    let body = response.body.read_all(HOOK_ANSWER_BYTES).await;
    Ok(body.map_err(|error| error.to_string())?.to_vec())
}

/// The logins that wait for an answer of a hook.
#[derive(Default)]
struct WaitingLogins {
    count: usize,
    /// Sites with at least one waiting login.
    sites: HashMap<SiteId, SiteShare>,
}

/// The waiting logins of one site, and its limit on concurrent calls.
struct SiteShare {
    count: usize,
    calls: Arc<Semaphore>,
}

/// One login that waits for an answer; it is counted until this is dropped.
struct WaitingLogin<'a> {
    waiting: &'a Mutex<WaitingLogins>,
    site: SiteId,
    site_calls: Arc<Semaphore>,
}

impl<'a> WaitingLogin<'a> {
    /// `None`: too many wait already, in all or of this site.
    fn join(waiting: &'a Mutex<WaitingLogins>, site: SiteId) -> Option<Self> {
        let mut list = waiting.lock();
        let of_site = list.sites.get(&site).map_or(0, |share| share.count);
        if list.count >= HOOKS_WAITING || of_site >= HOOKS_WAITING_OF_A_SITE {
            return None;
        }
        list.count += 1;
        let share = list.sites.entry(site).or_insert_with(|| SiteShare {
            count: 0,
            calls: Arc::new(Semaphore::new(HOOKS_OF_A_SITE)),
        });
        share.count += 1;
        Some(WaitingLogin { waiting, site, site_calls: Arc::clone(&share.calls) })
    }
}

impl Drop for WaitingLogin<'_> {
    fn drop(&mut self) {
        let mut list = self.waiting.lock();
        list.count = list.count.saturating_sub(1);
        if let Some(share) = list.sites.get_mut(&self.site) {
            share.count = share.count.saturating_sub(1);
            if share.count == 0 {
                list.sites.remove(&self.site);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use entrepot_nouns::{Env, Protocol};
    use entrepot_spawn::{Allowed, Helper, SpawnerOptions};
    use tokio::task::JoinSet;

    use super::*;

    fn peer(site: u128) -> Peer {
        let site = SiteId(uuid::Uuid::from_u128(site));
        Peer {
            site,
            home: site,
            protocol: Protocol::Ftp,
            encrypted: true,
            listener: "ftp".parse().unwrap(),
            address: "192.0.2.1:1".parse().unwrap(),
            client: String::new(),
            algorithms: String::new(),
        }
    }

    #[tokio::test]
    async fn a_hook_that_never_answers_delays_its_own_site_alone() {
        let allowed = Allowed::new(["/bin".into()]).unwrap();
        let options = SpawnerOptions {
            helper: Helper::Thread,
            children: HOOKS_AT_A_TIME + 1,
            ..SpawnerOptions::new(allowed)
        };
        let spawner = Spawner::new(options, Env::real());
        let hooks = Arc::new(LoginHooks::new());
        hooks.start_programs_by(spawner.clone());
        let check = |argv: &[&str]| {
            let program = argv.iter().map(|word| (*word).to_owned()).collect();
            LoginCheck {
                hook: LoginHook::Exec(ExecHook { program }),
                seconds: Some(30),
                accounts: None,
            }
        };
        let ask = |argv: &[&str], site: u128| {
            let (hooks, check, peer) = (hooks.clone(), check(argv), peer(site));
            async move {
                let password = Secret::new(b"x");
                let login = PasswordLogin { user: "anna", password: &password, peer: &peer };
                hooks.ask(&check, &login, Timestamp::default()).await
            }
        };
        let mut waiting = JoinSet::new();
        for site in 1..=3 {
            for _ in 0..=HOOKS_WAITING_OF_A_SITE {
                waiting.spawn(ask(&["/bin/sleep", "600"], site));
            }
        }
        // One runtime thread: each of them has asked now, and the last of each site is refused.
        for _ in 1..=3 {
            assert_eq!(waiting.join_next().await.unwrap().unwrap(), HookDecision::Busy);
        }
        let said = ask(&["/bin/echo", r#"{"allow": true}"#], 4).await;
        assert_eq!(said, HookDecision::Allowed("anna".to_owned()));
        let full = hooks.waiting.lock().count;
        assert_eq!(full, 3 * HOOKS_WAITING_OF_A_SITE);
        waiting.shutdown().await;
        assert!(hooks.waiting.lock().sites.is_empty(), "a login that left still counts");
        spawner.stop().await;
    }

    #[test]
    fn a_service_in_clear_text_is_looked_for_on_this_machine_only() {
        let asked = |text: &str| -> Vec<String> {
            urls(&text.to_owned().try_into().unwrap()).into_iter().map(String::from).collect()
        };
        let here = ["http://127.0.0.1:8700/check", "http://[::1]:8700/check"];
        assert_eq!(asked("http://localhost:8700/check"), here);
        for as_it_is in
            ["http://127.0.0.2:1/", "https://localhost:443/", "https://login.example:443/"]
        {
            assert_eq!(asked(as_it_is), [as_it_is]);
        }
    }
}
