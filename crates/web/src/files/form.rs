//! POST of a form: files into a directory, for browsers without a script. One part after the other
//! is written as it comes.

use axum::Json;
use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use bytes::{Bytes, BytesMut};
use entrepot_nouns::{EventId, VPath};
use entrepot_vfs::{Create, CreateIntent, IncomingCommand, Upload, Uploaded, VfsError};
use futures_util::FutureExt as _;
use multer::{Constraints, Field, Multipart, SizeLimit};
use serde_json::{Value, json};

use super::conflict::Conflict;
use super::file_request::FileRequest;
use super::{path, trash, versions};
use crate::accept::Wanted;
use crate::answers::redirect;
use crate::hooks::{CommandRules, to_its_end, writing};
use crate::limits::{BATCH_BYTES, FORM_FIELD_BYTES, FORM_FILES};
use crate::login::{FormCheck, SignedIn};
use crate::problem::Problem;
use crate::upload_body::UploadBody;

/// What a form asks for, beside its files.
struct Form {
    signed_in: SignedIn,
    rules: CommandRules,
    check: FormCheck,
    directory: VPath,
    intent: CreateIntent,
    /// What happens when the name of what is put back is taken.
    conflict: Conflict,
    /// What was made, as clients see it.
    made: Vec<Value>,
}

/// Takes the files of a form.
pub(super) async fn upload(
    asked: FileRequest,
    check: FormCheck,
    body: Body,
) -> Result<Response, Problem> {
    let FileRequest { context, signed_in, target, fields, query, .. } = asked;
    let wanted = Wanted::of(&fields);
    let kind = fields.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let boundary = multer::parse_boundary(kind).map_err(|_| {
        Problem::malformed("POST takes a form (multipart/form-data), ?mkdir or ?move=PATH")
    })?;
    let _running = context.connection.meter.running();
    let patience = context.connection.config.body_time();
    let body = UploadBody::new(body, signed_in.clone(), patience);
    let parts = Multipart::with_constraints(body.into_stream(), boundary, constraints());
    let intent = CreateIntent::Exclusive;
    let directory = target.path;
    let conflict = Conflict::Fail;
    let (rules, made) = (signed_in.rules(&context), Vec::new());
    let is_told = rules.look();
    let form = Form { signed_in, rules, check, directory, intent, conflict, made };
    let form = if is_told {
        to_its_end(Box::pin(form.take_all(parts))).await?
    } else {
        form.take_all(parts).await?
    };
    if wanted == Wanted::Html {
        let folder = trash::folder_address(&form.directory);
        let there = match (&query.trash, &query.versions) {
            (Some(_), _) => format!("{folder}?trash"),
            (None, Some(_)) => versions::page_address(&form.directory),
            (None, None) => folder,
        };
        return Ok(redirect(StatusCode::SEE_OTHER, &there));
    }
    Ok((StatusCode::CREATED, Json(json!({"made": form.made}))).into_response())
}

fn constraints() -> Constraints {
    let fields = ["csrf", "replace", "mkdir", "delete", "keep-both", "restore", "purge"];
    let limits = fields
        .into_iter()
        .chain(["restore-version", "delete-version"])
        .fold(SizeLimit::new(), |limits, name| limits.for_field(name, FORM_FIELD_BYTES));
    Constraints::new().size_limit(limits)
}

fn unreadable(error: multer::Error) -> Problem {
    Problem::malformed(format!("the form cannot be read or broke off: {error}"))
}

impl Form {
    async fn take_all(mut self, mut parts: Multipart<'static>) -> Result<Form, Problem> {
        while let Some(part) = parts.next_field().await.map_err(unreadable)? {
            self.take(part).await?;
        }
        self.check.must_be_passed()?;
        Ok(self)
    }

