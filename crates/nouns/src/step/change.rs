//! Steps that make another file of the file that steps work on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Existing;
use crate::document::is_default;
use crate::name::Name;

/// Compress the file as `gzip` does. Later steps work on the compressed one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GzipSpec {
    /// What the new file is called; placeholders as in `deliver`. Unset: `{name}.gz`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// From 1, quick, to 9, small; unset: 6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<u32>,
}

/// Compress the file as `zstd` does. Later steps work on the compressed one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZstdSpec {
    /// What the new file is called; placeholders as in `deliver`. Unset: `{name}.zst`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// From 1, quick, to 19, small; unset: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<u32>,
}

/// Put the file into a zip archive. Later steps work on the archive. It has no times, so that the
/// same file gives the same archive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZipSpec {
    /// What the archive is called; placeholders as in `deliver`. Unset: `{name}.zip`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The path of the file in it; placeholders as in `deliver`. Unset: `{name}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
}

/// Put the file into a tar archive. Later steps work on the archive. It has neither times nor
/// owners, so that the same file gives the same archive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TarSpec {
    /// What the archive is called; placeholders as in `deliver`. Unset: `{name}.tar`, and `.gz` or
    /// `.zst` behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The path of the file in it; placeholders as in `deliver`. Unset: `{name}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// What the archive is compressed by.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compress: TarCompression,
}

/// What a tar archive is compressed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TarCompression {
    /// The archive stays as it is.
    #[default]
    None,
    /// By gzip: `.tar.gz`.
    Gzip,
    /// By zstd: `.tar.zst`.
    Zstd,
}

/// Take the files out of an archive, or the file out of a compressed one. An archive that asks for
/// too much, or has a name that leads elsewhere, a link or damage, is refused whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtractSpec {
    /// What the file is; unset: what its name ends in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<PackedFormat>,
    /// The folder that gets the files, as the account sees it; placeholders as in `deliver`. Unset:
    /// the archive must have one file, and later steps work on that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// With `to`: what if a file of that name is there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub existing: Existing,
    /// Most files and folders in it.
    #[serde(default = "entries", skip_serializing_if = "is_entries")]
    pub entries: u32,
    /// Most MiB that come of it.
    #[serde(default = "output_mib", skip_serializing_if = "is_output_mib")]
    pub output_mib: u32,
    /// How many times its size may come of it, once that is more than a MiB.
    #[serde(default = "ratio", skip_serializing_if = "is_ratio")]
    pub ratio: u32,
}

/// A format that files are packed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PackedFormat {
    /// An archive, `.zip`.
    Zip,
    /// An archive, `.tar`.
    Tar,
    /// An archive, `.tar.gz` or `.tgz`.
    TarGz,
    /// An archive, `.tar.zst` or `.tzst`.
    TarZst,
    /// One file, `.gz`.
    Gz,
    /// One file, `.zst`.
    Zst,
}

fn entries() -> u32 {
    10_000
}

fn output_mib() -> u32 {
    10_240
}

fn ratio() -> u32 {
    200
}

// The signatures are what serde's `skip_serializing_if` asks for.
fn is_entries(count: &u32) -> bool {
    *count == entries()
}

fn is_output_mib(mib: &u32) -> bool {
    *mib == output_mib()
}

fn is_ratio(times: &u32) -> bool {
    *times == ratio()
}

/// Encrypt the file by OpenPGP. Later steps work on the message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EncryptSpec {
    /// Keys of type `openpgp` that each open the message.
    pub keys: Vec<Name>,
    /// Keys of ours, with their private half, that sign the file inside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signers: Vec<Name>,
    /// Write the message as text.
    #[serde(default, skip_serializing_if = "is_default")]
    pub armor: bool,
    /// What the message is called; placeholders as in `deliver`. Unset: `{name}.pgp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Decrypt an OpenPGP message. Later steps work on the file in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DecryptSpec {
    /// Keys of type `openpgp`, with their private half, of which one opens the message.
    pub keys: Vec<Name>,
    /// Keys of which one must have signed the file inside. Unset: signatures count for nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signed_by: Vec<Name>,
    /// What the file is called; placeholders as in `deliver`. Unset: `{name}` without `.pgp`,
    /// `.gpg` or `.asc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Most MiB that come of it.
    #[serde(default = "output_mib", skip_serializing_if = "is_output_mib")]
    pub output_mib: u32,
    /// How many times its size may come of it, once that is more than a MiB.
    #[serde(default = "ratio", skip_serializing_if = "is_ratio")]
    pub ratio: u32,
}

/// Sign the file by OpenPGP. Later steps work on the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignSpec {
    /// A key of type `openpgp` with its private half.
    pub key: Name,
    /// Make a file of the signature alone; otherwise a message that has the file too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub detached: bool,
    /// Write it as text.
    #[serde(default, skip_serializing_if = "is_default")]
    pub armor: bool,
    /// What the result is called; placeholders as in `deliver`. Unset: `{name}.pgp`, detached
    /// `{name}.sig`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Fail unless the file was signed by OpenPGP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifySpec {
    /// Keys of type `openpgp` of which one must have signed it.
    pub signed_by: Vec<Name>,
    /// Where its signature is, as the account sees it; placeholders as in `deliver`. Unset: the
    /// file is a message that has the signature too, and later steps work on what is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// Make a checksum file, as `sha256sum` writes it, on which later steps work; or compare the file
/// with one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChecksumSpec {
    /// How it is computed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub algorithm: ChecksumAlgorithm,
    /// A checksum file, as the account sees it; placeholders as in `deliver`. The step fails unless
    /// it has the checksum of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<String>,
}

/// How a checksum is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChecksumAlgorithm {
    /// Shows accidents, no intent.
    Md5,
    /// Shows accidents, no intent.
    Sha1,
    /// As most partners expect it.
    #[default]
    Sha256,
    /// The longest one.
    Sha512,
}
