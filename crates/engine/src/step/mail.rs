//! `mail`: hands a message over to a server of mail.
//!
//! A server may have taken a message whose answer did not come, so a message comes at least once.
//! Every attempt has the same Message-ID, by which receivers may know one that comes twice, and
//! none is addressed to recipients for whom an earlier one was taken.

use std::time::Duration;

use async_trait::async_trait;
use entrepot_net::dial::DialPolicy;
use entrepot_net::smtp::{self, RefusedRecipient, SmtpLogin, SmtpMessage, SmtpServer};
use entrepot_net::tls::ServerTrust;
use entrepot_nouns::endpoint::{MailTarget, MailTls};
use entrepot_nouns::rule::{MailAttachment, MailSpec};
use entrepot_nouns::{EndpointTarget, Name, Secret};
use lettre::message::header::ContentType;
use lettre::message::{Attachment, Mailbox, MessageBuilder, MultiPart, SinglePart, header};
use serde_json::{Value as Json, json};

use super::source::Input;
use super::{Step, StepError, http};
use crate::http_request::markup;
use crate::ids::{self, StepKey};
use crate::limits::MAIL_ATTACHED_BYTES;
use crate::pattern::{self, PatternError, Values};
use crate::pause::Pause;
use crate::run::Run;

/// The field of what the step leaves that names those for whom the message was taken.
const ACCEPTED: &str = "accepted";

#[async_trait]
impl Step for MailSpec {
    async fn run(&self, run: &mut Run<'_>, key: &StepKey) -> Result<(), StepError> {
        let letter = Letter::of(self, run.values()).map_err(|error| not_made(&error))?;
        let stored = run.endpoint(&self.endpoint).await?;
        let EndpointTarget::Mail(target) = &stored.noun.target else {
            return Err(http::other_kind(&self.endpoint, stored.noun.target.as_str(), "mail"));
        };
        let mut accepted = accepted(run);
        let mut to: Vec<String> = letter.to.iter().map(|to| to.email.to_string()).collect();
        to.retain(|address| !accepted.contains(address));
        if to.is_empty() {
            run.result = Some(json!({ ACCEPTED: accepted }));
            return Ok(());
        }
        let attached = match self.attach {
            MailAttachment::None => None,
            MailAttachment::File => Some(content(run).await?),
        };
        let id = ids::sent_by_step(run.job.id, key).to_string();
        let content = letter.bytes(target, &id, run, attached)?;
        let secret = run.hold.waiting(run.shared.file_access.secret(&stored)).await??;
        let server = server(target, secret);
        run.hold.fence().await?;
        let message = SmtpMessage { from: target.sender(), to: &to, content: &content };
        let sent = run.hold.waiting(smtp::submit(&server, &message)).await?;
        let refused = sent.map_err(|error| {
            let text = format!("endpoint '{}': {error}", self.endpoint);
            run.result = Some(json!({ ACCEPTED: accepted }));
            if error.is_temporary() {
                StepError::transient(error.code(), text)
            } else {
                StepError::permanent(error.code(), text)
            }
        })?;
        run.reached(Pause::Published)?;
        to.retain(|address| refused.iter().all(|one| one.address != *address));
        accepted.append(&mut to);
        run.result = Some(json!({ ACCEPTED: accepted, "id": format!("<{id}>") }));
        refusal(&self.endpoint, &refused).map_or(Ok(()), Err)
    }
}

/// For whom an earlier attempt was taken.
fn accepted(run: &Run<'_>) -> Vec<String> {
    let left = run.left_by_failed().and_then(|left| left.get(ACCEPTED)?.as_array());
    let names = left.into_iter().flatten().filter_map(Json::as_str);
    names.map(str::to_owned).collect()
}

/// What it means that some recipients were refused: they are tried again if that may help for any.
fn refusal(endpoint: &Name, refused: &[RefusedRecipient]) -> Option<StepError> {
    let told: Vec<String> = refused
        .iter()
        .map(|one| {
            format!("'{}' was refused with {}: {}", one.address, one.reply.code, one.reply.text)
        })
        .collect();
    let text = format!("endpoint '{endpoint}': {}", told.join("; "));
    let temporary = refused.iter().any(|one| one.reply.is_temporary());
    (!refused.is_empty()).then(|| {
        if temporary {
            StepError::transient("EP0895", text)
        } else {
            StepError::permanent("EP0894", text)
        }
    })
}

fn not_made(error: &PatternError) -> StepError {
    StepError::permanent("EP0890", error.to_string())
}

fn server(target: &MailTarget, password: Option<Secret>) -> SmtpServer {
    let login = target.user.clone().zip(password);
    SmtpServer {
        host: target.host.clone(),
        port: target.port(),
        tls: match target.tls {
            MailTls::StartTls => smtp::SmtpTls::StartTls,
            MailTls::Implicit => smtp::SmtpTls::Implicit,
            MailTls::Off => smtp::SmtpTls::Off,
        },
        trust: match &target.authorities {
            Some(pem) => ServerTrust::Authorities(pem.as_bytes().to_vec()),
            None => ServerTrust::System,
        },
        dial: DialPolicy { allow_private: target.allow_private },
        login: login.map(|(user, password)| SmtpLogin { user, password }),
    }
}

