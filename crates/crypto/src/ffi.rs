//! The functions of AWS-LC that messages of AS2 need and `aws-lc-rs` has no streaming or raw form
//! of: ciphers fed piece by piece, signatures of finished digests, transport of content keys.
//!
//! Everything that is unsafe in this crate is here. Each wrapper owns what it allocated, hands C
//! only slices that live through the call, and reads a return value before anything it filled.

use std::ffi::{CStr, c_int};
use std::ptr::{NonNull, null, null_mut};

use aws_lc_sys as c;
use zeroize::Zeroizing;

use crate::algorithms::{ContentCipher, DigestAlgorithm};

/// A function of AWS-LC refused. It keeps no reason: callers must not tell causes apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused;

/// The reasons that C noted for this thread are dropped, so that none is found by other code.
fn refused<T>() -> Result<T, Refused> {
    // SAFETY: the queue of errors is the thread's own; clearing it has no precondition.
    unsafe { c::ERR_clear_error() };
    Err(Refused)
}

fn check(returned: c_int) -> Result<(), Refused> {
    if returned == 1 { Ok(()) } else { refused() }
}

fn evp_cipher(cipher: ContentCipher) -> *const c::EVP_CIPHER {
    // SAFETY: these return pointers to static tables.
    unsafe {
        match cipher {
            ContentCipher::Aes128Cbc => c::EVP_aes_128_cbc(),
            ContentCipher::Aes192Cbc => c::EVP_aes_192_cbc(),
            ContentCipher::Aes256Cbc => c::EVP_aes_256_cbc(),
            ContentCipher::Aes128Gcm => c::EVP_aes_128_gcm(),
            ContentCipher::Aes192Gcm => c::EVP_aes_192_gcm(),
            ContentCipher::Aes256Gcm => c::EVP_aes_256_gcm(),
            ContentCipher::TripleDesCbc => c::EVP_des_ede3_cbc(),
        }
    }
}

fn evp_digest(algorithm: DigestAlgorithm) -> *const c::EVP_MD {
    // SAFETY: these return pointers to static tables.
    unsafe {
        match algorithm {
            DigestAlgorithm::Sha1 => c::EVP_sha1(),
            DigestAlgorithm::Sha256 => c::EVP_sha256(),
            DigestAlgorithm::Sha384 => c::EVP_sha384(),
            DigestAlgorithm::Sha512 => c::EVP_sha512(),
        }
    }
}

/// Which way a cipher turns bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Encrypt,
    Decrypt,
}

/// A cipher that is fed piece by piece.
pub(crate) struct Cipher(NonNull<c::EVP_CIPHER_CTX>);

// SAFETY: the context belongs to this value alone, and C keeps nothing of it per thread.
unsafe impl Send for Cipher {}

impl Cipher {
    /// Key and IV have the lengths that `cipher` names, or it is refused.
    pub(crate) fn new(
        cipher: ContentCipher,
        way: Way,
        key: &[u8],
        iv: &[u8],
    ) -> Result<Self, Refused> {
        let iv_fits = if cipher.is_gcm() { !iv.is_empty() } else { iv.len() == cipher.iv_bytes() };
        let iv_bytes = c_int::try_from(iv.len()).or(Err(Refused))?;
        if key.len() != cipher.key_bytes() || !iv_fits {
            return Err(Refused);
        }
        // SAFETY: takes nothing; returns null or a context that this value owns.
        let made = NonNull::new(unsafe { c::EVP_CIPHER_CTX_new() });
        let context = Cipher(made.ok_or(Refused)?);
        let (evp, raw) = (evp_cipher(cipher), context.0.as_ptr());
        let encrypt = c_int::from(way == Way::Encrypt);
        // SAFETY: the context is ours; null key and IV say that they follow.
        check(unsafe { c::EVP_CipherInit_ex(raw, evp, null_mut(), null(), null(), encrypt) })?;
        if cipher.is_gcm() {
            let command = c::EVP_CTRL_AEAD_SET_IVLEN;
            // SAFETY: the context is initialized as GCM; this command reads no pointer.
            check(unsafe { c::EVP_CIPHER_CTX_ctrl(raw, command, iv_bytes, null_mut()) })?;
        }
        let (key, iv) = (key.as_ptr(), iv.as_ptr());
        // SAFETY: key and IV have exactly the lengths that the context now expects, seen above.
        check(unsafe { c::EVP_CipherInit_ex(raw, null(), null_mut(), key, iv, encrypt) })?;
        Ok(context)
    }

