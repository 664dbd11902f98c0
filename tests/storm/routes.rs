//! The routes of the storm: what each does, and what is to be found of it afterwards.

use entrepot_nouns::rule::StepSpec;

use super::starts::RULES;

/// A way through some steps. Each is two routes, which differ by the partner.
pub(super) struct Shape {
    pub(super) name: &'static str,
    pub(super) upload: Upload,
    /// `ROUTE`, `TARGET`, `ENTER` and `BOOK` stand for the route's name, its partner, the program
    /// and the folder that it writes to.
    pub(super) steps: &'static [&'static str],
    pub(super) otherwise: &'static [&'static str],
    pub(super) ends: Ends,
    pub(super) leaves: &'static [Leaves],
    /// Its jobs run one after the other: all of them end only if each wakes the next.
    pub(super) in_order: bool,
}

/// Which files start it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Upload {
    /// Those of a folder that it has in common with others.
    Common,
    /// Those of a folder of its own, for it takes the file away.
    Own,
    /// As [`Upload::Own`], and the scanner finds something in them.
    Infected,
    /// As [`Upload::Own`], in a mount that holds what comes.
    Held,
}

/// How a job of it ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    Done,
    /// It fails, and the error begins so.
    Failed(&'static str),
    /// It is done, or fails with EP0844: then nothing behind that step was done.
    DoneOrAsks,
}

/// What is there when a job has ended, once.
#[derive(Clone, Copy)]
pub(super) enum Leaves {
    /// A file at the partner, in the folder of the route.
    At(&'static str, Content),
    /// A file in the account's view, below `/made` in a folder of the route.
    Made(&'static str, Content),
    /// As [`Leaves::Made`], several files with this beginning, which together are the file.
    Parts(&'static str),
    /// The uploaded file has gone.
    Gone,
    /// The uploaded file, which was held, is there.
    Released,
    /// The uploaded file, which was held, is in quarantine.
    Quarantined,
    /// The program ran for the file.
    Ran(Times),
    /// A server was asked.
    Asked(Times),
    /// A partner of AS2 got a message, maybe again under the same id.
    Sent,
    /// A receiver of web hooks got a message.
    Told,
    /// Somebody got a message.
    Mailed,
    /// The rule `called` ran for the file.
    Called,
    /// The rule `next` delivered the file.
    Next,
    /// What was fetched for the file has gone from where it was.
    Fetched,
    /// What was fetched lies in the folder `done` there.
    SetAside,
    /// What was fetched is where it was.
    Kept,
}

/// What a file holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// What was uploaded.
    Same,
    /// The same with other line ends.
    CrLf,
    /// A line with its checksum.
    Checksum,
    /// It in a tar archive.
    Tar,
    /// It, compressed by gzip.
    Gzip,
    /// What lay where it was fetched.
    Fetched,
    /// The loans of the sample application of a host.
    Loans,
}

/// How often something happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Times {
    /// With one key, however often.
    Keyed,
    AtLeastOnce,
    AtMostOnce,
    Never,
}

const TO: &str = "deliver: {endpoint: TARGET, path: 'ROUTE/{name}'}";
const TO_NEW: &str = "deliver: {endpoint: TARGET, path: 'ROUTE/{name}', existing: refuse}";
const COPY: &str = "copy: {to: '/made/ROUTE/{name}'}";
const COPY_NEW: &str = "copy: {to: '/made/ROUTE/{name}', existing: refuse}";
const RUN: &str = "exec: {argv: [ENTER, BOOK, ROUTE, '{name}']}";
const RUN_OR_SKIP: &str = "{exec: {argv: [ENTER, BOOK, ROUTE, '{name}']}, after_crash: skip}";
const RUN_OR_ASK: &str = "{exec: {argv: [ENTER, BOOK, ROUTE, '{name}']}, after_crash: ask}";
const ASK: &str = "http: {endpoint: erp, path: '/ROUTE/{name}'}";
const AT: Leaves = Leaves::At("{name}", Content::Same);

/// A shape whose jobs are all done, for files that it leaves where they are.
const fn shape(
    name: &'static str,
    steps: &'static [&'static str],
    leaves: &'static [Leaves],
) -> Shape {
    let (upload, ends, in_order) = (Upload::Common, Ends::Done, false);
    Shape { name, upload, steps, otherwise: &[], ends, leaves, in_order }
}

