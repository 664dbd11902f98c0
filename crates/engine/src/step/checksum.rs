//! `checksum`: makes a checksum file, or compares the file with one.

use std::io::Write as _;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use entrepot_nouns::VPath;
use entrepot_nouns::rule::{ChecksumAlgorithm, ChecksumSpec};
use entrepot_transform::TransformError;
use entrepot_transform::checksum::{Algorithm, Checksum};
use entrepot_transform::limits::CHECKSUM_FILE_BYTES;
use serde_json::json;

use super::change::{CONTENT, Output, change, foreseen_file, made_name, make};
use super::{Input, Step, StepError};
use crate::foresight::{Foresee, Foreseen, Foresight};
use crate::ids::StepKey;
use crate::pattern::{self, Values};
use crate::run::Run;

#[async_trait]
impl Step for ChecksumSpec {
    async fn run(&self, run: &mut Run<'_>, key: &StepKey) -> Result<(), StepError> {
        let algorithm = algorithm(self.algorithm);
        let of = pattern::expand("{name}", run.values())?;
        let Some(verify) = &self.verify else {
            let name = summed_name(run.values(), algorithm)?;
            let checksum = make(run, key, name, move |mut ends| {
                let checksum = Checksum::of(algorithm, ends.reader)?;
                let line = checksum.line(&of);
                let written = ends.writer.write_all(line.as_bytes());
                written.and_then(|()| ends.writer.flush()).map_err(TransformError::Write)?;
                Ok(checksum)
            });
            let checksum = checksum.await?;
            run.leave("checksum", json!(checksum.to_string()));
            return Ok(());
        };
        let path = pattern::virtual_path(verify, run.values())?;
        let file = small_file(run, &path, CHECKSUM_FILE_BYTES).await?;
        let wanted = Checksum::find(algorithm, &file, &of)?;
        let input = Input::open(run).await?;
        let reading = move |ends: super::change::Ends| Checksum::of(algorithm, ends.reader);
        let found = change(run, &input, &mut Nothing, reading).await?;
        run.leave("checksum", json!(found.to_string()));
        if found == wanted {
            return Ok(());
        }
        let text = format!("'{of}' has the checksum {found}, and '{path}' says {wanted}");
        Err(StepError::permanent("EP0876", text))
    }
}

#[async_trait]
impl Foresee for ChecksumSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let file = foresight.input()?.file;
        if let Some(verify) = &self.verify {
            let path = pattern::virtual_path(verify, foresight.values())?;
            let what = format!("compares {file} with the checksum in '{path}'");
            return Ok(Foreseen::open(what, CONTENT));
        }
        let name = summed_name(foresight.values(), algorithm(self.algorithm))?;
        let what = format!("writes the checksum of {file} as '{name}'");
        Ok(foreseen_file(foresight, what, name))
    }
}

fn summed_name(values: Values<'_>, algorithm: Algorithm) -> Result<String, StepError> {
    made_name(values, None, |name| format!("{name}.{}", algorithm.as_str()))
}

fn algorithm(of: ChecksumAlgorithm) -> Algorithm {
    match of {
        ChecksumAlgorithm::Md5 => Algorithm::Md5,
        ChecksumAlgorithm::Sha1 => Algorithm::Sha1,
        ChecksumAlgorithm::Sha256 => Algorithm::Sha256,
        ChecksumAlgorithm::Sha512 => Algorithm::Sha512,
    }
}

/// For what is only read.
pub(super) struct Nothing;

#[async_trait]
impl Output for Nothing {
    async fn begin(&mut self, _run: &mut Run<'_>, _path: String) -> Result<(), StepError> {
        Ok(())
    }

    async fn write(&mut self, _run: &mut Run<'_>, _block: Bytes) -> Result<(), StepError> {
        Ok(())
    }

    async fn end(&mut self, _run: &mut Run<'_>) -> Result<(), StepError> {
        Ok(())
    }
}

/// A file of the account's view that fits into memory.
pub(super) async fn small_file(
    run: &mut Run<'_>,
    path: &VPath,
    most: usize,
) -> Result<Vec<u8>, StepError> {
    let hold = run.hold;
    let file = hold.waiting(run.files().await?.open(path)).await??;
    let mut bytes = Vec::new();
    loop {
        let offset = bytes.len() as u64;
        let room = BytesMut::with_capacity(crate::limits::BLOCK_BYTES);
        let read = file.read_at(offset, room, crate::limits::BLOCK_BYTES);
        let block = hold.waiting(read).await??;
        if block.is_empty() {
            return Ok(bytes);
        }
        bytes.extend_from_slice(&block);
        if bytes.len() > most {
            let text = format!("'{path}' has more than {most} bytes");
            return Err(StepError::permanent("EP0871", text));
        }
    }
}
