//! `bench as2`: messages to any receiver, or to a node that is made for it.

use std::sync::Arc;

use entrepot_as2_proto::{Compression, Envelope, KeyTransport, MicalgStyle};
use entrepot_auth::as2;
use entrepot_loadgen::as2::{
    As2Bench, As2BenchError, Iteration, Making, MessageRecipe, MessageSource, ReceiptWish,
    SavedMessage, Soak, SoakReport, Window,
};
use entrepot_loadgen::https::{Login, Target};
use entrepot_nouns::endpoint::{As2Compression, As2ReceiptKind};
use entrepot_nouns::{Env, Secret};

use super::as2_loopback::Loopback;
use super::as2_parties::{Parties, read_file};
use super::as2_pyas2lib::{self, Beside};
use super::{password, report_file};
use crate::args::BenchAs2Args;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Measures, and prints block by block.
pub(super) async fn run(output: Output, args: &BenchAs2Args, env: &Env) -> Result<(), Failure> {
    let mut loopback = if args.loopback { Some(Loopback::start(args, env).await?) } else { None };
    let measured = measure(output, args, env, loopback.as_mut()).await;
    match loopback {
        Some(loopback) => loopback.end().await.and(measured),
        None => measured,
    }
}

async fn measure(
    output: Output,
    args: &BenchAs2Args,
    env: &Env,
    mut loopback: Option<&mut Loopback>,
) -> Result<(), Failure> {
    let bench = read(args, loopback.as_deref(), env)?;
    if let (Some(python), Some(loopback)) = (&args.pyas2lib, loopback.as_deref_mut()) {
        let beside = Beside { bench, loopback, python, args };
        return as2_pyas2lib::run(output, beside, env).await;
    }
    if let Some(time) = args.soak {
        if output == Output::Human {
            println!("{}", Window::HEADING);
        }
        let (mut swept, soak) = (Ok(()), Soak { time });
        let report = entrepot_loadgen::as2::soak(&bench, &soak, env, |window| {
            if output == Output::Human {
                println!("{window}");
            }
            sweep(&mut loopback, &mut swept);
        });
        let report = report.await.map_err(failed)?;
        swept?;
        if let Some(loopback) = loopback {
            loopback.reconcile(report.delivered(), report.missed())?;
        }
        if let Some(file) = &args.report {
            report_file::write(&report, file)?;
        }
        output.value(&report, || print_soak(&report))?;
        return judged(&report);
    }
    let mut swept = Ok(());
    let report = entrepot_loadgen::as2::run(&bench, env, |iteration| {
        if output == Output::Human {
            println!("{iteration}");
        }
        sweep(&mut loopback, &mut swept);
    });
    let report = report.await.map_err(failed)?;
    swept?;
    if let Some(loopback) = loopback {
        let sum = |of: fn(&Iteration) -> u64| report.iterations.iter().map(of).sum();
        let missed = sum(|iteration| iteration.failed + iteration.write_errors);
        let counts = report.report.rounds.iter().filter_map(|round| round.counts);
        loopback.reconcile(counts.map(|counts| counts.done).sum(), missed)?;
    }
    if let Some(file) = &args.report {
        report_file::write(&report, file)?;
    }
    output.value(&report, || print!("{}", report.report))
}

fn failed(error: As2BenchError) -> Failure {
    Failure::new("EP0209", Exit::Failed, error.to_string())
}

/// Counts the files that came and removes them, so that the disk does not fill.
fn sweep(loopback: &mut Option<&mut Loopback>, swept: &mut Result<(), Failure>) {
    if let Some(loopback) = loopback
        && swept.is_ok()
    {
        *swept = loopback.sweep();
    }
}

fn print_soak(report: &SoakReport) {
    let (delivered, missed) = (report.delivered(), report.missed());
    println!("{delivered} delivered, {missed} missed");
    for failure in report.windows.iter().flat_map(|window| &window.failures) {
        println!("failed: {failure}");
    }
    if report.drifts.is_empty() {
        println!("nothing that was watched has grown");
    }
}

