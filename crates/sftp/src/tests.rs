//! The adapter with everything real around it: the transport, a Gate, a vfs, and clients.

mod clients;
mod corpus;
mod fixture;
mod objects;
mod scp;
mod wire;

use std::path::Path;

use entrepot_ssh::keys::KeyPair;

/// Writes a key pair as ssh wants it: readable by nobody else.
fn write_key(file: &Path, pair: &KeyPair) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(file, pair.private.expose()).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(file.with_extension("pub"), format!("{}\n", pair.public)).unwrap();
}

/// Bytes that differ at every place of a few MiB.
fn pattern(len: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
