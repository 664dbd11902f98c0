//! Examples on the help page of each command. A test reads each of them as a command line.

use clap::Command;

/// Commands and examples of each.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "entrepot init /srv/entrepot --ftp 0.0.0.0:21",
            "entrepot account create acme type=partner --password-stdin",
            "entrepot events --kind file.uploaded",
        ],
    ),
    ("serve", &["entrepot serve", "entrepot -c /srv/entrepot/entrepot.toml serve"]),
    (
        "init",
        &[
            "entrepot init /srv/entrepot",
            "entrepot init /srv/entrepot --sftp 0.0.0.0:22 --ftp 0.0.0.0:21",
            "entrepot init /etc/entrepot --data /var/lib/entrepot",
            "entrepot init --database postgres://entrepot@db.example/entrepot --node node1",
        ],
    ),
    ("demo", &["entrepot demo"]),
    (
        "backup",
        &["entrepot backup /backup/monday", "entrepot backup /backup/key --with-master-key"],
    ),
    (
        "restore",
        &[
            "entrepot restore /backup/monday /srv/entrepot --master-key master.key",
            "entrepot restore /backup/monday /etc/entrepot --data /var/lib/entrepot",
            "entrepot restore --check /backup/monday",
        ],
    ),
    ("secrets", &["entrepot secrets rotate"]),
    (
        "secrets rotate",
        &["entrepot secrets rotate", "entrepot secrets rotate --to env:NEW_MASTER_KEY"],
    ),
    ("migrate", &["entrepot migrate --check", "entrepot migrate"]),
    ("apply", &["entrepot apply orders.yaml", "entrepot apply --prune configuration"]),
    ("plan", &["entrepot plan orders.yaml", "entrepot --json plan -"]),
    ("export", &["entrepot export", "entrepot export account mount --output configuration"]),
    ("import", &["entrepot import openssh --dry-run"]),
    (
        "import openssh",
        &["entrepot import openssh --dry-run", "entrepot import openssh --listener sftp"],
    ),
    (
        "import calendar",
        &[
            "entrepot import calendar holidays.ics --policy bank --dry-run",
            "entrepot import calendar holidays.ics --policy bank",
        ],
    ),
    (
        "account totp",
        &[
            "entrepot account totp acme",
            "entrepot account totp acme --replace",
            "entrepot account totp acme --remove",
        ],
    ),
    ("account recovery-codes", &["entrepot account recovery-codes anna"]),
    ("account set-up-token", &["entrepot account set-up-token"]),
    ("account banned", &["entrepot account banned", "entrepot --json account banned"]),
    ("account unban", &["entrepot account unban acme", "entrepot account unban 192.0.2.7"]),
    ("token", &["entrepot token list", "entrepot token revoke nightly"]),
    ("token list", &["entrepot token list --account acme", "entrepot --json tokens"]),
    (
        "token create",
        &[
            "entrepot token create acme --scope files:read --scope files:write --expires 30d",
            "entrepot token create ops --scope admin:read --from 192.0.2.0/24 --name nightly",
        ],
    ),
    ("token revoke", &["entrepot token revoke nightly"]),
    (
        "key generate",
        &["entrepot key generate ours --owner 'Example Ltd <edi@example.com>' >ours.asc"],
    ),
    ("passkey", &["entrepot passkey list", "entrepot passkey remove passkey-7q2m0kxd"]),
    ("passkey list", &["entrepot passkey list --account anna", "entrepot --json passkeys"]),
    ("passkey remove", &["entrepot passkey remove passkey-7q2m0kxd"]),
    ("link", &["entrepot link list", "entrepot link revoke link-k3b8d2xq"]),
    ("link list", &["entrepot link list --owner acme", "entrepot --json links"]),
    ("link show", &["entrepot link show link-k3b8d2xq"]),
    (
        "link create",
        &[
            "entrepot link create acme /out --file report.pdf --downloads 5 --expires 7d",
            "entrepot link create acme /in --allow upload --uploads 20 --file-size 100M",
            "entrepot link create acme /out --for anna@example.com --password-stdin",
        ],
    ),
    ("link revoke", &["entrepot link revoke link-k3b8d2xq"]),
    ("link delete", &["entrepot link delete link-k3b8d2xq"]),
    ("log", &["entrepot log level auth=debug"]),
    (
        "log level",
        &[
            "entrepot log level",
            "entrepot log level auth=debug ssh=trace",
            "entrepot log level auth=",
            "entrepot log level --reset",
        ],
    ),
    ("session", &["entrepot session list"]),
    ("session list", &["entrepot session list", "entrepot sessions"]),
    ("session end", &["entrepot session end 019a9f3e-7c1b-7d52-9d0e-4c4f5c3f2a10"]),
    (
        "session limit",
        &[
            "entrepot session limit 019a9f3e-7c1b-7d52-9d0e-4c4f5c3f2a10 --upload 500K",
            "entrepot session limit 019a9f3e-7c1b-7d52-9d0e-4c4f5c3f2a10 --reset",
        ],
    ),
    ("sign-in", &["entrepot sign-in list"]),
    ("sign-in list", &["entrepot sign-in list --account anna", "entrepot --json sign-ins"]),
    ("sign-in end", &["entrepot sign-in end 019a9f3e-7c1b-7d52-9d0e-4c4f5c3f2a10"]),
    ("address", &["entrepot address list"]),
    ("address list", &["entrepot address list", "entrepot --json addresses"]),
    (
        "address unlock",
        &[
            "entrepot address unlock 192.0.2.7",
            "entrepot address unlock 2001:db8:0:7::/64",
            "entrepot address unlock --account acme",
        ],
    ),
    ("node", &["entrepot node list", "entrepot node drain node2"]),
    ("node list", &["entrepot node list", "entrepot --json nodes"]),
    (
        "node limit",
        &["entrepot node limit --upload 10M --download 50M", "entrepot node limit --reset"],
    ),
    ("node show", &["entrepot node show node2"]),
    ("node drain", &["entrepot node drain", "entrepot node drain node2"]),
    ("node pools", &["entrepot node pools --target 50", "entrepot node pools node2 --instance 8"]),
    ("node undrain", &["entrepot node undrain node2"]),
    (
        "node join",
        &["entrepot node join --database postgres://db.example/entrepot --master-key master.key"],
    ),
    ("node remove", &["entrepot node remove node2", "entrepot node remove node2 --lost"]),
    ("transfer", &["entrepot transfer list --account acme"]),
    (
        "transfer list",
        &["entrepot transfer list --state failed", "entrepot transfers --account acme"],
    ),
    ("transfer release", &["entrepot transfer release 019a9f3e-7c1b-7d52-9d0e-4c4f5c3f2a11"]),
    ("transfer discard", &["entrepot transfer discard 019a9f3e-7c1b-7d52-9d0e-4c4f5c3f2a11"]),
    ("transfer show", &["entrepot transfer show 019a9f3e-7c1b-7d52-9d0e-4c4f5c3f2a11"]),
    ("event", &["entrepot event list --kind login.refused", "entrepot event follow"]),
    (
        "event list",
        &[
            "entrepot event list --kind file.uploaded --account acme",
            "entrepot events --since 2026-11-01T00:00:00Z --limit 500",
        ],
    ),
    (
        "event export",
        &["entrepot event export 2025.ndjson.zst --since 2025-01-01T00:00:00Z \
             --until 2026-01-01T00:00:00Z"],
    ),
    (
        "event follow",
        &["entrepot event follow", "entrepot --json event follow --kind file.uploaded"],
    ),
    ("job", &["entrepot job list --state failed"]),
    (
        "rule explain",
        &[
            "entrepot rule explain 019a9f3e-7c1b-7d52-9d0e-4c4f5c3f2a10",
            "entrepot rule explain /in/orders.xml --rule orders",
        ],
    ),
    (
        "rule run",
        &[
            "entrepot rule run resend --param day=2026-01-31 --param copies=2",
            "entrepot rule run nightly --wait",
        ],
    ),
    ("rule test", &["entrepot rule test", "entrepot rule test --file rules/orders.yaml"]),
    ("rule lint", &["entrepot rule lint", "entrepot rule lint orders --file rules/orders.yaml"]),
    ("rule diff", &["entrepot rule diff --file rules/orders.yaml"]),
    (
        "rule replay",
        &[
            "entrepot rule replay orders --since 2026-11-25T00:00:00Z",
            "entrepot rule replay orders --event 4711 --again \
             --replay 019a9f3e-7c1b-7d52-9d0e-4c4f5c3f2a14",
        ],
    ),
    (
        "key import",
        &[
            "entrepot key import globex-2026 globex.p7b --certificate-only",
            "entrepot key import acme-2026 acme.p12 --password <password.txt",
            "entrepot key import www www.pfx --type tls --password <password.txt",
        ],
    ),
    ("watch", &["entrepot watch list bank-in"]),
    ("watch list", &["entrepot watch list bank-in", "entrepot watch list bank-in --after b.csv"]),
    ("watch forget", &["entrepot watch forget bank-in 2026/PAY1.pgp"]),
    ("as2", &["entrepot as2 messages --partner globex"]),
    (
        "as2 messages",
        &[
            "entrepot as2 messages --partner globex --since 2026-11-27T00:00:00Z",
            "entrepot as2 messages --state rejected",
        ],
    ),
    ("as2 test", &["entrepot as2 test globex"]),
    (
        "as2 send",
        &[
            "entrepot as2 send globex orders:/out/4711.edi",
            "entrepot as2 send globex orders:/out/4711 --content-type application/edi-x12",
        ],
    ),
    ("as2 show", &["entrepot as2 show '<4711@globex>'"]),
    ("as2 resend", &["entrepot as2 resend '<4711@acme>'"]),
    ("as2 cancel", &["entrepot as2 cancel '<4711@acme>'"]),
    ("as2 evidence", &["entrepot as2 evidence '<4711@globex>' -o 4711.json"]),
    (
        "as2 verify",
        &[
            "entrepot as2 verify 4711.json --key @node1.pub",
            "entrepot as2 verify 4711.json --certificate globex.pem --file order.x12",
        ],
    ),
    ("trace", &["entrepot trace /in/orders.xml", "entrepot trace orders.xml"]),
    (
        "rule dry-run",
        &[
            "entrepot rule dry-run orders --path /in/orders.xml",
            "entrepot rule dry-run --file rules/orders.yaml --event 4711",
        ],
    ),
    ("job list", &["entrepot job list --state failed", "entrepot jobs --rule orders"]),
    ("job show", &["entrepot job show 019a9f3e-7c1b-7d52-9d0e-4c4f5c3f2a12"]),
    ("job retry", &["entrepot job retry 019a9f3e-7c1b-7d52-9d0e-4c4f5c3f2a12"]),
    ("job cancel", &["entrepot job cancel 019a9f3e-7c1b-7d52-9d0e-4c4f5c3f2a12"]),
    ("job approvals", &["entrepot job approvals"]),
    (
        "job approve",
        &["entrepot job approve 019a9f3e-7c1b-7d52-9d0e-4c4f5c3f2a12 \
           --server https://files.example.com"],
    ),
    (
        "job refuse",
        &["entrepot job refuse 019a9f3e-7c1b-7d52-9d0e-4c4f5c3f2a12 --why 'the total is wrong'"],
    ),
    ("journal", &["entrepot journal verify"]),
    ("journal heads", &["entrepot journal heads", "entrepot journal heads --limit 10 --json"]),
    (
        "journal verify",
        &["entrepot journal verify", "entrepot journal verify /backup/entrepot/data/journal"],
    ),
    (
        "receipt",
        &[
            "entrepot receipt 019a9f3e-7c1b-7d52-9d0e-4c4f5c3f2a11 >receipt.json",
            "entrepot receipt verify receipt.json --key @node1.pub",
        ],
    ),
    ("receipt key", &["entrepot receipt key >node1.pub"]),
    ("receipt verify", &["entrepot receipt verify receipt.json --key @node1.pub"]),
    ("reload", &["entrepot reload"]),
    ("health", &["entrepot health", "entrepot health --live"]),
    ("doctor", &["entrepot doctor", "entrepot --json doctor"]),
    (
        "put",
        &[
            "entrepot put orders.csv sftp://acme@files.example.org/~/in/ --identity acme",
            "entrepot put -r reports ftp://acme@files.example.org/in/ --password-stdin",
            "entrepot put --resume big.zip ftps://acme@files.example.org:990/in/",
        ],
    ),
    (
        "get",
        &[
            "entrepot get sftp://acme@files.example.org/~/out/orders.csv --identity acme",
            "entrepot get -r ftp://acme@files.example.org/out/ inbox --password-stdin",
            "entrepot get --resume ftps://acme@files.example.org:990/out/big.zip",
        ],
    ),
    ("bench", &["entrepot bench sftp --target localhost:2022 --user acme --key acme"]),
    (
        "bench sftp",
        &[
            "entrepot bench sftp --target localhost:2022 --user acme --key acme",
            "entrepot bench sftp --target localhost:2022 --key acme --delay 50ms --rate 1G",
        ],
    ),
    (
        "bench ftp",
        &[
            "entrepot bench ftp --target localhost:21 --user acme --password-file secret --tls",
            "entrepot bench ftp --target localhost:21 --user acme --password-stdin --workload retr",
        ],
    ),
    (
        "bench https",
        &[
            "entrepot bench https --target https://host:8443/files/ --user a --password-file p",
            "entrepot bench https --target https://localhost:8443/files/ --http 2 --delay 50ms",
        ],
    ),
    (
        "bench host",
        &[
            "entrepot bench host --clients 5,30,75,150,200 --report host.json",
            "entrepot bench host --part search,s3270 --clients 30 --transactions 100 --rounds 1",
        ],
    ),
    (
        "bench as2",
        &[
            "entrepot bench as2 --loopback",
            "entrepot bench as2 --loopback --soak 10m --rate 31 --concurrency 30",
            "entrepot bench as2 --loopback --pyas2lib target/clients-venv/bin/python3",
            "entrepot bench as2 --target https://host/as2 --message saved --partner-certificate p",
        ],
    ),
    (
        "bench bare-sftp",
        &[
            "entrepot bench bare-sftp --address 127.0.0.1:2022",
            "entrepot bench bare-sftp --address 127.0.0.1:0 --host-key host",
        ],
    ),
    ("bench bare-ftp", &["entrepot bench bare-ftp --address 127.0.0.1:2121"]),
    ("bench bare-https", &["entrepot bench bare-https --address 127.0.0.1:8444"]),
    (
        "bench rules",
        &[
            "entrepot bench rules",
            "entrepot bench rules --workload deliver --count 20000 --folder /disk/bench-rules",
            "entrepot bench rules --workload steps --waiting 1000000",
        ],
    ),
    ("host", &["entrepot host terminal mainframe.example 'type LOANS' 'key ENTER' screen"]),
    (
        "host terminal",
        &[
            "entrepot host terminal tls://mainframe.example --lu LIB01 screen",
            "entrepot host terminal mainframe.example 'type LOANS' 'key ENTER' 'wait 1,72 LB010'",
            "entrepot host terminal mainframe.example --json <steps.txt",
        ],
    ),
    (
        "host play",
        &[
            "entrepot host play session.trc --listen 127.0.0.1:3270",
            "entrepot host play find.trc update.trc --loop --match aid --lag 250 --lag-percent 10",
            "entrepot host play session.trc --tls --cut-every 100",
        ],
    ),
    (
        "host call",
        &[
            "entrepot host call loans.yaml find_loans --in reader=NOVAK --set user=CLERK",
            "entrepot host call loans.yaml find_loans --in reader=NOVAK --secret password=pw",
        ],
    ),
    (
        "host debug",
        &[
            "entrepot host debug 20261129-014040-105000-000012-001.jsonl",
            "entrepot host debug 20261129-014040-105000-000012-001.jsonl --step 17",
            "entrepot host debug 20261129-014040-105000-000012-001.jsonl --walk",
        ],
    ),
    ("host sample", &["entrepot host sample --listen 127.0.0.1:3270"]),
    ("host model", &["entrepot host model check loans.yaml"]),
    ("host model check", &["entrepot host model check loans.yaml --json"]),
    ("host model test", &["entrepot host model test loans.yaml"]),
    ("host model schema", &["entrepot host model schema >host-model.schema.json"]),
    (
        "host record",
        &["entrepot host record --to mainframe.example --listen 127.0.0.1:3270 --into traces"],
    ),
    (
        "bench page",
        &[
            "entrepot bench page ours.json theirs.json --out side-by-side.html",
            "entrepot bench page samples.json --plots docs/plots",
        ],
    ),
    ("stop", &["entrepot stop"]),
    ("completion", &["entrepot completion bash > /etc/bash_completion.d/entrepot"]),
    ("site", &["entrepot site list", "entrepot --site north account list"]),
    (
        "key create",
        &[
            "entrepot key create acme-key type=ssh-user account=acme --from-file public=acme.pub",
            "entrepot key create www type=tls --from-file public=w.pem --from-file private=w.key",
        ],
    ),
    (
        "account create",
        &[
            "entrepot account create acme type=partner groups='[\"partners\"]' --password-stdin",
            "entrepot account create partners type=group policy=slow",
        ],
    ),
    (
        "account change",
        &[
            "entrepot account change acme --password-stdin",
            "entrepot account change acme enabled=false note='until the contract is signed'",
        ],
    ),
    ("endpoint create", &["entrepot endpoint create archive target.directory.path=/srv/archive"]),
    (
        "listener change",
        &[
            "entrepot listener change sftp address=0.0.0.0:22",
            "entrepot listener change ftp tls.key=files-example",
        ],
    ),
    ("listener certificates", &["entrepot listener certificates"]),
    ("listener renew-certificate", &["entrepot listener renew-certificate https"]),
];