    /// Appends to `output` what `input` turned into; up to a block stays inside.
    pub(crate) fn update(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), Refused> {
        const BLOCK: usize = 16;
        let length = c_int::try_from(input.len()).or(Err(Refused))?;
        let start = output.len();
        output.resize(start + input.len() + BLOCK, 0);
        let Some(space) = output.get_mut(start..) else { return Err(Refused) };
        let mut written: c_int = 0;
        let (to, from) = (space.as_mut_ptr(), input.as_ptr());
        // SAFETY: `space` has input plus a block of bytes, the most that an update writes.
        let returned =
            unsafe { c::EVP_CipherUpdate(self.0.as_ptr(), to, &raw mut written, from, length) };
        output.truncate(start + usize::try_from(written).unwrap_or(0));
        check(returned)
    }

    /// Appends the last block: padded, or with its padding checked and taken off. Of GCM, whether
    /// the tag is right.
    pub(crate) fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), Refused> {
        let mut block = [0u8; 32];
        let mut written: c_int = 0;
        let to = block.as_mut_ptr();
        // SAFETY: writes at most one block of 16 bytes into 32.
        let returned = unsafe { c::EVP_CipherFinal_ex(self.0.as_ptr(), to, &raw mut written) };
        check(returned)?;
        let written = usize::try_from(written).unwrap_or(0);
        output.extend_from_slice(block.get(..written).unwrap_or_default());
        Ok(())
    }

    /// The tag of GCM that decryption has to end with.
    pub(crate) fn expect_tag(&mut self, tag: &[u8]) -> Result<(), Refused> {
        if tag.len() > 16 {
            return Err(Refused);
        }
        let mut copy = [0u8; 16];
        copy.iter_mut().zip(tag).for_each(|(to, from)| *to = *from);
        let (command, length) = (c::EVP_CTRL_AEAD_SET_TAG, tag.len() as c_int);
        let from = copy.as_mut_ptr().cast();
        // SAFETY: C copies `length` bytes, at most the 16 of `copy`.
        check(unsafe { c::EVP_CIPHER_CTX_ctrl(self.0.as_ptr(), command, length, from) })
    }

    /// The tag of GCM after encryption has finished.
    pub(crate) fn tag(&mut self) -> Result<[u8; 16], Refused> {
        let mut tag = [0u8; 16];
        let (command, to) = (c::EVP_CTRL_AEAD_GET_TAG, tag.as_mut_ptr().cast());
        // SAFETY: C writes the 16 bytes that it is told `tag` has.
        check(unsafe { c::EVP_CIPHER_CTX_ctrl(self.0.as_ptr(), command, 16, to) })?;
        Ok(tag)
    }
}

impl Drop for Cipher {
    fn drop(&mut self) {
        // SAFETY: made by `EVP_CIPHER_CTX_new`, freed once; C wipes keys when it frees.
        unsafe { c::EVP_CIPHER_CTX_free(self.0.as_ptr()) };
    }
}

/// What a key is asked to do, of the operations that have a context of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Sign,
    Verify,
    Encrypt,
    Decrypt,
    Derive,
}

/// How an RSA key pads. Of ECDSA, nothing is padded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Padding {
    /// What ECDSA has.
    None,
    /// PKCS #1 v1.5.
    Pkcs1,
    /// PSS, its mask and message hashed alike; the salt's length where it is known beforehand.
    Pss { mask: DigestAlgorithm, salt: Option<u16> },
    /// OAEP without a label.
    Oaep { digest: DigestAlgorithm, mask: DigestAlgorithm },
}

