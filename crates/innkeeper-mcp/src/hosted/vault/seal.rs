//! Authenticated encryption of the vault.
//!
//! A sealed document begins with a magic number and a version, followed by a random nonce and the document encrypted with
//! ChaCha20-Poly1305 (RFC 8439). The beginning is authenticated too. Documents are few, so a random nonce of 96 bits does not
//! repeat.

use std::io;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};

use super::file::Key;

/// The magic number.
const MAGIC: &[u8] = b"innkeeper tokens";
/// The version of the format.
const VERSION: u8 = 1;
const HEADER: usize = MAGIC.len() + 1;

/// The overhead of a sealed document.
pub(super) const OVERHEAD: usize = HEADER + NONCE_LEN + 16;

pub(super) fn seal(key: &Key, document: &[u8]) -> io::Result<Vec<u8>> {
    let mut nonce = [0; NONCE_LEN];
    random(&mut nonce)?;
    let mut header = MAGIC.to_vec();
    header.push(VERSION);
    let mut sealed = document.to_vec();
    cipher(key)
        .and_then(|cipher| {
            let nonce = Nonce::assume_unique_for_key(nonce);
            cipher.seal_in_place_append_tag(nonce, Aad::from(&header), &mut sealed)
        })
        .map_err(|_| io::Error::other("it cannot be encrypted"))?;
    let mut whole = header;
    whole.extend_from_slice(&nonce);
    whole.append(&mut sealed);
    Ok(whole)
}

/// Describes why a document cannot be opened.
pub(super) fn open(key: &Key, whole: &[u8]) -> Result<Vec<u8>, &'static str> {
    let damaged = "the file is damaged, or was sealed with another key";
    let Some(rest) = whole.strip_prefix(MAGIC) else {
        return Err("the file is not one of this program, or is damaged");
    };
    let (version, rest) = rest.split_first().ok_or(damaged)?;
    if *version != VERSION {
        return Err("the file is of another version of this program, or is damaged");
    }
    let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>().ok_or(damaged)?;
    let header = whole.get(..HEADER).ok_or(damaged)?;
    let mut sealed = sealed.to_vec();
    let cipher = cipher(key).map_err(|_| damaged)?;
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let opened = cipher.open_in_place(nonce, Aad::from(header), &mut sealed);
    opened.map(|document| document.to_vec()).map_err(|_| damaged)
}

pub(super) fn random(bytes: &mut [u8]) -> io::Result<()> {
    let drawn = SystemRandom::new().fill(bytes);
    drawn.map_err(|_| io::Error::other("the operating system gave no random bytes"))
}

fn cipher(key: &Key) -> Result<LessSafeKey, ring::error::Unspecified> {
    Ok(LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key.bytes())?))
}