/// Examples of a kind of configuration whose commands are not in [`EXAMPLES`].
struct NounExample {
    kind: &'static str,
    name: &'static str,
    /// Fields that it is made with.
    made: &'static str,
    /// Fields that are changed.
    changed: &'static str,
}

const NOUNS: &[NounExample] = &[
    NounExample {
        kind: "site",
        name: "north",
        made: "hosts='[\"files.north.example\"]'",
        changed: "policy=slow",
    },
    NounExample { kind: "account", name: "acme", made: "type=partner", changed: "enabled=false" },
    NounExample {
        kind: "mount",
        name: "acme-home",
        made: "account=acme path=/ endpoint=files prefix=acme",
        changed: "rights=read-only quota.files=1000",
    },
    NounExample {
        kind: "endpoint",
        name: "archive",
        made: "target.directory.path=/srv/archive",
        changed: "note='on the second disk'",
    },
    NounExample {
        kind: "model",
        name: "loans",
        made: "endpoint=mainframe --from-file definition=loans.yaml",
        changed: "enabled=false",
    },
    NounExample {
        kind: "rule",
        name: "orders",
        made: "when.event=file.uploaded do='[{\"deliver\":{\"endpoint\":\"archive\"}}]'",
        changed: "enabled=false",
    },
    NounExample {
        kind: "key",
        name: "acme-key",
        made: "type=ssh-user account=acme --from-file public=acme.pub",
        changed: "not_after=2027-01-01T00:00:00Z",
    },
    NounExample {
        kind: "listener",
        name: "ftp",
        made: "protocol=ftp address=0.0.0.0:21",
        changed: "ftp.tls_required=login",
    },
    NounExample {
        kind: "policy",
        name: "slow",
        made: "upload_bytes_per_second=1048576 sessions=5",
        changed: "allow='[\"192.0.2.0/24\"]'",
    },
];