/// A public or private key.
pub(crate) struct Pkey(NonNull<c::EVP_PKEY>);

// SAFETY: nothing here changes a key after it was parsed, and AWS-LC lets threads share one then
// (evp.h, "non-mutating functions"); blinding of RSA has a lock of its own.
unsafe impl Send for Pkey {}
// SAFETY: as above.
unsafe impl Sync for Pkey {}

impl Pkey {
    /// A SubjectPublicKeyInfo of DER (RFC 5280 §4.1), the whole of it.
    pub(crate) fn public(spki: &[u8]) -> Result<Self, Refused> {
        Self::parsed(spki, c::EVP_parse_public_key)
    }

    /// A PrivateKeyInfo of DER (PKCS #8), the whole of it.
    pub(crate) fn private(pkcs8: &[u8]) -> Result<Self, Refused> {
        Self::parsed(pkcs8, c::EVP_parse_private_key)
    }

    fn parsed(
        der: &[u8],
        parse: unsafe extern "C" fn(*mut c::CBS) -> *mut c::EVP_PKEY,
    ) -> Result<Self, Refused> {
        let mut cbs = c::CBS { data: der.as_ptr(), len: der.len() };
        // SAFETY: the CBS spans `der`; the parsers read within it and return null or a new key.
        let key = NonNull::new(unsafe { parse(&raw mut cbs) });
        match key.map(Pkey) {
            Some(key) if cbs.len == 0 => Ok(key),
            _ => refused(),
        }
    }

    pub(crate) fn is_rsa(&self) -> bool {
        // SAFETY: reads the kind of a live key.
        unsafe { c::EVP_PKEY_id(self.0.as_ptr()) == c::EVP_PKEY_RSA }
    }

    pub(crate) fn is_ec(&self) -> bool {
        // SAFETY: reads the kind of a live key.
        unsafe { c::EVP_PKEY_id(self.0.as_ptr()) == c::EVP_PKEY_EC }
    }

    /// The most bytes of a signature, and of RSA the exact number.
    pub(crate) fn size_bytes(&self) -> usize {
        // SAFETY: reads the size of a live key.
        usize::try_from(unsafe { c::EVP_PKEY_size(self.0.as_ptr()) }).unwrap_or(0)
    }

    pub(crate) fn bits(&self) -> usize {
        // SAFETY: reads the size of a live key.
        usize::try_from(unsafe { c::EVP_PKEY_bits(self.0.as_ptr()) }).unwrap_or(0)
    }

    /// Whether the public halves are the same.
    pub(crate) fn same_public(&self, other: &Pkey) -> bool {
        // SAFETY: compares two live keys and changes neither.
        unsafe { c::EVP_PKEY_cmp(self.0.as_ptr(), other.0.as_ptr()) == 1 }
    }

    pub(crate) fn sign(
        &self,
        padding: Padding,
        algorithm: DigestAlgorithm,
        digest: &[u8],
    ) -> Result<Vec<u8>, Refused> {
        let context = Context::new(self, Operation::Sign)?;
        context.pad(padding)?;
        context.digest(algorithm)?;
        context.fill(digest, self.size_bytes(), c::EVP_PKEY_sign)
    }

    pub(crate) fn verify(
        &self,
        padding: Padding,
        algorithm: DigestAlgorithm,
        digest: &[u8],
        signature: &[u8],
    ) -> Result<(), Refused> {
        let context = Context::new(self, Operation::Verify)?;
        context.pad(padding)?;
        context.digest(algorithm)?;
        let (raw, sig, from) = (context.0.as_ptr(), signature.as_ptr(), digest.as_ptr());
        // SAFETY: both slices are read within their lengths.
        check(unsafe { c::EVP_PKEY_verify(raw, sig, signature.len(), from, digest.len()) })
    }

    pub(crate) fn encrypt(&self, padding: Padding, plain: &[u8]) -> Result<Vec<u8>, Refused> {
        let context = Context::new(self, Operation::Encrypt)?;
        context.pad(padding)?;
        context.fill(plain, self.size_bytes(), c::EVP_PKEY_encrypt)
    }

