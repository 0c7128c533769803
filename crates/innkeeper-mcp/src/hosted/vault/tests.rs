use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

const CANARY: &str = "canary-token-8c1f";
const REFRESH_CANARY: &str = "canary-refresh-77aa";

struct TempVault {
    directory: tempfile::TempDir,
    vault: Vault,
}

impl TempVault {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("data")).unwrap();
        let vault = Vault::new(
            directory.path().join("data/mcp-tokens"),
            directory.path().join("config/innkeeper/key"),
        );
        Self { directory, vault }
    }

    fn with_tokens() -> Self {
        let scene = Self::new();
        scene
            .vault
            .save(&[token("https://a.test"), token("https://b.test")])
            .unwrap();
        scene
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.vault.file).unwrap()
    }

    /// Nothing can be read, the host goes on, and new tokens can be persisted.
    fn is_lost(&self, why: &str) {
        let trouble = self.vault.read().unwrap_err().to_string();
        assert!(trouble.contains(why), "{trouble}");
        assert_eq!(self.vault.load(), []);
    }
}

fn token(resource: &str) -> SavedToken {
    SavedToken {
        resource: resource.to_owned(),
        token: CANARY.to_owned(),
        scopes: Some(vec!["read".to_owned()]),
        expires_at: Some(4_000_000_000),
        servers: vec!["https://mcp.test/here".to_owned()],
        given_by: "ann".to_owned(),
        authorization_servers: vec!["https://login.test".to_owned()],
        refresh: Some(SavedRefresh {
            refresh_token: Some(REFRESH_CANARY.to_owned()),
            token_endpoint: "https://login.test/token".to_owned(),
            revocation_endpoint: None,
            client_id: "client".to_owned(),
            client_secret: None,
            client_auth: "none".to_owned(),
        }),
    }
}

#[test]
fn t23_persisted_tokens_cannot_be_read_in_the_files() {
    let scene = TempVault::with_tokens();
    assert_eq!(
        scene.vault.read().unwrap(),
        [token("https://a.test"), token("https://b.test")]
    );
    let bytes = scene.bytes();
    for secret in [CANARY, REFRESH_CANARY, "a.test", "ann"] {
        let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!found, "{secret}");
    }
    for path in [&scene.vault.file, &scene.vault.key] {
        assert_eq!(
            fs::metadata(path).unwrap().permissions().mode() & 0o777,
            0o600,
            "{path:?}"
        );
    }
    let config = scene.directory.path().join("config");
    assert_eq!(fs::metadata(config).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::read_dir(scene.directory.path().join("data")).unwrap().count(), 1);
}

#[test]
fn auth05_revoked_tokens_are_removed_from_the_file() {
    let scene = TempVault::with_tokens();
    scene.vault.save(&[token("https://b.test")]).unwrap();
    assert_eq!(scene.vault.read().unwrap(), [token("https://b.test")]);
    scene.vault.save(&[]).unwrap();
    assert!(!scene.vault.file.exists());
    assert_eq!(scene.vault.read().unwrap(), []);
}

#[test]
fn a_change_of_any_byte_is_detected() {
    let scene = TempVault::with_tokens();
    let whole = scene.bytes();
    for index in 0..whole.len() {
        let mut changed = whole.clone();
        changed[index] ^= 0x40;
        fs::write(&scene.vault.file, &changed).unwrap();
        assert!(scene.vault.read().is_err(), "byte {index}");
    }
    for length in 0..whole.len() {
        fs::write(&scene.vault.file, &whole[..length]).unwrap();
        assert!(scene.vault.read().is_err(), "{length} bytes");
    }
    let mut longer = whole.clone();
    longer.push(0);
    fs::write(&scene.vault.file, &longer).unwrap();
    scene.is_lost("damaged");
    fs::write(&scene.vault.file, &whole).unwrap();
    assert_eq!(scene.vault.read().unwrap().len(), 2);
}

#[test]
fn no_two_documents_have_the_same_nonce() {
    let scene = TempVault::with_tokens();
    let before = scene.bytes();
    scene
        .vault
        .save(&[token("https://a.test"), token("https://b.test")])
        .unwrap();
    assert_ne!(before, scene.bytes());
}

#[test]
fn another_version_another_key_and_no_key_are_reported() {
    let scene = TempVault::with_tokens();
    let whole = scene.bytes();
    let mut newer = whole.clone();
    newer[16] = 2;
    fs::write(&scene.vault.file, &newer).unwrap();
    scene.is_lost("another version");
    fs::write(&scene.vault.file, "something else").unwrap();
    scene.is_lost("not one of this program");
    fs::write(&scene.vault.file, &whole).unwrap();
    fs::write(&scene.vault.key, STANDARD_KEY).unwrap();
    scene.is_lost("another key");
    fs::write(&scene.vault.key, "no key").unwrap();
    scene.is_lost("is not a key");
    fs::remove_file(&scene.vault.key).unwrap();
    scene.is_lost("is missing");
    // Users sign in again, and that is persisted.
    scene.vault.save(&[token("https://c.test")]).unwrap();
    assert_eq!(scene.vault.read().unwrap(), [token("https://c.test")]);
}

/// 32 bytes that no scene uses.
const STANDARD_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

#[test]
fn a_copy_of_the_data_directory_alone_is_useless() {
    let scene = TempVault::with_tokens();
    let elsewhere = TempVault::new();
    fs::copy(&scene.vault.file, &elsewhere.vault.file).unwrap();
    elsewhere.is_lost("is missing");
}

#[test]
fn f17_the_size_of_the_vault_is_bounded() {
    let scene = TempVault::new();
    let mut large = token("https://large.test");
    large.token = "x".repeat(2000);
    let document = fitting(&[large, token("https://a.test")], 1000).unwrap();
    assert!(document.len() <= 1000);
    let document: Document = serde_json::from_slice(&document).unwrap();
    assert_eq!(document.tokens, [token("https://a.test")]);
    fs::write(&scene.vault.file, vec![0; MAX_BYTES + seal::OVERHEAD + 1]).unwrap();
    scene.is_lost("too large");
}

#[test]
fn auth12_a_saved_token_is_not_shown() {
    let shown = format!("{:?} {:?}", token("https://a.test"), token("https://a.test").refresh);
    assert!(!shown.contains("canary"), "{shown}");
}

#[test]
fn t23_temporary_files_of_a_killed_host_are_removed() {
    let scene = TempVault::with_tokens();
    let place = |name: &str| scene.directory.path().join(name);
    let (left, young, old) = (
        place("data/.mcp-tokens-abc"),
        place("config/innkeeper/.mcp-tokens-abc"),
        place("config/innkeeper/.mcp-tokens-def"),
    );
    for path in [&left, &young, &old] {
        fs::write(path, "half").unwrap();
    }
    let an_hour_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
    let file = fs::File::options().write(true).open(&old).unwrap();
    file.set_modified(an_hour_ago).unwrap();
    assert_eq!(scene.vault.load().len(), 2, "and nothing else");
    assert!(!left.exists() && !old.exists());
    assert!(young.exists(), "another host may be at it");
}
