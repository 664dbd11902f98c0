//! `bench https` and the bare server beside it.

use entrepot_loadgen::https::{
    BareServer, Crowd, HttpVersion, HttpsBench, Login, Scheme, Target, Workload,
};
use entrepot_loadgen::wan::Wan;
use entrepot_nouns::{Env, Secret};

use super::password;
use crate::args::{BareHttpsArgs, BenchHttpsArgs, HttpVersionWord, HttpsWorkload};
use crate::failure::{Exit, Failure};

/// What the arguments ask for.
pub(super) fn read(args: BenchHttpsArgs) -> Result<(HttpsBench, Vec<Workload>), Failure> {
    let target: Target = args.target.parse().map_err(Failure::usage)?;
    let login = match args.user {
        None => None,
        Some(user) => {
            let (file, name) = (args.password_file.as_deref(), args.password_env.as_deref());
            let password = password::read(file, name)?;
            Some(Login { user, password: Secret::new(password) })
        }
    };
    let workloads = match args.workloads.as_slice() {
        [] => Workload::USUAL.to_vec(),
        some => some.iter().map(|workload| workload_of(*workload)).collect(),
    };
    let bench = HttpsBench {
        target,
        version: match args.http {
            HttpVersionWord::Http1 => HttpVersion::Http1,
            HttpVersionWord::Http2 => HttpVersion::Http2,
        },
        tls_version: args.tls_version,
        login,
        path: args.path,
        tus_path: args.tus_path,
        size: args.size,
        small_size: args.small_size,
        count: args.count,
        concurrency: args.concurrency,
        connections: args.connections,
        deadline: args.deadline,
        cuts: args.cuts,
        crowd: Crowd {
            users: args.users,
            uploading: args.uploading,
            tests: args.tests,
            think_time: args.think_time,
            ramp: args.ramp,
            scale: args.scale,
        },
        wan: args.delay.map(|delay| Wan { delay, rate: args.rate }),
        server_pid: args.server_pid,
        server_group: args.server_group,
        rounds: args.rounds,
    };
    Ok((bench, workloads))
}

fn workload_of(workload: HttpsWorkload) -> Workload {
    match workload {
        HttpsWorkload::Upload => Workload::Upload,
        HttpsWorkload::Download => Workload::Download,
        HttpsWorkload::Put => Workload::Put,
        HttpsWorkload::Get => Workload::Get,
        HttpsWorkload::Fetch => Workload::Fetch,
        HttpsWorkload::Users => Workload::Users,
        HttpsWorkload::Tus => Workload::Tus,
    }
}

/// Serves from memory until it is interrupted.
pub(super) async fn serve_bare(args: &BareHttpsArgs, env: &Env) -> Result<(), Failure> {
    let scheme = if args.clear { Scheme::Http } else { Scheme::Https };
    let server = BareServer::start(args.address, scheme, env)
        .map_err(|error| Failure::new("EP0209", Exit::Failed, error.to_string()))?;
    println!("serving at {}", server.address());
    tokio::signal::ctrl_c()
        .await
        .map_err(|error| Failure::new("EP0209", Exit::Failed, error.to_string()))
}