    pub(crate) fn decrypt(&self, padding: Padding, sealed: &[u8]) -> Result<Vec<u8>, Refused> {
        let context = Context::new(self, Operation::Decrypt)?;
        context.pad(padding)?;
        context.fill(sealed, self.size_bytes(), c::EVP_PKEY_decrypt)
    }

    /// The secret that this private key and a public one of the same curve have in common.
    pub(crate) fn derive(&self, peer: &Pkey) -> Result<Vec<u8>, Refused> {
        let context = Context::new(self, Operation::Derive)?;
        let raw = context.0.as_ptr();
        // SAFETY: both are live; the context counts a reference to the peer's key. A key of another
        // kind or curve is refused.
        check(unsafe { c::EVP_PKEY_derive_set_peer(raw, peer.0.as_ptr()) })?;
        // The longest coordinate is that of P-521.
        let mut secret = vec![0u8; 66];
        let (to, mut length) = (secret.as_mut_ptr(), secret.len());
        // SAFETY: writes at most `length` bytes, which `secret` has, and says how many.
        check(unsafe { c::EVP_PKEY_derive(raw, to, &raw mut length) })?;
        secret.truncate(length);
        Ok(secret)
    }

    /// RSA without any padding taken off: as many bytes as the modulus has.
    pub(crate) fn decrypt_raw(&self, sealed: &[u8]) -> Result<Vec<u8>, Refused> {
        // SAFETY: borrows the RSA key of a live key, or null where it is none.
        let rsa = unsafe { c::EVP_PKEY_get0_RSA(self.0.as_ptr()) };
        if rsa.is_null() {
            return refused();
        }
        let mut plain = vec![0u8; self.size_bytes()];
        let (to, space, mut written) = (plain.as_mut_ptr(), plain.len(), 0usize);
        let (from, length, none) = (sealed.as_ptr(), sealed.len(), c::RSA_NO_PADDING);
        // SAFETY: writes at most `space` bytes, which `plain` has, and reads `length` of `sealed`.
        let returned =
            unsafe { c::RSA_decrypt(rsa, &raw mut written, to, space, from, length, none) };
        check(returned)?;
        plain.truncate(written);
        Ok(plain)
    }
}

impl Drop for Pkey {
    fn drop(&mut self) {
        // SAFETY: made by a parser above, freed once.
        unsafe { c::EVP_PKEY_free(self.0.as_ptr()) };
    }
}

/// One operation of a key.
struct Context(NonNull<c::EVP_PKEY_CTX>);

/// The shape that signing, encrypting and decrypting share.
type Filling =
    unsafe extern "C" fn(*mut c::EVP_PKEY_CTX, *mut u8, *mut usize, *const u8, usize) -> c_int;

impl Context {
    fn new(key: &Pkey, operation: Operation) -> Result<Self, Refused> {
        // SAFETY: the context counts a reference to the key; null says that no engine is used.
        let made = NonNull::new(unsafe { c::EVP_PKEY_CTX_new(key.0.as_ptr(), null_mut()) });
        let context = Context(made.ok_or(Refused)?);
        let raw = context.0.as_ptr();
        // SAFETY: the context is new and live.
        check(unsafe {
            match operation {
                Operation::Sign => c::EVP_PKEY_sign_init(raw),
                Operation::Verify => c::EVP_PKEY_verify_init(raw),
                Operation::Encrypt => c::EVP_PKEY_encrypt_init(raw),
                Operation::Decrypt => c::EVP_PKEY_decrypt_init(raw),
                Operation::Derive => c::EVP_PKEY_derive_init(raw),
            }
        })?;
        Ok(context)
    }

    fn digest(&self, algorithm: DigestAlgorithm) -> Result<(), Refused> {
        // SAFETY: the digest is a static table.
        check(unsafe { c::EVP_PKEY_CTX_set_signature_md(self.0.as_ptr(), evp_digest(algorithm)) })
    }

