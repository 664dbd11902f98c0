//! Share links: accounts of type `link`, whose secrets are made here and shown once. Administrators
//! make them for any account; an account makes, lists and ends its own.

use std::collections::HashMap;
use std::time::Duration;

use entrepot_auth::Directory;
use entrepot_crypto::{BearerKind, bearer_token, random_text};
use entrepot_db::LinkUses;
use entrepot_nouns::http::HttpService;
use entrepot_nouns::key::TOKEN_HASH;
use entrepot_nouns::{
    Account, AccountId, AccountType, AnyNoun, Key, KeyType, Kind, LinkTerms, Listener, Name,
    Protocol, Rights, Site, SiteId, Stored, Timestamp, VPath,
};
use serde_json::json;

use crate::actor::Actor;
use crate::admin::Admin;
use crate::credentials::ShownOnce;
use crate::document::{Given, Source};
use crate::error::{AdminError, Result};
use crate::limits::{LINK_DAYS, LINK_NAME_LETTERS, LINK_PEOPLE, LINKS_OF_ACCOUNT, MAIL_BYTES};
use crate::link_order::{LinkAddress, LinkOrder, LinkRow, LinkState, LinkUsesRow};
use crate::plan::{Others, Wanted};
use crate::reader::{NounKey, State};
use crate::request::{Request, Response};
use crate::secrets::Absent;

const DAY: Duration = Duration::from_secs(86_400);

/// A secret that was made, and its key.
struct MadeSecret {
    key: Key,
    person: Option<String>,
    text: String,
}

impl Admin {
    /// Answers an account that asks about its own links, and about nothing else.
    pub(crate) async fn own_links(&self, actor: &Actor, request: Request) -> Result<Response> {
        let own = actor.account().ok_or_else(|| not_allowed(actor))?;
        match request {
            Request::CreateLink { link } if link.owner.as_ref().is_none_or(|it| *it == own) => {
                let link = LinkOrder { owner: Some(own), ..*link };
                self.create_link(actor, link).await
            }
            Request::Links { owner } if owner.as_ref().is_none_or(|it| *it == own) => {
                self.list_links(actor, Some(&own)).await
            }
            Request::Link { name } => self.show_link(actor, &name).await,
            Request::RevokeLink { name } => self.revoke_link(actor, name).await,
            Request::DeleteLink { name } => self.delete_link(actor, name).await,
            _ => Err(not_allowed(actor)),
        }
    }

    /// Makes a link. The answer alone has its secrets.
    pub(crate) async fn create_link(&self, actor: &Actor, order: LinkOrder) -> Result<Response> {
        let now = self.parts().env.now();
        let name = order.name.clone().unwrap_or_else(|| self.made_up_link());
        let refused = |field: &str, problem: String| refused_field(&name, field, problem);
        let end = order.expires_at.unwrap_or_else(|| now.plus(DAY * LINK_DAYS));
        if end <= now {
            return Err(refused("expires_at", "it lies in the past".to_owned()));
        }
        let Some(owner) = order.owner.clone() else {
            return Err(refused("owner", "name the account whose files are shared".to_owned()));
        };
        check_people(&name, &order.people)?;
        let password = order.password.as_ref().map(|given| given.secret());
        let terms = LinkTerms {
            owner,
            folder: order.folder,
            files: order.files,
            allows: order.allows,
            downloads: order.downloads,
            uploads: order.uploads,
            file_size_bytes: order.file_size_bytes,
            upload_bytes: order.upload_bytes,
            title: order.title,
            made_by: actor.name.clone(),
        };
        self.check_owner(actor, &name, &terms).await?;
        let mut account = Account::new(name.clone(), AccountType::Link);
        account.link = Some(terms);
        account.password = password;
        account.expires_at = Some(end);
        account.note = order.note;
        let secrets = self.link_secrets(&name, order.people)?;
        let mut nouns: Vec<AnyNoun> = vec![account.into()];
        nouns.extend(secrets.iter().map(|made| AnyNoun::from(made.key.clone())));
        let subject = NounKey::new(Kind::Account, &name);
        self.commit(actor, Some(&subject), |state| new_nouns(state, &nouns)).await?;
        let base = self.base_address(actor.site).await?;
        let address = |made: MadeSecret| LinkAddress {
            person: made.person,
            address: ShownOnce::new(format!("{base}/s/{}", made.text)),
        };
        let Response::Link { link } = self.show_link(actor, &name).await? else {
            let problem = "it was stored and not found".to_owned();
            return Err(AdminError::Internal { what: "making a link", problem });
        };
        let addresses = secrets.into_iter().map(address).collect();
        Ok(Response::MadeLink { link, addresses })
    }

