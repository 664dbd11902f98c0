//! What arguments of the host commands name: files and code pages.

use std::path::Path;

use entrepot_host::CodePage;
use entrepot_net::tls::ServerTrust;

use crate::args::HostTrustArgs;
use crate::failure::Failure;

pub(super) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::file(format!("'{}': {error}", path.display())))
}

pub(super) fn code_page(name: &str) -> Result<CodePage, Failure> {
    CodePage::named(name).ok_or_else(|| {
        let known = CodePage::numbers().iter().map(ToString::to_string).collect::<Vec<_>>();
        let known = known.join(", ");
        Failure::usage(format!("'{name}' is no code page: there are {known}"))
    })
}

pub(super) fn trust(args: &HostTrustArgs) -> Result<ServerTrust, Failure> {
    Ok(match (&args.ca, args.pins.as_slice()) {
        (Some(ca), _) => ServerTrust::Authorities(read(ca)?),
        (None, []) => ServerTrust::System,
        (None, pins) => ServerTrust::Pinned(pins.to_vec()),
    })
}