/// The alarm: what makes a soak fail.
fn judged(report: &SoakReport) -> Result<(), Failure> {
    let mut found: Vec<String> = report.drifts.iter().map(ToString::to_string).collect();
    if report.missed() > 0 {
        found.push(format!("{} messages were not delivered", report.missed()));
    }
    if found.is_empty() {
        return Ok(());
    }
    Err(Failure::new("EP1216", Exit::Findings, found.join("; ")))
}

/// What the arguments ask for.
fn read(args: &BenchAs2Args, loopback: Option<&Loopback>, env: &Env) -> Result<As2Bench, Failure> {
    let own;
    let parties = match loopback {
        Some(loopback) => loopback.parties(),
        None => {
            own = Parties::read(args)?;
            &own
        }
    };
    let target = match (loopback, &args.target) {
        (Some(loopback), _) => loopback.url().to_owned(),
        (None, Some(target)) => target.clone(),
        (None, None) => return Err(Failure::usage("give --target URL or --loopback")),
    };
    let login = match &args.user {
        None => None,
        Some(user) => {
            let (file, name) = (args.password_file.as_deref(), args.password_env.as_deref());
            let password = Secret::new(password::read(file, name)?);
            Some(Login { user: user.clone(), password })
        }
    };
    Ok(As2Bench {
        target: Target::address(&target).map_err(Failure::usage)?,
        tls_version: args.tls_version,
        login,
        source: source(args, parties, env)?,
        trusted: parties.partner.clone(),
        messages: args.messages,
        concurrency: args.concurrency,
        iterations: args.iterations,
        rate: args.rate,
        deadline: args.deadline,
        server_pid: loopback.and_then(Loopback::pid).or(args.server_pid),
        server_group: args.server_group.clone(),
    })
}

fn source(args: &BenchAs2Args, parties: &Parties, env: &Env) -> Result<MessageSource, Failure> {
    let usage = |error: As2BenchError| Failure::usage(error.to_string());
    if let Some(message) = &args.message {
        let body = read_file(message)?;
        let saved = match &args.headers {
            Some(headers) => SavedMessage::parts(&read_file(headers)?, body.into()),
            None => SavedMessage::whole(body),
        };
        return Ok(MessageSource::Saved(saved.map_err(usage)?));
    }
    let envelope = match (as2::cipher(args.cipher), parties.partner.first()) {
        (None, _) => None,
        (Some(_), None) => {
            let why = "give --partner-certificate to encrypt for, or --cipher none";
            return Err(Failure::usage(why));
        }
        (Some(cipher), Some(recipient)) => {
            let (recipient, transport) = (Arc::clone(recipient), KeyTransport::Pkcs1);
            Some(Envelope { recipient, cipher, transport })
        }
    };
    let recipe = MessageRecipe {
        from: args.from.clone(),
        to: args.to.clone(),
        own: parties.own.clone(),
        envelope,
        digest: as2::digest(args.digest),
        style: MicalgStyle::default(),
        compression: match args.compression {
            As2Compression::None => Compression::None,
            As2Compression::BeforeSigning => Compression::BeforeSigning,
            As2Compression::AfterSigning => Compression::AfterSigning,
        },
        payload: MessageRecipe::random_payload(args.size, env).map_err(usage)?,
        content_type: "application/edi-x12".to_owned(),
        file_name: args.file_name.clone(),
        receipt: match args.receipt {
            As2ReceiptKind::Signed => ReceiptWish::Signed,
            As2ReceiptKind::Unsigned => ReceiptWish::Unsigned,
            As2ReceiptKind::None => ReceiptWish::None,
        },
        making: if args.each { Making::Each } else { Making::Once },
    };
    Ok(MessageSource::Built(Arc::new(recipe)))
}