    /// One secret for everybody, or one for each person.
    fn link_secrets(&self, name: &Name, people: Vec<String>) -> Result<Vec<MadeSecret>> {
        let people: Vec<Option<String>> = people.into_iter().map(Some).collect();
        let people = if people.is_empty() { vec![None] } else { people };
        people.into_iter().map(|person| self.link_secret(name, person)).collect()
    }

    fn link_secret(&self, link: &Name, person: Option<String>) -> Result<MadeSecret> {
        let secret = bearer_token::make(&self.parts().env, BearerKind::Link);
        let failed = |problem: String| AdminError::Internal { what: "making a link", problem };
        let hash = bearer_token::hash(BearerKind::Link, &secret);
        let hash = hash.map_err(|error| failed(error.to_string()))?;
        let random = random_text(&self.parts().env, LINK_NAME_LETTERS).to_ascii_lowercase();
        let name = format!("{link}-{random}").parse();
        let name =
            name.map_err(|_| refused_field(link, "name", "it is too long for a link".to_owned()))?;
        let mut key = Key::new(name, KeyType::Link, format!("{TOKEN_HASH}{hash}"));
        key.account = Some(link.clone());
        key.note = person.clone().unwrap_or_default();
        let text = String::from_utf8_lossy(secret.expose()).into_owned();
        Ok(MadeSecret { key, person, text })
    }

    /// Refuses links that would open nothing from the start, and those that would give more than
    /// the actor has itself.
    async fn check_owner(&self, actor: &Actor, link: &Name, terms: &LinkTerms) -> Result<()> {
        let parts = self.parts();
        // A directory of its own: that of the node may be some milliseconds old.
        let directory = Directory::new(parts.db.clone(), parts.env.clone(), parts.master.clone());
        let Some(owner) = directory.resolve(actor.site, &terms.owner).await? else {
            return Err(self.missing_noun(actor, Kind::Account, &terms.owner).await);
        };
        let holds = |path: &VPath| terms.folder.below(path).is_some();
        let mount = owner.mounts.iter().find(|mount| holds(&mount.path));
        let below = owner.mounts.iter().find(|mount| mount.path.below(&terms.folder).is_some());
        let has = mount.or(below).map_or(Rights::none(), |mount| mount.rights);
        let most = actor.link_rights().unwrap_or(Rights::all());
        let wanted = terms.rights();
        if wanted.and(has).and(most) != wanted {
            let problem = format!(
                "account '{}' may not do there what the link shall allow; a link gives no more \
                 than its owner has",
                terms.owner
            );
            return Err(refused_field(link, "link.folder", problem));
        }
        let own = self.links_of(actor.site, &terms.owner, LINKS_OF_ACCOUNT).await?;
        if own.len() >= LINKS_OF_ACCOUNT as usize {
            let problem = format!(
                "account '{}' has {LINKS_OF_ACCOUNT} links; delete those that ended: \
                 'entrepot link delete NAME'",
                terms.owner
            );
            return Err(AdminError::Refused { problem });
        }
        Ok(())
    }

    /// A name that no account has, as far as chance goes.
    fn made_up_link(&self) -> Name {
        let random = random_text(&self.parts().env, LINK_NAME_LETTERS).to_ascii_lowercase();
        // The invariant: letters, digits and a hyphen are a name.
        format!("link-{random}").parse().expect("a made up name is a name")
    }