/// The same, which takes its files away.
const fn taking(
    name: &'static str,
    steps: &'static [&'static str],
    leaves: &'static [Leaves],
) -> Shape {
    Shape { upload: Upload::Own, ..shape(name, steps, leaves) }
}

pub(super) const SHAPES: &[Shape] = &[
    shape("plain", &[TO], &[AT]),
    shape("refuse-old", &[TO_NEW], &[AT]),
    Shape { in_order: true, ..shape("in-order", &[TO_NEW], &[AT]) },
    Shape {
        in_order: true,
        ..shape("in-order-slow", &["wait: {for: 1s}", "gzip: {}", "extract: {}", TO], &[AT])
    },
    shape(
        "twice",
        &[TO, "deliver: {endpoint: TARGET, path: 'ROUTE/again/{name}', existing: refuse}"],
        &[AT, Leaves::At("again/{name}", Content::Same)],
    ),
    shape("gzip", &["gzip: {}", "extract: {}", TO], &[AT]),
    shape("gzipped", &["gzip: {}", TO_NEW], &[Leaves::At("{name}.gz", Content::Gzip)]),
    shape("zstd", &["zstd: {}", "extract: {}", TO_NEW], &[AT]),
    shape("zip", &["zip: {}", "extract: {}", TO], &[AT]),
    shape(
        "tar",
        &[
            "tar: {compress: gzip}",
            "extract: {}",
            "check: {that: file.size > 0, message: 'empty'}",
            TO,
        ],
        &[AT],
    ),
    shape("tarred", &["tar: {}", TO_NEW], &[Leaves::At("{name}.tar", Content::Tar)]),
    shape(
        "unpack",
        &[TO, "zip: {}", "extract: {to: '/made/ROUTE/{stem}', existing: refuse}"],
        &[AT, Leaves::Made("{name}/{name}", Content::Same)],
    ),
    shape(
        "secret",
        &[
            "encrypt: {keys: [ours], signers: [ours]}",
            "decrypt: {keys: [ours], signed_by: [ours]}",
            TO,
        ],
        &[AT],
    ),
    shape("signed", &["sign: {key: ours}", "verify: {signed_by: [ours]}", TO_NEW], &[AT]),
    shape("summed", &["checksum: {}", TO], &[Leaves::At("{name}.sha256", Content::Checksum)]),
    shape(
        "text",
        &["transcode: {from: windows-1252, newline: crlf}", TO],
        &[Leaves::At("{name}", Content::CrLf)],
    ),
    shape(
        "parts",
        &["split: {lines: 500, to: '/made/ROUTE/{name}.{part:03}', existing: refuse}", TO],
        &[AT, Leaves::Parts("{name}.")],
    ),
    shape(
        "joined",
        &[
            "split: {lines: 500, to: '/made/ROUTE/{name}.{part:03}', existing: refuse}",
            "join: {from: '/made/ROUTE/{name}.{part:03}'}",
            TO_NEW,
        ],
        &[AT, Leaves::Parts("{name}.")],
    ),
    shape("copy", &[COPY, TO], &[AT, Leaves::Made("{name}", Content::Same)]),
    shape("copy-new", &[COPY_NEW, TO_NEW], &[AT, Leaves::Made("{name}", Content::Same)]),
    shape(
        "mkdir",
        &["mkdir: {path: '/made/ROUTE/{stem}'}", "copy: {to: '/made/ROUTE/{stem}/x'}", TO],
        &[AT, Leaves::Made("{stem}/x", Content::Same)],
    ),
    shape(
        "mkdir-there",
        &[
            "mkdir: {endpoint: TARGET, path: 'ROUTE/{stem}'}",
            "deliver: {endpoint: TARGET, path: 'ROUTE/{stem}/{name}'}",
        ],
        &[Leaves::At("{stem}/{name}", Content::Same)],
    ),
    shape("next", &["copy: {to: '/next/ROUTE/{name}'}", TO], &[AT, Leaves::Next]),
    shape("run", &[RUN, TO], &[AT, Leaves::Ran(Times::AtLeastOnce)]),
    shape("run-or-skip", &[RUN_OR_SKIP, TO_NEW], &[AT, Leaves::Ran(Times::AtMostOnce)]),
    Shape {
        ends: Ends::DoneOrAsks,
        ..shape("run-or-ask", &[RUN_OR_ASK, TO], &[AT, Leaves::Ran(Times::AtMostOnce)])
    },
    shape(
        "run-told",
        &[
            "{name: look, exec: {argv: [ENTER, BOOK, ROUTE, '{name}'], stdout: text}}",
            "set: {told: steps.look.out}",
            "deliver: {endpoint: TARGET, path: 'ROUTE/{vars.told}-{name}'}",
        ],
        &[Leaves::At("entered-{name}", Content::Same), Leaves::Ran(Times::AtLeastOnce)],
    ),
    shape(
        "run-fails",
        &[
            "{exec: {argv: [ENTER, BOOK, ROUTE, '{name}', '3'], exit: {'3': fail}}, \
               on_error: continue}",
            TO,
        ],
        &[AT, Leaves::Ran(Times::AtLeastOnce)],
    ),
    shape("as2", &["as2: {endpoint: edi, subject: '/ROUTE/{name}'}", TO], &[AT, Leaves::Sent]),
    shape(
        "procedure",
        &["procedure: {model: loans, call: find_loans, in: {reader: NOVAK}, name: '{name}'}", TO],
        &[Leaves::At("{name}", Content::Loans)],
    ),
    shape("ask", &[ASK, TO], &[AT, Leaves::Asked(Times::Keyed)]),
    shape(
        "ask-or-skip",
        &["{http: {endpoint: erp, path: '/ROUTE/{name}'}, after_crash: skip}", TO],
        &[AT, Leaves::Asked(Times::AtMostOnce)],
    ),
    Shape {
        ends: Ends::DoneOrAsks,
        ..shape(
            "ask-or-ask",
            &["{http: {endpoint: erp, path: '/ROUTE/{name}'}, after_crash: ask}", TO_NEW],
            &[AT, Leaves::Asked(Times::AtMostOnce)],
        )
    },
    shape(
        "put",
        &[
            "{name: put, http: {endpoint: erp, method: PUT, path: '/ROUTE/{name}', body: file, \
               answer: json}}",
            "check: {that: steps.put.answer.id == 7, message: 'another answer'}",
            "deliver: {endpoint: TARGET, path: 'ROUTE/{steps.put.answer.id}-{name}'}",
        ],
        &[Leaves::At("7-{name}", Content::Same), Leaves::Asked(Times::Keyed)],
    ),
    shape("flaky", &[TO_NEW, ASK], &[AT, Leaves::Asked(Times::Keyed)]),
    shape("tell", &["webhook: {endpoint: shop}", TO], &[AT, Leaves::Told]),
    shape(
        "mail",
        &[
            "mail: {endpoint: post, to: [ops@example.com], subject: 'ROUTE {name}', \
               text: '{size}'}",
            TO,
        ],
        &[AT, Leaves::Mailed],
    ),
    shape(
        "mail-file",
        &[
            "gzip: {}",
            "mail: {endpoint: post, to: [ops@example.com], subject: 'ROUTE {stem}', text: x, \
               attach: file}",
            "extract: {}",
            TO,
        ],
        &[AT, Leaves::Mailed],
    ),
    shape(
        "if",
        &[
            "if: {when: file.size > 100000, then: [set: {kind: '\"is\"'}, gzip: {}, extract: {}], \
             else: [set: {kind: '\"is\"'}]}",
            "deliver: {endpoint: TARGET, path: 'ROUTE/{vars.kind}-{name}'}",
        ],
        &[Leaves::At("is-{name}", Content::Same)],
    ),
    shape(
        "each",
        &[
            "each: {in: '[\"a\", \"b\", \"c\"]', do: [gzip: {}, extract: {}, \
           deliver: {endpoint: TARGET, path: 'ROUTE/{item}-{name}', existing: refuse}]}",
            RUN_OR_SKIP,
        ],
        &[
            Leaves::At("a-{name}", Content::Same),
            Leaves::At("b-{name}", Content::Same),
            Leaves::At("c-{name}", Content::Same),
            Leaves::Ran(Times::AtMostOnce),
        ],
    ),
    shape(
        "parallel",
        &[
            "gzip: {}",
            "parallel: {do: [[extract: {}, {deliver: {endpoint: TARGET, \
               path: 'ROUTE/a-{name}', existing: refuse}}], \
             [deliver: {endpoint: TARGET, path: 'ROUTE/b-{name}', existing: refuse}], \
             [{exec: {argv: [ENTER, BOOK, ROUTE, '{stem}']}, after_crash: skip}]]}",
            "extract: {}",
            TO,
        ],
        &[
            AT,
            Leaves::At("a-{name}", Content::Same),
            Leaves::At("b-{name}.gz", Content::Gzip),
            Leaves::Ran(Times::AtMostOnce),
        ],
    ),
    shape(
        "parallel-any",
        &[
            "parallel: {need: any, do: [[zstd: {}, check: {that: 'false', message: 'no'}], \
             [gzip: {}, extract: {}, deliver: {endpoint: TARGET, path: 'ROUTE/any-{name}'}]]}",
            TO_NEW,
        ],
        &[AT, Leaves::At("any-{name}", Content::Same)],
    ),
    shape("wait", &["wait: {for: 2s}", TO], &[AT]),
    shape("wait-packed", &["zstd: {}", "wait: {for: 1s}", "extract: {}", TO], &[AT]),
    shape(
        "call",
        &["call: {rule: called, with: {name: file.name, route: '\"ROUTE\"'}}", TO],
        &[AT, Leaves::Called],
    ),
    shape(
        "call-on",
        &[
            "gzip: {}",
            "extract: {}",
            "call: {rule: called, with: {name: file.name, route: '\"ROUTE\"'}, wait: false}",
            TO_NEW,
        ],
        &[AT, Leaves::Called],
    ),
    shape("approve", &["approve: {by: [treasury], text: 'ROUTE {name}'}", TO], &[AT]),
    shape(
        "approve-packed",
        &["tar: {}", "approve: {by: [treasury], text: 'ROUTE {name}'}", "extract: {}", TO_NEW],
        &[AT],
    ),
    shape(
        "stop",
        &[TO, "if: {when: file.size > 0, then: [stop: {message: enough}]}", RUN],
        &[AT, Leaves::Ran(Times::Never)],
    ),
    Shape {
        otherwise: &[COPY, TO],
        ends: Ends::Failed("EP0"),
        ..shape(
            "stop-failed",
            &["set: {why: file.name}", "stop: {as: failed, message: 'not {vars.why}'}"],
            &[AT, Leaves::Made("{name}", Content::Same)],
        )
    },
    Shape {
        otherwise: &[TO_NEW, RUN_OR_SKIP, "webhook: {endpoint: shop}"],
        ends: Ends::Failed("EP0"),
        ..shape(
            "check-fails",
            &[
                "set: {most: '10'}",
                "check: {that: file.size < vars.most, message: '{name} is long'}",
            ],
            &[AT, Leaves::Ran(Times::AtMostOnce), Leaves::Told],
        )
    },
    shape("scan", &["scan: {endpoint: av}", TO], &[AT]),
    Shape {
        upload: Upload::Held,
        ..shape(
            "release",
            &[
                "approve: {by: [treasury], text: '{path}'}",
                "release: {existing: refuse}",
                "deliver: {endpoint: TARGET, path: 'ROUTE/{name}', existing: refuse}",
            ],
            &[AT, Leaves::Released],
        )
    },
    Shape {
        upload: Upload::Held,
        ..shape(
            "quarantine",
            &[TO, "approve: {by: [treasury], text: '{path}'}", "quarantine: {reason: '{name}'}"],
            &[AT, Leaves::Quarantined],
        )
    },
    Shape {
        upload: Upload::Infected,
        otherwise: &["deliver: {endpoint: TARGET, path: 'ROUTE/bad-{name}'}", "delete: {}"],
        ends: Ends::Failed("EP0897"),
        ..shape(
            "scan-finds",
            &["scan: {endpoint: av}", TO],
            &[Leaves::At("bad-{name}", Content::Same), Leaves::Gone],
        )
    },
    taking(
        "move",
        &["move: {to: '/made/ROUTE/{name}'}", TO],
        &[AT, Leaves::Made("{name}", Content::Same), Leaves::Gone],
    ),
    taking(
        "move-on",
        &[
            TO_NEW,
            "move: {to: '/made/ROUTE/1/{name}', existing: refuse}",
            "move: {to: '/made/ROUTE/2/{name}', existing: refuse}",
        ],
        &[AT, Leaves::Made("2/{name}", Content::Same), Leaves::Gone],
    ),
    taking("delete", &[TO, "delete: {}"], &[AT, Leaves::Gone]),
    taking(
        "copy-delete",
        &["gzip: {}", "extract: {}", COPY, "delete: {}"],
        &[Leaves::Made("{name}", Content::Same), Leaves::Gone],
    ),
    taking(
        "delete-tell",
        &["zstd: {}", "extract: {}", TO, "delete: {}", "webhook: {endpoint: shop}"],
        &[AT, Leaves::Gone, Leaves::Told],
    ),
    taking(
        "move-packed",
        &["gzip: {}", "extract: {}", TO_NEW, "move: {to: '/made/ROUTE/{name}'}"],
        &[AT, Leaves::Made("{name}", Content::Same), Leaves::Gone],
    ),
    shape(
        "fetch",
        &["fetch: {endpoint: source, path: 'ROUTE/{name}', after: delete}", TO],
        &[Leaves::At("{name}", Content::Fetched), Leaves::Fetched],
    ),
    shape(
        "fetch-move",
        &[
            "fetch: {endpoint: source, path: 'ROUTE/{name}', after: move, to: 'done/ROUTE/{name}'}",
            "gzip: {}",
            "extract: {}",
            TO_NEW,
        ],
        &[Leaves::At("{name}", Content::Fetched), Leaves::SetAside],
    ),
    shape(
        "fetch-keep",
        &["fetch: {endpoint: source, path: 'ROUTE/{name}'}", COPY, TO],
        &[
            Leaves::At("{name}", Content::Fetched),
            Leaves::Made("{name}", Content::Fetched),
            Leaves::Kept,
        ],
    ),
];

