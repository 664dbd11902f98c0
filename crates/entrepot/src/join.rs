//! `node join`: a process file and a data directory for one more node of an installation. What
//! the installation has stays as it is: its listeners, endpoints and keys are this node's too.

use entrepot_admin::Response;
use entrepot_crypto::SealingContext;
use entrepot_crypto::seal::MasterKey;
use entrepot_db::{Db, DbError, DbOptions, Dialect, Node, OldTables};
use entrepot_nouns::{Key, Name, SiteId};
use serde_json::json;

use crate::args::JoinArgs;
use crate::ask::ask;
use crate::config::Config;
use crate::failure::{Exit, Failure};
use crate::output::{Output, unexpected};
use crate::parts::{self, private_folder};
use crate::process_file::{ProcessFile, machine_name, write_new};

/// Makes what the node needs, makes it known, and prints the command that comes next.
pub(crate) async fn run(args: &JoinArgs, output: Output) -> Result<(), Failure> {
    let config = make(args).await?;
    let answer = ask(&config, json!({"request": "nodes"})).await?;
    let Response::Nodes { nodes } = answer else { return Err(unexpected()) };
    let others: Vec<&Name> =
        nodes.iter().map(|node| &node.name).filter(|name| **name != config.node).collect();
    let value = json!({"config": config.file, "data": config.data, "node": config.node,
                       "others": others});
    output.value(&value, || {
        println!("made {} and {}", config.file.display(), config.data.display());
        let others: Vec<String> = others.iter().map(|name| format!("'{name}'")).collect();
        println!("node '{}' joined {}", config.node, others.join(", "));
        println!();
        println!("next, from {}:", args.folder.display());
        println!("  entrepot serve");
    })
}

/// The nodes that a database has; none of one that is new.
pub(crate) async fn members(url: &str) -> Result<(Db, Vec<Node>), Failure> {
    let options = DbOptions { old_tables: OldTables::MakeOnly, ..DbOptions::default() };
    let db = Db::open(url, options).await.map_err(parts::db_failure)?;
    let nodes = db.nodes().await.map_err(unavailable)?;
    Ok((db, nodes))
}

async fn make(args: &JoinArgs) -> Result<Config, Failure> {
    let refused = |why: String| Failure::new("EP0718", Exit::Invalid, why);
    let (db, nodes) = members(&args.database).await?;
    if db.dialect() == Dialect::Sqlite {
        let why = "several nodes need PostgreSQL; a SQLite file is of one node".to_owned();
        return Err(refused(why));
    }
    if nodes.is_empty() {
        let why = "the database has no node yet; make the first one with 'entrepot init'";
        return Err(refused(why.to_owned()));
    }
    let name = args.node.clone().unwrap_or_else(machine_name);
    if nodes.iter().any(|node| node.name == name) {
        let why = format!(
            "there is a node '{name}' already; give this one another name with '--node NAME'"
        );
        return Err(refused(why));
    }
    let master = MasterKey::from_file(&args.master_key)
        .map_err(|error| Failure::config(format!("master key: {error}")))?;
    if let Some(key) = sealed_otherwise(&db, &master).await.map_err(unavailable)? {
        let why = format!(
            "'{}' is not the master key of this installation: it does not open the key '{key}'",
            args.master_key.display()
        );
        return Err(refused(why));
    }
    private_folder(&args.folder)?;
    let file = args.folder.join("entrepot.toml");
    let (data, database, ops) = (&*args.data, &*args.database, args.ops);
    let text = ProcessFile { node: &name, data, database, ops }.text();
    write_new(&file, 0o600, text.as_bytes())?;
    let config = Config::read(&file)?;
    private_folder(&config.data)?;
    write_new(&config.data.join("master.key"), 0o600, master.to_text().expose())?;
    Ok(config)
}

/// A key whose private half this master key does not open, if there is one.
async fn sealed_otherwise(db: &Db, master: &MasterKey) -> Result<Option<Name>, DbError> {
    for site in db.sites().await? {
        for key in db.list::<Key>(SiteId(site.id)).await? {
            let context = SealingContext::private_key(&site.noun.name, &key.noun.name);
            let sealed = key.noun.private_sealed.as_ref();
            if sealed.is_some_and(|sealed| master.open(&context, sealed).is_err()) {
                return Ok(Some(key.noun.name));
            }
        }
    }
    Ok(None)
}

fn unavailable(error: DbError) -> Failure {
    Failure::new(error.code(), Exit::Unavailable, error.to_string())
}