/// Puts examples on the page of `command` and of all that are below it.
pub(super) fn add(command: Command) -> Command {
    with_examples(command, "")
}

fn with_examples(command: Command, path: &str) -> Command {
    let examples = examples(path);
    let command = if examples.is_empty() {
        command
    } else {
        command.after_help(format!("Examples:\n  {}", examples.join("\n  ")))
    };
    let names: Vec<String> =
        command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| {
        let below = format!("{path} {name}");
        command.mut_subcommand(name, |it| with_examples(it, below.trim_start()))
    })
}

/// Examples of the command at `path`, such as `job list`.
fn examples(path: &str) -> Vec<String> {
    if let Some((_, examples)) = EXAMPLES.iter().find(|(of, _)| *of == path) {
        return examples.iter().map(|example| (*example).to_owned()).collect();
    }
    let (noun, verb) = path.split_once(' ').unwrap_or((path, "list"));
    let found = NOUNS.iter().find(|example| example.kind == noun);
    let Some(NounExample { name, made, changed, .. }) = found else { return Vec::new() };
    match verb {
        "list" => vec![format!("entrepot {noun} list")],
        "create" => vec![format!("entrepot {noun} create {name} {made}")],
        "change" => vec![format!("entrepot {noun} change {name} {changed}")],
        _ => vec![format!("entrepot {noun} {verb} {name}")],
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use clap::FromArgMatches;
    use entrepot_nouns::AnyNoun;

    use super::super::{Cli, Command as Meant, FieldArgs, ListenerCommand, NounCommand};
    use super::*;

    /// The words of a command line as a shell takes them, up to a pipe or redirection.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quote, mut begun) = (Vec::new(), String::new(), None, false);
        for letter in line.chars() {
            match (quote, letter) {
                (Some(mark), _) if letter == mark => quote = None,
                (Some(_), _) => word.push(letter),
                (None, '\'' | '"') => (quote, begun) = (Some(letter), true),
                (None, '|' | '>' | '<' | '&' | ';' | '#') if word.is_empty() => break,
                (None, ' ') => {
                    if begun || !word.is_empty() {
                        words.push(std::mem::take(&mut word));
                    }
                    begun = false;
                }
                (None, _) => word.push(letter),
            }
        }
        if begun || !word.is_empty() {
            words.push(word);
        }
        words
    }

    fn parsed(line: &str) -> Result<Meant, String> {
        let matches = Cli::page().try_get_matches_from(words(line));
        let matches = matches.map_err(|error| format!("{line}: {error}"))?;
        Ok(Cli::from_arg_matches(&matches).map_err(|error| error.to_string())?.given.command())
    }

    /// Visible commands with their paths.
    fn pages(command: &Command, path: &str, pages: &mut Vec<(String, String)>) {
        pages.push((path.to_owned(), command.clone().render_long_help().to_string()));
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            self::pages(below, format!("{path} {}", below.get_name()).trim_start(), pages);
        }
    }

    #[test]
    fn each_page_has_examples_that_are_command_lines() {
        let mut found = Vec::new();
        pages(&Cli::page(), "", &mut found);
        assert!(found.len() > 60, "{} pages", found.len());
        for (path, page) in found {
            let examples = examples(&path);
            assert!(!examples.is_empty(), "'{path}' has no example");
            assert!(examples[0].starts_with(&format!("entrepot {path}")), "{}", examples[0]);
            for example in examples {
                parsed(&example).unwrap();
                assert!(page.contains(&example), "{example} is not whole in {page}");
            }
        }
        for (path, _) in EXAMPLES {
            let at = path
                .split_whitespace()
                .try_fold(Cli::page(), |command, name| command.find_subcommand(name).cloned());
            assert!(at.is_some(), "there is no '{path}'");
        }
    }

    #[test]
    fn fields_of_examples_are_fields() {
        let fields = |line: &str| -> FieldArgs {
            match parsed(line).unwrap() {
                Meant::Account(super::super::AccountCommand::Noun(NounCommand::Create(it)))
                | Meant::Site(NounCommand::Create(it))
                | Meant::Mount(NounCommand::Create(it))
                | Meant::Endpoint(NounCommand::Create(it))
                | Meant::Model(NounCommand::Create(it))
                | Meant::Rule(super::super::RuleCommand::Noun(NounCommand::Create(it)))
                | Meant::Key(super::super::KeyCommand::Noun(NounCommand::Create(it)))
                | Meant::Listener(ListenerCommand::Noun(NounCommand::Create(it)))
                | Meant::Policy(NounCommand::Create(it)) => it,
                other => panic!("{other:?}"),
            }
        };
        for NounExample { kind, name, made, changed } in NOUNS {
            let mut given = fields(&format!("entrepot {kind} create {name} {made} {changed}"));
            if !given.from_file.is_empty() {
                let of_file = match *kind {
                    "model" => "definition=model: loans",
                    _ => "public=ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBMq5LdC acme",
                };
                given.from_file.clear();
                given.fields.push(of_file.to_owned());
            }
            let mut noun = crate::nouns::assignments(&given).unwrap();
            noun.insert("name".to_owned(), (*name).into());
            let body = serde_json::Value::Object(noun);
            let noun: AnyNoun = serde_json::from_value(serde_json::json!({ *kind: body })).unwrap();
            noun.check().unwrap();
        }
    }

    fn pages_of_documentation(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pages_of_documentation(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }

    /// Lines of code blocks, continued ones as one; and what stands in backquotes.
    fn code(text: &str) -> (Vec<String>, Vec<String>) {
        let (mut lines, mut inline) = (Vec::new(), Vec::new());
        for (at, part) in text.split("```").enumerate() {
            if at % 2 == 1 {
                let block = part.replace("\\\n", " ");
                lines.extend(block.lines().map(|line| line.trim().to_owned()));
            } else {
                inline.extend(part.split('`').skip(1).step_by(2).map(|it| it.replace('\n', " ")));
            }
        }
        (lines, inline)
    }

    #[test]
    fn commands_of_the_documentation_are_commands() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut files = vec![root.join("README.md"), root.join("ARCHITECTURE.md")];
        pages_of_documentation(&root.join("docs"), &mut files);
        let mut problems = Vec::new();
        let mut seen = 0;
        for file in files {
            let (lines, inline) = code(&std::fs::read_to_string(&file).unwrap());
            let (whole, sketches): (Vec<String>, Vec<String>) =
                lines.into_iter().partition(|line| !words(line).iter().any(|it| is_blank(it)));
            for line in whole.iter().filter(|line| line.starts_with("entrepot ")) {
                seen += 1;
                if let Err(problem) = parsed(line) {
                    problems.push(format!("{}: {problem}", file.display()));
                }
            }
            let sketches = sketches.iter().chain(&inline);
            for text in sketches.filter(|text| text.starts_with("entrepot ")) {
                seen += 1;
                if let Some(word) = unknown_word(text) {
                    problems.push(format!("{}: '{word}' in `{text}`", file.display()));
                }
            }
        }
        assert!(seen > 60, "only {seen} commands were found");
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    /// True for what everybody fills in, such as `NAME`, and for what is left out.
    fn is_blank(word: &str) -> bool {
        word == "…" || word.len() > 1 && word.chars().all(|letter| letter.is_ascii_uppercase())
    }

    /// The first word of a sketch of a command that is no command.
    fn unknown_word(text: &str) -> Option<String> {
        let mut command = Cli::page();
        let mut words = words(text).into_iter().skip(1).peekable();
        while let Some(word) = words.next() {
            if matches!(word.as_str(), "--site" | "-c") {
                words.next();
                continue;
            }
            let is_word = word.chars().all(|letter| letter.is_ascii_lowercase());
            if !is_word || command.get_positionals().next().is_some() {
                return None;
            }
            match command.find_subcommand(&word) {
                Some(below) => command = below.clone(),
                None => return Some(word),
            }
        }
        None
    }
}