/// The endpoints that files are delivered to.
pub(super) const TARGETS: [&str; 3] = ["partner", "bucket", "peer"];
/// Folders that shapes have in common.
const COMMON: usize = 8;

/// A shape with a partner.
pub(super) struct Route {
    pub(super) shape: &'static Shape,
    pub(super) target: &'static str,
    pub(super) name: String,
    /// Where files that start it are uploaded to.
    pub(super) folder: String,
}

/// All routes: each shape with two of the partners.
pub(super) fn routes() -> Vec<Route> {
    let mut routes = Vec::new();
    for (at, shape) in SHAPES.iter().enumerate() {
        let others = TARGETS.iter().cycle().skip(at);
        for target in others.take(2).copied() {
            let name = format!("{}-{target}", shape.name);
            let folder = match shape.upload {
                Upload::Common => format!("in{}", at % COMMON),
                Upload::Own | Upload::Infected => name.clone(),
                Upload::Held => format!("held/{name}"),
            };
            routes.push(Route { shape, target, name, folder });
        }
    }
    routes
}

impl Route {
    /// Whether something is to lie at the endpoint `source` for each file.
    pub(super) fn fetches(&self) -> bool {
        let is_fetched =
            |leaves: &Leaves| matches!(leaves, Leaves::Fetched | Leaves::SetAside | Leaves::Kept);
        self.shape.leaves.iter().any(is_fetched)
    }

