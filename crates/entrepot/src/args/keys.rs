//! Options of `key import`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use entrepot_nouns::Name;

#[derive(Debug, Args)]
pub(crate) struct KeyImportArgs {
    /// The name that the key gets here.
    pub(crate) name: Name,
    /// What the other program wrote.
    pub(crate) file: PathBuf,
    /// What the key is for.
    #[arg(long = "type", value_enum, default_value_t = ImportedKeyType::As2)]
    pub(crate) key_type: ImportedKeyType,
    /// The file is protected by a password, which is read from standard input.
    #[arg(long)]
    pub(crate) password: bool,
    /// Of several certificates, the one whose fingerprint (SHA-256) begins so.
    #[arg(long, value_name = "DIGITS")]
    pub(crate) fingerprint: Option<String>,
    /// Leave the private key out: the certificate is that of a partner.
    #[arg(long)]
    pub(crate) certificate_only: bool,
    /// Fail if the file has no private key.
    #[arg(long, conflicts_with = "certificate_only")]
    pub(crate) with_private: bool,
}

/// What an imported key may be for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportedKeyType {
    /// Messages of AS2: one certificate.
    As2,
    /// Listeners under TLS: the chain, the own certificate first.
    Tls,
}

impl ImportedKeyType {
    /// The word in documents.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            ImportedKeyType::As2 => "as2",
            ImportedKeyType::Tls => "tls",
        }
    }
}
