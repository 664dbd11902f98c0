//! `init`: a process file, a data directory, a master key, a database and a first listener.

use entrepot_admin::Document;
use entrepot_crypto::seal::MasterKey;
use entrepot_nouns::Env;
use serde_json::json;

use crate::account::{self, SetUpToken};
use crate::admin_client::AdminClient;
use crate::args::{InitArgs, JoinArgs};
use crate::ask::ask;
use crate::config::{Config, MasterKeySource};
use crate::failure::{Exit, Failure};
use crate::join;
use crate::output::Output;
use crate::parts::private_folder;
use crate::process_file::{ProcessFile, machine_name, write_new};

/// Makes what a node needs and prints the commands that come next.
pub(crate) async fn run(args: &InitArgs, output: Output) -> Result<(), Failure> {
    if let Some(master_key) = &args.master_key {
        let (folder, data) = (args.folder.clone(), args.data.clone());
        let database = args.database.clone();
        let (master_key, node, ops) = (master_key.clone(), args.node.clone(), args.ops);
        let args = JoinArgs { folder, data, database, master_key, node, ops };
        return join::run(&args, output).await;
    }
    let config = make(args).await?;
    let client = AdminClient::Local(Box::new(config.clone()));
    let token = match account::set_up_token(&client).await {
        Ok(made) => Some(made),
        // The database has an administrator.
        Err(failure) if failure.code == "EP0111" => None,
        Err(failure) => return Err(failure),
    };
    let value = json!({
        "config": config.file,
        "data": config.data,
        "sftp": args.sftp,
        "ftp": args.ftp,
        "https": args.https,
        "set_up_token": token.as_ref().map(|made| made.token.expose()),
    });
    output.value(&value, || {
        println!("made {} and {}", config.file.display(), config.data.display());
        println!();
        println!("next, from {}:", args.folder.display());
        println!("  entrepot account create alice --password-stdin");
        println!("  entrepot mount create alice-home account=alice path=/ endpoint=files \\");
        println!("      prefix=alice");
        println!("  entrepot serve");
        if let Some(SetUpToken { token, ends_at }) = &token {
            println!();
            println!("token for the first administrator, good once until {ends_at}:");
            println!("  {}", token.expose());
            if let Some(address) = args.https {
                println!("show it at https://{address}/setup when the server runs");
            }
        }
    })
}

/// Makes everything and leaves it as `serve` wants it. Refuses to touch what is there.
pub(crate) async fn make(args: &InitArgs) -> Result<Config, Failure> {
    if args.database.starts_with("postgres") {
        refuse_members(&args.database).await?;
    }
    private_folder(&args.folder)?;
    let file = args.folder.join("entrepot.toml");
    let node = args.node.clone().unwrap_or_else(machine_name);
    let (data, database, ops) = (&*args.data, &*args.database, args.ops);
    let text = ProcessFile { node: &node, data, database, ops }.text();
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

/// The first listener and endpoint of an installation in use are not to be moved here, and its
/// secrets open with its own master key only.
async fn refuse_members(url: &str) -> Result<(), Failure> {
    let (_, nodes) = join::members(url).await?;
    let Some(first) = nodes.first() else { return Ok(()) };
    let why = format!(
        "the database is in use by node '{}'; nothing was changed. To make this machine one more \
         node of it, use 'entrepot node join', or add '--master-key FILE' here, with a copy of the \
         master key of '{}'",
        first.name, first.name
    );
    Err(Failure::new("EP0713", Exit::Invalid, why))
}

fn first_documents(args: &InitArgs, config: &Config) -> Document {
    let mut text = format!(
        "endpoint:\n  name: files\n  target:\n    directory:\n      path: {}\n\
         ---\n\
         listener:\n  name: sftp\n  protocol: sftp\n  address: '{}'\n",
        json!(config.data.join("files")),
        args.sftp
    );
    for (protocol, address) in [("ftp", args.ftp), ("https", args.https)] {
        let Some(address) = address else { continue };
        let listener = format!(
            "---\nlistener:\n  name: {protocol}\n  protocol: {protocol}\n  address: '{address}'\n"
        );
        text.push_str(&listener);
    }
    Document { file: "<init>".to_owned(), text }
}