    /// Its rule, with the placeholders of the table.
    pub(super) fn document(&self) -> String {
        let list = |steps: &[&str]| -> String {
            steps.iter().map(|step| format!("    - {step}\n")).collect()
        };
        let otherwise = match self.shape.otherwise {
            [] => String::new(),
            steps => format!("  else:\n{}", list(steps)),
        };
        let begin = match self.shape.upload {
            Upload::Held => "file.held",
            _ => "file.uploaded",
        };
        let order = if self.shape.in_order { "order: '{account}'\n  " } else { "" };
        let text = format!(
            "---\nrule:\n  name: ROUTE\n  when: {{event: {begin}}}\n  \
             if: file.path.startsWith('/{}/')\n  {order}do:\n{}{otherwise}  \
             retry: {{attempts: 30, first_delay_seconds: 1, longest_delay_seconds: 1}}\n",
            self.folder,
            list(self.shape.steps)
        );
        text.replace("ROUTE", &self.name).replace("TARGET", self.target)
    }
}

fn has_word(word: &str) -> bool {
    let text = format!("{word}: {{");
    let all = SHAPES.iter().flat_map(|shape| shape.steps.iter().chain(shape.otherwise));
    all.chain([&RULES]).any(|step| {
        step.match_indices(&text).any(|(at, _)| {
            !step.get(..at).is_some_and(|before| before.ends_with(char::is_alphanumeric))
        })
    })
}

#[test]
fn every_step_word_is_in_a_route_of_the_storm() {
    for word in StepSpec::WORDS {
        assert!(has_word(word), "'{word}' is in no route");
    }
    assert!(routes().len() >= 100, "{} routes", routes().len());
}