/// A file that goes along.
struct Attached {
    name: String,
    bytes: Vec<u8>,
}

/// The file that the steps work on, whole.
async fn content(run: &mut Run<'_>) -> Result<Attached, StepError> {
    let input = Input::open(run).await?;
    run.reached(Pause::SourceOpen)?;
    let (name, size) = (input.name().to_owned(), input.source.size());
    if size > MAIL_ATTACHED_BYTES {
        let text = format!(
            "'{name}' has {size} bytes, and at most {MAIL_ATTACHED_BYTES} are attached: write \
             where it is instead"
        );
        return Err(StepError::permanent("EP0896", text));
    }
    let mut reading = input.read();
    let mut bytes = Vec::new();
    while let Some(block) = run.hold.waiting(reading.next()).await?? {
        if reading.position() > size {
            break;
        }
        bytes.extend_from_slice(&block);
    }
    if reading.position() != size {
        return Err(input.changed());
    }
    reading.end()?;
    Ok(Attached { name, bytes })
}

/// A message as its rule asks for it, before it is addressed to a server.
pub(crate) struct Letter {
    to: Vec<Mailbox>,
    subject: String,
    text: String,
    html: Option<String>,
}

impl Letter {
    /// The message that `spec` asks for.
    pub(crate) fn of(spec: &MailSpec, values: Values<'_>) -> Result<Letter, PatternError> {
        let mailbox = |pattern: &String| {
            let text = pattern::expand(pattern, values)?;
            text.parse::<Mailbox>().map_err(|error| {
                PatternError::NotSent(format!("mail to '{text}'"), error.to_string())
            })
        };
        let marked = |word: &str| Ok(markup(&pattern::value(word, values)?));
        let subject = pattern::expand(&spec.subject, values)?;
        let html = spec.html.as_ref().map(|html| pattern::expand_with(html, marked));
        Ok(Letter {
            to: spec.to.iter().map(mailbox).collect::<Result<_, _>>()?,
            subject: subject.chars().map(|c| if c.is_control() { ' ' } else { c }).collect(),
            text: pattern::expand(&spec.text, values)?,
            html: html.transpose()?,
        })
    }

    /// Head and body. Each attempt makes the same of it.
    fn bytes(
        self,
        target: &MailTarget,
        id: &str,
        run: &Run<'_>,
        attached: Option<Attached>,
    ) -> Result<Vec<u8>, StepError> {
        let wrong = |what: &str, why: &dyn std::fmt::Display| {
            StepError::permanent("EP0890", format!("{what} cannot be sent: {why}"))
        };
        let from: Mailbox = target.from.parse().map_err(|error| wrong(&target.from, &error))?;
        let host = from.email.domain().to_owned();
        let created = u64::try_from(run.job.created_at.seconds()).unwrap_or_default();
        let mut head = MessageBuilder::new()
            .from(from)
            .subject(self.subject)
            .date(std::time::UNIX_EPOCH + Duration::from_secs(created))
            .message_id(Some(format!("<{id}@{host}>")))
            .header(AutoSubmitted);
        for to in self.to {
            head = head.to(to);
        }
        let text = SinglePart::builder().header(ContentType::TEXT_PLAIN).body(self.text);
        let html =
            self.html.map(|html| SinglePart::builder().header(ContentType::TEXT_HTML).body(html));
        // The boundaries too are those of each attempt.
        let (inner, outer) = (format!("a-{id}"), format!("m-{id}"));
        let alternative = || MultiPart::alternative().boundary(inner);
        let made = match (html, attached) {
            (None, None) => head.singlepart(text),
            (Some(html), None) => head.multipart(alternative().singlepart(text).singlepart(html)),
            (html, Some(file)) => {
                let name = file.name.chars().map(|c| if c.is_control() { '_' } else { c });
                let octets = ContentType::parse("application/octet-stream");
                let octets = octets.map_err(|error| wrong("the attachment", &error))?;
                let part = Attachment::new(name.collect()).body(file.bytes, octets);
                let mixed = MultiPart::mixed().boundary(outer);
                let mixed = match html {
                    None => mixed.singlepart(text),
                    Some(html) => mixed.multipart(alternative().singlepart(text).singlepart(html)),
                };
                head.multipart(mixed.singlepart(part))
            }
        };
        made.map(|message| message.formatted()).map_err(|error| wrong("the message", &error))
    }
}

/// Says that no person wrote it, so that no machine answers (RFC 3834 §5).
#[derive(Clone)]
struct AutoSubmitted;

impl header::Header for AutoSubmitted {
    fn name() -> header::HeaderName {
        header::HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(AutoSubmitted)
    }

    fn display(&self) -> header::HeaderValue {
        header::HeaderValue::new(Self::name(), "auto-generated".to_owned())
    }
}
