//! `event export`: events as a file of lines of JSON, compressed by zstd, as retention writes them.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use entrepot_admin::Response;
use serde_json::json;

use crate::admin_client::AdminClient;
use crate::args::EventExportArgs;
use crate::failure::Failure;
use crate::output::{Output, unexpected};

/// Events that are asked for at a time: as many as one answer holds.
const PAGE: u32 = 10_000;
/// How strongly they are compressed.
const LEVEL: i32 = 6;

/// Writes the file, under another name until it is whole.
pub(crate) async fn run(
    client: &AdminClient,
    output: Output,
    args: &EventExportArgs,
) -> Result<(), Failure> {
    let file = &args.file;
    let cannot = |error: std::io::Error| {
        Failure::file(format!("cannot write '{}': {error}", file.display()))
    };
    if file.exists() {
        return Err(Failure::file(format!("'{}' is there already", file.display())));
    }
    let part = part_of(file);
    let count = match write(client, args, &part).await {
        Ok(count) => count,
        Err(failure) => {
            // Best effort: what is left is no file that anyone would take for the export.
            let _ = std::fs::remove_file(&part);
            return Err(failure);
        }
    };
    std::fs::rename(&part, file).map_err(cannot)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(cannot)?;
    output.value(&json!({ "events": count, "file": file }), || {
        println!("{count} events in {}", file.display());
    })
}

/// The name of the file while it is written.
fn part_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

async fn write(client: &AdminClient, args: &EventExportArgs, part: &Path) -> Result<u64, Failure> {
    let cannot = |error: std::io::Error| {
        Failure::file(format!("cannot write '{}': {error}", part.display()))
    };
    let file = File::create(part).map_err(cannot)?;
    let mut encoder = zstd::stream::write::Encoder::new(file, LEVEL).map_err(cannot)?;
    let (mut after, mut count) = (0, 0);
    loop {
        let filter =
            json!({ "since": args.since, "until": args.until, "after": after, "limit": PAGE });
        let answer = client.ask(json!({ "request": "events", "filter": filter })).await?;
        let Response::Events { events, next } = answer else { return Err(unexpected()) };
        for numbered in &events {
            serde_json::to_writer(&mut encoder, &numbered.event)
                .map_err(|error| cannot(error.into()))?;
            encoder.write_all(b"\n").map_err(cannot)?;
            count += 1;
        }
        let Some(next) = next else { break };
        after = next;
    }
    let file = encoder.finish().map_err(cannot)?;
    file.sync_all().map_err(cannot)?;
    Ok(count)
}
