//! `bench bare-sftp`, `bare-ftp` and `bare-https`: servers that are the floor of what is measured.

use std::fmt::Display;

use entrepot_loadgen::https::Scheme;
use entrepot_loadgen::{BareServer, ftp, https, sftp};
use entrepot_nouns::{Env, Secret};

use crate::args::{BareFtpArgs, BareHttpsArgs, BareSftpArgs};
use crate::failure::{Exit, Failure};

pub(super) async fn serve_sftp(args: &BareSftpArgs, env: &Env) -> Result<(), Failure> {
    let host_key = args.host_key.as_ref().map(|file| {
        std::fs::read(file)
            .map(Secret::new)
            .map_err(|error| Failure::file(format!("cannot read '{}': {error}", file.display())))
    });
    let host_key = host_key.transpose()?;
    until_interrupted(sftp::serve_bare(args.address, host_key, env)).await
}

pub(super) async fn serve_ftp(args: &BareFtpArgs) -> Result<(), Failure> {
    until_interrupted(ftp::serve_bare(args.address)).await
}

pub(super) async fn serve_https(args: &BareHttpsArgs, env: &Env) -> Result<(), Failure> {
    let scheme = if args.clear { Scheme::Http } else { Scheme::Https };
    until_interrupted(https::serve_bare(args.address, scheme, env)).await
}

/// Says where it serves, and does until it is interrupted.
async fn until_interrupted<E: Display>(server: Result<BareServer, E>) -> Result<(), Failure> {
    let failed = |error: String| Failure::new("EP0209", Exit::Failed, error);
    let server = server.map_err(|error| failed(error.to_string()))?;
    println!("serving at {}", server.address());
    tokio::signal::ctrl_c().await.map_err(|error| failed(error.to_string()))
}