    fn pad(&self, padding: Padding) -> Result<(), Refused> {
        let raw = self.0.as_ptr();
        // SAFETY: each call sets a value of a live context; digests are static tables. A context of
        // a key that is not RSA refuses.
        unsafe {
            match padding {
                Padding::None => Ok(()),
                Padding::Pkcs1 => check(c::EVP_PKEY_CTX_set_rsa_padding(raw, c::RSA_PKCS1_PADDING)),
                Padding::Pss { mask, salt } => {
                    // -2 has the verifier find the length in the signature.
                    let salt = salt.map_or(-2, c_int::from);
                    check(c::EVP_PKEY_CTX_set_rsa_padding(raw, c::RSA_PKCS1_PSS_PADDING))?;
                    check(c::EVP_PKEY_CTX_set_rsa_pss_saltlen(raw, salt))?;
                    check(c::EVP_PKEY_CTX_set_rsa_mgf1_md(raw, evp_digest(mask)))
                }
                Padding::Oaep { digest, mask } => {
                    check(c::EVP_PKEY_CTX_set_rsa_padding(raw, c::RSA_PKCS1_OAEP_PADDING))?;
                    check(c::EVP_PKEY_CTX_set_rsa_oaep_md(raw, evp_digest(digest)))?;
                    check(c::EVP_PKEY_CTX_set_rsa_mgf1_md(raw, evp_digest(mask)))
                }
            }
        }
    }

    fn fill(&self, input: &[u8], space: usize, run: Filling) -> Result<Vec<u8>, Refused> {
        let mut output = vec![0u8; space];
        let mut length = output.len();
        let (raw, to) = (self.0.as_ptr(), output.as_mut_ptr());
        // SAFETY: writes at most `length` bytes, which `output` has, and says how many.
        let returned = unsafe { run(raw, to, &raw mut length, input.as_ptr(), input.len()) };
        check(returned)?;
        output.truncate(length);
        Ok(output)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by `EVP_PKEY_CTX_new`, freed once.
        unsafe { c::EVP_PKEY_CTX_free(self.0.as_ptr()) };
    }
}

/// Functions of the same library whose bindings `aws-lc-sys` has only with `all-bindings`, which
/// would build the library anew for everything that uses it. Names have the version of the library
/// in front: with another one they do not link, and are to be changed here.
mod more {
    use std::ffi::{c_char, c_int, c_void};

    use aws_lc_sys as c;

    /// The library of errors that is about PKCS #8: how a key is encrypted (`err.h`).
    pub(super) const ERR_LIB_PKCS8: u32 = 19;
    /// Library and reason of a wrong password of PKCS #12: its code of authentication does not fit
    /// (`err.h`, `pkcs8.h`).
    pub(super) const WRONG_PASSWORD: (u32, u32) = (35, 108);

    /// `OPENSSL_STACK`, of which only C knows the inside.
    #[repr(C)]
    pub(super) struct Stack {
        _inside: [u8; 0],
    }

    unsafe extern "C" {
        #[link_name = "aws_lc_0_47_0_OPENSSL_sk_new_null"]
        pub(super) fn sk_new_null() -> *mut Stack;
        #[link_name = "aws_lc_0_47_0_OPENSSL_sk_num"]
        pub(super) fn sk_num(stack: *const Stack) -> usize;
        #[link_name = "aws_lc_0_47_0_OPENSSL_sk_value"]
        pub(super) fn sk_value(stack: *const Stack, at: usize) -> *mut c_void;
        #[link_name = "aws_lc_0_47_0_OPENSSL_sk_free"]
        pub(super) fn sk_free(stack: *mut Stack);
        #[link_name = "aws_lc_0_47_0_X509_free"]
        pub(super) fn x509_free(certificate: *mut c_void);
        #[link_name = "aws_lc_0_47_0_i2d_X509"]
        pub(super) fn i2d_x509(certificate: *mut c_void, out: *mut *mut u8) -> c_int;
        #[link_name = "aws_lc_0_47_0_PKCS12_get_key_and_certs"]
        pub(super) fn pkcs12_get_key_and_certs(
            key: *mut *mut c::EVP_PKEY,
            certificates: *mut Stack,
            input: *mut c::CBS,
            password: *const c_char,
        ) -> c_int;
        #[link_name = "aws_lc_0_47_0_PKCS7_get_certificates"]
        pub(super) fn pkcs7_get_certificates(certificates: *mut Stack, input: *mut c::CBS)
        -> c_int;
        #[link_name = "aws_lc_0_47_0_PKCS8_parse_encrypted_private_key"]
        pub(super) fn pkcs8_parse_encrypted_private_key(
            input: *mut c::CBS,
            password: *const c_char,
            length: usize,
        ) -> *mut c::EVP_PKEY;
    }
}