    /// What stands before `/s/`: the first listener that serves links to the world; empty if there
    /// is none.
    async fn base_address(&self, site: SiteId) -> Result<String> {
        let db = &self.parts().db;
        let listeners: Vec<Stored<Listener>> = db.list(site).await?;
        let serves = |listener: &Listener| {
            let options = listener.http.clone().unwrap_or_default();
            listener.enabled
                && listener.protocol == Protocol::Https
                && options.serve.contains(&HttpService::Links)
        };
        let found = listeners.into_iter().map(|stored| stored.noun).find(serves);
        let Some(listener) = found else { return Ok(String::new()) };
        let sites: Vec<Stored<Site>> = db.sites().await?;
        let own = sites.into_iter().find(|stored| SiteId(stored.id) == site);
        let host = own.and_then(|stored| stored.noun.hosts.first().map(ToString::to_string));
        let ip = listener.address.ip();
        let host = host.or_else(|| {
            let bracketed = if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() };
            (!ip.is_unspecified()).then_some(bracketed)
        });
        let Some(host) = host else { return Ok(String::new()) };
        Ok(match listener.address.port() {
            0 => String::new(),
            443 => format!("https://{host}"),
            port => format!("https://{host}:{port}"),
        })
    }

    /// The links of the site, or of one of its accounts.
    pub(crate) async fn list_links(&self, actor: &Actor, owner: Option<&Name>) -> Result<Response> {
        let db = &self.parts().db;
        let accounts = match owner {
            Some(owner) => self.links_of(actor.site, owner, LINKS_OF_ACCOUNT).await?,
            None => db.list::<Account>(actor.site).await?,
        };
        let uses: HashMap<AccountId, LinkUses> =
            db.link_uses_of(actor.site).await?.into_iter().collect();
        let mut links = Vec::new();
        for stored in accounts.into_iter().filter(|stored| stored.noun.link.is_some()) {
            let used = uses.get(&AccountId(stored.id)).copied().unwrap_or_default();
            links.extend(self.link_row(stored, used).await?);
        }
        Ok(Response::Links { links })
    }

    /// Links whose owner is this account.
    async fn links_of(
        &self,
        site: SiteId,
        owner: &Name,
        most: u32,
    ) -> Result<Vec<Stored<Account>>> {
        let db = &self.parts().db;
        let mut links = Vec::new();
        for user in db.users(site, Kind::Account, owner, most).await? {
            if user.kind != Kind::Account {
                continue;
            }
            let found = db.find::<Account>(site, &user.name).await?;
            let is_own = |stored: &Stored<Account>| {
                stored.noun.link.as_ref().is_some_and(|terms| terms.owner == *owner)
            };
            links.extend(found.filter(is_own));
        }
        Ok(links)
    }

    /// One link with its uses and without its secrets.
    pub(crate) async fn show_link(&self, actor: &Actor, name: &Name) -> Result<Response> {
        let stored = self.stored_link(actor, name).await?;
        let used = self.parts().db.link_uses(AccountId(stored.id)).await?;
        let link = self.link_row(stored, used).await?;
        Ok(Response::Link { link: Box::new(link.ok_or_else(|| no_link(name))?) })
    }

    /// The account of a link that the actor may see.
    async fn stored_link(&self, actor: &Actor, name: &Name) -> Result<Stored<Account>> {
        let found = self.parts().db.find::<Account>(actor.site, name).await?;
        let may_see = |stored: &Stored<Account>| {
            let own = actor.link_rights().is_some().then(|| actor.account()).flatten();
            let terms = stored.noun.link.as_ref();
            terms.is_some_and(|terms| own.is_none_or(|own| own == terms.owner))
        };
        found.filter(may_see).ok_or_else(|| no_link(name))
    }

    async fn link_row(&self, stored: Stored<Account>, used: LinkUses) -> Result<Option<LinkRow>> {
        let keys = self.parts().db.keys_of(stored.site, &stored.noun.name).await?;
        let people = keys.into_iter().map(|key| key.noun.note).filter(|mail| !mail.is_empty());
        let people: Vec<String> = people.collect();
        let state = state_of(&stored.noun, used, self.parts().env.now());
        let Account { name, link, expires_at, password_hash, note, .. } = stored.noun;
        let Some(terms) = link else { return Ok(None) };
        let LinkUses { downloads, uploads, upload_bytes, used_at } = used;
        Ok(Some(LinkRow {
            name,
            state,
            terms,
            expires_at,
            has_password: password_hash.is_some(),
            people,
            used: LinkUsesRow { downloads, uploads, upload_bytes, at: used_at },
            note,
        }))
    }

    /// Lets a link open nothing any more. It stays, so that the audit log can name who still uses
    /// it.
    pub(crate) async fn revoke_link(&self, actor: &Actor, name: Name) -> Result<Response> {
        self.stored_link(actor, &name).await?;
        let (kind, patch) = (Kind::Account, json!({ "enabled": false }));
        let change = Request::Change { kind, name: name.clone(), patch, if_match: Vec::new() };
        self.change_noun(actor, change, None).await?;
        self.show_link(actor, &name).await
    }

    /// Deletes a link with its secrets.
    pub(crate) async fn delete_link(&self, actor: &Actor, name: Name) -> Result<Response> {
        let stored = self.stored_link(actor, &name).await?;
        let keys = self.parts().db.keys_of(stored.site, &name).await?;
        let mut gone: Vec<NounKey> =
            keys.iter().map(|key| NounKey::new(Kind::Key, &key.noun.name)).collect();
        gone.push(NounKey::new(Kind::Account, &name));
        let wanted = |_: &State| {
            Ok(Wanted {
                nouns: Vec::new(),
                gone: gone.clone(),
                others: Others::Stay,
                absent: Absent::Keeps,
                documents: Vec::new(),
            })
        };
        self.commit(actor, None, wanted).await?;
        Ok(Response::Done)
    }
}