    async fn take(&mut self, part: Field<'static>) -> Result<(), Problem> {
        if part.name() == Some("csrf") {
            self.check.give(part.text().await.map_err(unreadable)?.as_bytes());
            return Ok(());
        }
        self.check.must_be_passed()?;
        match part.name() {
            Some("delete") => {
                let encoded = part.text().await.map_err(unreadable)?;
                self.remove(&encoded).await
            }
            Some("keep-both") => {
                if part.text().await.map_err(unreadable)? == "true" {
                    self.conflict = Conflict::KeepBoth;
                }
                Ok(())
            }
            Some("restore") => {
                let id = trash::id_of(&part.text().await.map_err(unreadable)?)?;
                let vfs = self.signed_in.vfs();
                let command = self.command_on_trash("write", id).await?;
                let putting = trash::put_back(vfs, id, self.conflict);
                let path = self.between(command, putting).await?;
                self.made.push(json!({"path": path, "type": "restored"}));
                Ok(())
            }
            Some("purge") => self.purge(&part.text().await.map_err(unreadable)?).await,
            Some("restore-version") => {
                let id = trash::id_of(&part.text().await.map_err(unreadable)?)?;
                // The address of the form is that of a file.
                let (vfs, path) = (self.signed_in.vfs(), &self.directory);
                let command = || writing("write", "POST", path);
                self.rules.between(command, versions::put_back(vfs, path, id)).await?;
                self.made.push(json!({"path": path, "type": "restored"}));
                Ok(())
            }
            Some("delete-version") => {
                let id = trash::id_of(&part.text().await.map_err(unreadable)?)?;
                let (vfs, path) = (self.signed_in.vfs(), &self.directory);
                let removing =
                    async { vfs.remove_version(path, id).await.map_err(versions::refused) };
                self.rules.between(|| writing("remove", "POST", path), removing).await
            }
            Some("replace") => {
                let value = part.text().await.map_err(unreadable)?;
                if value == "true" {
                    self.intent = CreateIntent::New;
                }
                Ok(())
            }
            Some("mkdir") => {
                let name = part.text().await.map_err(unreadable)?;
                let path = self.path_of(&name)?;
                let making = async { Ok(self.signed_in.vfs().make_directory(&path).await?) };
                self.rules.between(|| writing("mkdir", "POST", &path), making).await?;
                self.made.push(json!({"path": path, "type": "directory"}));
                Ok(())
            }
            _ => self.take_file(part).await,
        }
    }

    /// Removes a file or directory; its name is encoded as in an address.
    async fn remove(&mut self, encoded: &str) -> Result<(), Problem> {
        let decoded = path::decode(&format!("/{encoded}"))?;
        let name = decoded.path.file_name().unwrap_or_default();
        let (vfs, path) = (self.signed_in.vfs(), self.path_of(name)?);
        let removing = async {
            let removed = match vfs.remove(&path).await {
                Err(VfsError::IsDirectory) => trash::remove_directory(vfs, &path).await.map(drop),
                removed => removed,
            };
            removed.map_err(Problem::from)
        };
        let removed = self.rules.between(|| writing("remove", "POST", &path), removing).await;
        removed.map_err(|problem| named(name, problem))
    }

    /// Deletes for good what was removed.
    async fn purge(&self, what: &str) -> Result<(), Problem> {
        let vfs = self.signed_in.vfs();
        if what == "all" {
            let folder = &self.directory;
            let emptying = async { Ok(vfs.empty_trash(folder).await.map(drop)?) };
            return self.rules.between(|| writing("remove", "POST", folder), emptying).await;
        }
        let id = trash::id_of(what)?;
        let command = self.command_on_trash("remove", id).await?;
        let purging = async { vfs.purge(id).await.map_err(trash::refused) };
        self.between(command, purging).await
    }

    /// A command about something in the trash: about the path that it had. `None`: no rule looks
    /// at it.
    async fn command_on_trash(
        &self,
        verb: &'static str,
        id: EventId,
    ) -> Result<Option<IncomingCommand>, Problem> {
        if !self.rules.look() {
            return Ok(None);
        }
        let path = self.signed_in.vfs().trashed_path(id).await.map_err(trash::refused)?;
        Ok(Some(writing(verb, "POST", &path)))
    }