/// What a file with certificates holds, as DER.
#[derive(Default)]
pub(crate) struct Contained {
    pub(crate) certificates: Vec<Vec<u8>>,
    /// As PKCS #8.
    pub(crate) key: Option<Zeroizing<Vec<u8>>>,
}

/// Why a file with certificates is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotContained {
    /// The password is another one.
    Password,
    /// It is damaged, or uses what is not known here.
    Unreadable,
}

/// Library and reason that C noted, which are dropped there: who opens a file of his own may know.
fn cause() -> (u32, u32) {
    // SAFETY: the queue of errors is the thread's own; reading and clearing it has no precondition.
    let error = unsafe {
        let error = c::ERR_peek_last_error();
        c::ERR_clear_error();
        error
    };
    // A packed error has its library in the first byte, and its reason in the last twelve bits.
    ((error >> 24) & 0xff, error & 0xfff)
}

fn why_not() -> NotContained {
    if cause() == more::WRONG_PASSWORD { NotContained::Password } else { NotContained::Unreadable }
}

/// Certificates of C.
struct CertificateStack(NonNull<more::Stack>);

impl CertificateStack {
    fn new() -> Result<Self, NotContained> {
        // SAFETY: takes nothing; returns null or a stack that this value owns.
        let made = NonNull::new(unsafe { more::sk_new_null() });
        made.map(CertificateStack).ok_or(NotContained::Unreadable)
    }

    fn raw(&self) -> *mut more::Stack {
        self.0.as_ptr()
    }

    fn der(&self) -> Result<Vec<Vec<u8>>, NotContained> {
        let mut all = Vec::new();
        // SAFETY: the stack is live.
        let count = unsafe { more::sk_num(self.0.as_ptr()) };
        for at in 0..count {
            // SAFETY: `at` is below the number of values, which are certificates.
            let certificate = unsafe { more::sk_value(self.0.as_ptr(), at) };
            let mut written: *mut u8 = null_mut();
            // SAFETY: a null pointer asks for memory of C's own, which is given back below.
            let length = unsafe { more::i2d_x509(certificate, &raw mut written) };
            let Ok(length @ 1..) = usize::try_from(length) else {
                return Err(NotContained::Unreadable);
            };
            // SAFETY: i2d_X509 wrote that many bytes there.
            all.push(unsafe { std::slice::from_raw_parts(written, length) }.to_vec());
            // SAFETY: it was allocated by C, and nothing refers to it any more.
            unsafe { c::OPENSSL_free(written.cast()) };
        }
        Ok(all)
    }
}

impl Drop for CertificateStack {
    fn drop(&mut self) {
        // SAFETY: as in `der`; the stack owns what it holds, and nothing refers to it any more.
        unsafe {
            for at in 0..more::sk_num(self.0.as_ptr()) {
                more::x509_free(more::sk_value(self.0.as_ptr(), at));
            }
            more::sk_free(self.0.as_ptr());
        }
    }
}

