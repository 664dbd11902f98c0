//! `init`: a process file, a data directory, a master key, a database and a first listener.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use entrepot_admin::Document;
use entrepot_crypto::seal::MasterKey;
use entrepot_nouns::Env;
use serde_json::json;

use crate::args::InitArgs;
use crate::ask::ask;
use crate::config::{Config, MasterKeySource};
use crate::failure::Failure;
use crate::output::Output;
use crate::parts::private_folder;

/// Makes what a node needs and prints the commands that come next.
pub(crate) async fn run(args: &InitArgs, output: Output) -> Result<(), Failure> {
    let config = make(args).await?;
    let value =
        json!({"config": config.file, "data": config.data, "sftp": args.sftp, "ftp": args.ftp});
    output.value(&value, || {
        println!("made {} and {}", config.file.display(), config.data.display());
        println!();
        println!("next, from {}:", args.folder.display());
        println!("  entrepot account create alice --password-stdin");
        println!("  entrepot mount create alice-home account=alice path=/ endpoint=files \\");
        println!("      prefix=alice");
        println!("  entrepot serve");
    })
}

/// Makes everything and leaves it as `serve` wants it. Refuses to touch what is there.
pub(crate) async fn make(args: &InitArgs) -> Result<Config, Failure> {
    private_folder(&args.folder)?;
    let file = args.folder.join("entrepot.toml");
    let text = process_file(args);
    // The URL of the database may hold a password, and `exec.allow` says which programs run.
    write_new(&file, 0o600, text.as_bytes())?;
    let config = Config::read(&file)?;
    private_folder(&config.data)?;
    private_folder(&config.data.join("files"))?;
    if let MasterKeySource::File(path) = &config.master_key {
        let key = MasterKey::generate(&Env::real());
        write_new(path, 0o600, key.to_text().expose())?;
    }
    let documents = [first_documents(args, &config)];
    let request = json!({"request": "apply", "documents": documents, "prune": false});
    ask(&config, request).await?;
    Ok(config)
}

fn process_file(args: &InitArgs) -> String {
    format!(
        "# What this node must know before it can open its database.\n\
         # Everything else: entrepot account|mount|endpoint|rule|key|listener|policy, or apply.\n\
         node = \"{}\"\n\
         data = \"data\"                 # beside this file: journal, database, master key\n\
         database = \"{}\"           # or postgres://user:password@host/database\n\
         # master_key = \"file:data/master.key\"   # or \"env:ENTREPOT_MASTER_KEY\"\n\
         \n\
         [ops]\n\
         address = \"{}\"   # /metrics, /live, /ready\n\
         \n\
         [log]\n\
         format = \"human\"              # or \"json\"\n\
         level = \"info\"\n",
        args.node, args.database, args.ops
    )
}

fn first_documents(args: &InitArgs, config: &Config) -> Document {
    let mut text = format!(
        "endpoint:\n  name: files\n  target:\n    directory:\n      path: {}\n\
         ---\n\
         listener:\n  name: sftp\n  protocol: sftp\n  address: '{}'\n",
        json!(config.data.join("files")),
        args.sftp
    );
    if let Some(address) = args.ftp {
        let listener =
            format!("---\nlistener:\n  name: ftp\n  protocol: ftp\n  address: '{address}'\n");
        text.push_str(&listener);
    }
    Document { file: "<init>".to_owned(), text }
}

/// Writes a file that must not exist yet.
fn write_new(path: &Path, mode: u32, content: &[u8]) -> Result<(), Failure> {
    let cannot =
        |error: std::io::Error| Failure::file(format!("cannot make '{}': {error}", path.display()));
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .map_err(cannot)?;
    file.write_all(content).map_err(cannot)?;
    file.sync_all().map_err(cannot)
}