    /// Does something between the rules on this command; `None`: no rule looks at it.
    async fn between<T>(
        &self,
        command: Option<IncomingCommand>,
        work: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        match command {
            Some(command) => self.rules.between(|| command, work).await,
            None => work.await,
        }
    }

    async fn take_file(&mut self, mut part: Field<'static>) -> Result<(), Problem> {
        // A form whose person has chosen no file has a part without a name.
        let Some(name) = part.file_name().filter(|name| !name.is_empty()) else { return Ok(()) };
        if self.made.len() >= FORM_FILES {
            let why =
                format!("a form has at most {FORM_FILES} files; send the rest in another one");
            return Err(Problem::malformed(why));
        }
        // Some browsers send the whole path of the file on the person's machine.
        let name = name.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
        let path = self.path_of(&name)?;
        let command = self.rules.before(|| writing("write", "POST", &path)).await;
        let command = command.map_err(|problem| named(&name, problem))?;
        let stored = self.store(&path, &name, &mut part).await;
        let uploaded = self.rules.after_upload(command, stored, StatusCode::CREATED).await?;
        self.made.push(json!({"path": path, "type": "file", "size": uploaded.size}));
        Ok(())
    }

    async fn store(
        &self,
        path: &VPath,
        name: &str,
        part: &mut Field<'static>,
    ) -> Result<Uploaded, Problem> {
        let how = Create { intent: self.intent, expected_size: None, append: false };
        let refused = |error: VfsError| named(name, error.into());
        let mut upload = self.signed_in.vfs().create(path, how).await.map_err(refused)?;
        match write(&mut upload, part).await {
            Ok(()) => {}
            Err(Stop::Refused(error)) => {
                upload.abort().await;
                return Err(refused(error));
            }
            Err(Stop::Broken(problem)) => {
                upload.interrupt(&problem.detail).await;
                return Err(problem);
            }
        }
        upload.finish().await.map_err(refused)
    }

    fn path_of(&self, name: &str) -> Result<VPath, Problem> {
        self.directory.join(name).map_err(|error| {
            Problem::new(StatusCode::BAD_REQUEST, "EP1004", format!("'{name}': {error}"))
        })
    }
}

/// Says of which file a problem is.
fn named(name: &str, problem: Problem) -> Problem {
    Problem { detail: format!("'{name}': {}", problem.detail), ..problem }
}

/// Why a file does not go on.
enum Stop {
    Refused(VfsError),
    Broken(Problem),
}

async fn write(upload: &mut Upload, part: &mut Field<'static>) -> Result<(), Stop> {
    let (mut batch, mut at) = (BytesMut::new(), 0);
    loop {
        let chunk = part.chunk().await.map_err(|error| Stop::Broken(unreadable(error)))?;
        let is_last = chunk.is_none();
        batch.extend_from_slice(&chunk.unwrap_or_default());
        if !batch.is_empty() && (is_last || batch.len() >= BATCH_BYTES) {
            let count = batch.len() as u64;
            if !upload.try_write_at(at, &batch).map_err(Stop::Refused)? {
                let bytes: Bytes = batch.split().freeze();
                upload.write_at(at, bytes).await.map_err(Stop::Refused)?;
            }
            batch.clear();
            at += count;
        }
        if is_last {
            return Ok(());
        }
    }
}

/// For fuzzing: a form in short pieces gives no more than it has.
pub(crate) fn fuzz(data: &[u8]) {
    let pieces = data.chunks(7).map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece)));
    let pieces: Vec<_> = pieces.collect();
    let mut parts =
        Multipart::with_constraints(futures_util::stream::iter(pieces), "b", constraints());
    let reading = async {
        let mut bytes = 0;
        while let Ok(Some(mut part)) = parts.next_field().await {
            // Both are decoded, and may be longer than they were sent.
            let _ = (part.name().map(str::len), part.file_name().map(str::len));
            while let Ok(Some(chunk)) = part.chunk().await {
                bytes += chunk.len();
            }
        }
        bytes
    };
    // All of it is there: nothing is waited for.
    if let Some(bytes) = reading.now_or_never() {
        assert!(bytes <= data.len(), "a form grows");
    }
}
