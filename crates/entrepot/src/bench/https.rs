//! `bench https`: what its arguments ask for.

use entrepot_loadgen::https::{Crowd, HttpVersion, HttpsBench, Login, Target, Workload};
use entrepot_loadgen::wan::Wan;
use entrepot_nouns::Secret;

use super::password;
use crate::args::{BenchHttpsArgs, HttpVersionWord, HttpsWorkload};
use crate::failure::Failure;

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