impl Pkey {
    /// As PKCS #8 of DER.
    fn to_pkcs8(&self) -> Result<Zeroizing<Vec<u8>>, NotContained> {
        let mut cbb = std::mem::MaybeUninit::<c::CBB>::uninit();
        // SAFETY: CBB_init fills it, or zeroes it and fails.
        if unsafe { c::CBB_init(cbb.as_mut_ptr(), 2_048) } != 1 {
            return Err(why_not());
        }
        // SAFETY: CBB_init has filled it.
        let mut cbb = unsafe { cbb.assume_init() };
        // SAFETY: the key is live, the CBB ready to be written.
        let written = unsafe { c::EVP_marshal_private_key(&raw mut cbb, self.0.as_ptr()) };
        let made = if written == 1 && unsafe { c::CBB_flush(&raw mut cbb) } == 1 {
            // SAFETY: it was flushed: that many bytes are there until it is cleaned up.
            let bytes = unsafe {
                std::slice::from_raw_parts(c::CBB_data(&raw const cbb), c::CBB_len(&raw const cbb))
            };
            Ok(Zeroizing::new(bytes.to_vec()))
        } else {
            Err(why_not())
        };
        // SAFETY: it is ours, and cleaned up once; C wipes what it frees.
        unsafe { c::CBB_cleanup(&raw mut cbb) };
        made
    }
}

/// What PKCS #12 holds (RFC 7292), under this password.
pub(crate) fn pkcs12(bytes: &[u8], password: &CStr) -> Result<Contained, NotContained> {
    let stack = CertificateStack::new()?;
    let mut cbs = c::CBS { data: bytes.as_ptr(), len: bytes.len() };
    let mut key: *mut c::EVP_PKEY = null_mut();
    // SAFETY: the CBS spans `bytes`, the password ends with its zero, key and stack are ours.
    let read = unsafe {
        more::pkcs12_get_key_and_certs(&raw mut key, stack.raw(), &raw mut cbs, password.as_ptr())
    };
    let key = NonNull::new(key).map(Pkey);
    if read != 1 {
        return Err(why_not());
    }
    let key = key.map(|key| key.to_pkcs8()).transpose()?;
    Ok(Contained { certificates: stack.der()?, key })
}

/// The certificates of PKCS #7 (RFC 2315 §9), whatever it signs.
pub(crate) fn pkcs7(bytes: &[u8]) -> Result<Contained, NotContained> {
    let stack = CertificateStack::new()?;
    let mut cbs = c::CBS { data: bytes.as_ptr(), len: bytes.len() };
    // SAFETY: the CBS spans `bytes`, the stack is ours.
    if unsafe { more::pkcs7_get_certificates(stack.raw(), &raw mut cbs) } != 1 {
        return Err(why_not());
    }
    Ok(Contained { certificates: stack.der()?, key: None })
}

/// A private key in whatever form of DER: PKCS #8, or the older ones of RSA and elliptic curves.
pub(crate) fn any_private_key(bytes: &[u8]) -> Result<Zeroizing<Vec<u8>>, NotContained> {
    let length = std::ffi::c_long::try_from(bytes.len()).or(Err(NotContained::Unreadable))?;
    let mut at = bytes.as_ptr();
    // SAFETY: it reads within `length` bytes from there, and returns null or a new key.
    let key = NonNull::new(unsafe { c::d2i_AutoPrivateKey(null_mut(), &raw mut at, length) });
    key.map(Pkey).ok_or_else(why_not)?.to_pkcs8()
}

/// A private key of PKCS #8 under a password.
pub(crate) fn encrypted_private_key(
    bytes: &[u8],
    password: &[u8],
) -> Result<Zeroizing<Vec<u8>>, NotContained> {
    let mut cbs = c::CBS { data: bytes.as_ptr(), len: bytes.len() };
    let (pass, length) = (password.as_ptr().cast(), password.len());
    // SAFETY: the CBS spans `bytes`, the password has that many bytes.
    let key = unsafe { more::pkcs8_parse_encrypted_private_key(&raw mut cbs, pass, length) };
    // What does not decrypt to a key was encrypted by another password, unless it is not known how.
    let key = NonNull::new(key).map(Pkey).ok_or_else(|| match cause() {
        (more::ERR_LIB_PKCS8, _) => NotContained::Unreadable,
        _ => NotContained::Password,
    });
    key?.to_pkcs8()
}