/// Nouns that must not be there yet.
fn new_nouns(state: &State, nouns: &[AnyNoun]) -> Result<Wanted> {
    for noun in nouns {
        if state.contains_key(&NounKey::of(noun)) {
            let (kind, name) = (noun.kind(), noun.name().to_string());
            return Err(AdminError::Exists { kind, name });
        }
    }
    let given = |noun: &AnyNoun| Given { noun: noun.clone(), source: Source::Request };
    Ok(Wanted {
        nouns: nouns.iter().map(given).collect(),
        gone: Vec::new(),
        others: Others::Stay,
        absent: Absent::Removes,
        documents: Vec::new(),
    })
}

fn state_of(account: &Account, used: LinkUses, now: Timestamp) -> LinkState {
    let is_used_up = |terms: &LinkTerms| {
        let spent = |most: Option<u32>, used: u64| most.is_some_and(|most| used >= u64::from(most));
        let no_downloads = !terms.rights().has(entrepot_nouns::Right::Read)
            || spent(terms.downloads, used.downloads);
        let no_uploads = !terms.rights().has(entrepot_nouns::Right::Write)
            || spent(terms.uploads, used.uploads)
            || terms.upload_bytes.is_some_and(|most| used.upload_bytes >= most);
        no_downloads && no_uploads
    };
    if !account.enabled {
        LinkState::Revoked
    } else if account.expires_at.is_some_and(|end| end <= now) {
        LinkState::Expired
    } else if account.link.as_ref().is_some_and(is_used_up) {
        LinkState::Exhausted
    } else {
        LinkState::Active
    }
}

/// Addresses that look like those of mail, each once.
fn check_people(link: &Name, people: &[String]) -> Result<()> {
    let refused = |problem: String| Err(refused_field(link, "people", problem));
    if people.len() > LINK_PEOPLE {
        return refused(format!("a link is for at most {LINK_PEOPLE} people"));
    }
    for (at, mail) in people.iter().enumerate() {
        let is_mail = mail.len() <= MAIL_BYTES
            && !mail.contains(|letter: char| letter.is_control() || letter.is_whitespace())
            && mail.split_once('@').is_some_and(|(who, host)| !who.is_empty() && !host.is_empty());
        if !is_mail {
            return refused(format!("'{mail}' is no mail address"));
        }
        if people.iter().skip(at + 1).any(|other| other.eq_ignore_ascii_case(mail)) {
            return refused(format!("'{mail}' stands twice, remove one"));
        }
    }
    Ok(())
}

fn not_allowed(actor: &Actor) -> AdminError {
    AdminError::NotAdministrator { actor: actor.name.clone() }
}

fn no_link(name: &Name) -> AdminError {
    AdminError::NotFound { what: "link", name: name.to_string(), hint: String::new() }
}

fn refused_field(link: &Name, field: &str, problem: String) -> AdminError {
    AdminError::Field {
        place: String::new(),
        kind: Kind::Account,
        name: link.to_string(),
        field: field.to_owned(),
        problem,
    }
}
