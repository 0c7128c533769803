//! The files of one-time codes and devices: one file each, named after the digest of its secret.
//!
//! A file appears and disappears as a whole, so the program and the host need no lock: a code is used by the process that
//! removes its file, and a device is revoked once its file is gone.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use innkeeper_cli::discovery::{DataDir, unusable, write_atomically};
use innkeeper_cli::failure::Failure;
use innkeeper_host::access::Scope;
use innkeeper_host::web::{Device, Devices, NewDevice};
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// How long a code can be used.
const CODE_LIFETIME: SignedDuration = SignedDuration::from_mins(10);

/// Characters of the digest that make up the id of a device.
const ID_CHARS: usize = 12;

/// Most devices that can be signed in; beyond it the oldest is signed out.
const MAX_DEVICES: usize = 100;

/// Longest name of a device.
const MAX_NAME: usize = 80;

/// The rights that a code gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) scope: Scope,
    pub(crate) days: u32,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct CodeRecord {
    scope: String,
    days: u32,
    expires_at: String,
}

/// A device as it is stored.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeviceRecord {
    digest: String,
    pub(crate) name: String,
    pub(crate) scope: String,
    pub(crate) created_at: String,
    pub(crate) expires_at: String,
}

impl DeviceRecord {
    /// Returns the id of the device, which is not secret.
    pub(crate) fn id(&self) -> &str {
        self.digest.get(..ID_CHARS).unwrap_or(&self.digest)
    }

    /// Returns the device for other programs, as JSON.
    pub(crate) fn public(&self) -> serde_json::Value {
        serde_json::json!({
            "id": self.id(), "name": self.name, "scope": self.scope,
            "createdAt": self.created_at, "expiresAt": self.expires_at,
        })
    }

    fn device(&self) -> Option<Device> {
        Some(Device {
            id: self.id().to_owned(),
            scope: scope_named(&self.scope)?,
        })
    }
}

/// The codes and devices of a data directory.
#[derive(Debug, Clone)]
pub(crate) struct DeviceStore {
    folder: PathBuf,
}

impl DeviceStore {
    /// Names the folder of a data directory, without touching it.
    pub(crate) fn new(dir: &DataDir) -> Self {
        Self {
            folder: dir.file("devices"),
        }
    }

    /// Describes a failure of the store.
    pub(crate) fn unusable(&self, error: &io::Error) -> Failure {
        unusable(&self.folder, error)
    }

    /// Creates a one-time code, and removes codes that have expired.
    pub(crate) fn create_code(&self, grant: Grant) -> io::Result<String> {
        let codes = self.codes();
        DirBuilder::new().recursive(true).mode(0o700).create(&codes)?;
        for (path, code) in records::<CodeRecord>(&codes)? {
            if is_over(&code.expires_at) {
                remove_if_there(&path)?;
            }
        }
        let code = secret(16)?;
        let record = CodeRecord {
            scope: grant.scope.to_string(),
            days: grant.days,
            expires_at: (Timestamp::now() + CODE_LIFETIME).to_string(),
        };
        write(&codes.join(file_name(&digest(&code))), &record)?;
        Ok(code)
    }

    /// Returns the devices that are signed in, the latest first, and removes those that have expired.
    pub(crate) fn devices(&self) -> io::Result<Vec<DeviceRecord>> {
        let mut devices = Vec::new();
        for (path, device) in records::<DeviceRecord>(&self.folder)? {
            match is_over(&device.expires_at) {
                true => remove_if_there(&path)?,
                false => devices.push(device),
            }
        }
        devices.sort_by(|a, b| b.created_at.cmp(&a.created_at));
        Ok(devices)
    }

    /// Removes the device with an id.
    pub(crate) fn remove(&self, id: &str) -> io::Result<()> {
        for (path, device) in records::<DeviceRecord>(&self.folder)? {
            if device.id() == id {
                remove_if_there(&path)?;
            }
        }
        Ok(())
    }

    fn codes(&self) -> PathBuf {
        self.folder.join("codes")
    }

    fn try_redeem(&self, code: &str, user_agent: &str) -> io::Result<Option<NewDevice>> {
        let path = self.codes().join(file_name(&digest(code)));
        let Some(record) = read::<CodeRecord>(&path)? else {
            return Ok(None);
        };
        // Of several browsers with the same code, one removes the file.
        match fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
        if is_over(&record.expires_at) {
            return Ok(None);
        }
        let secret = secret(32)?;
        let lifetime = SignedDuration::from_hours(24 * i64::from(record.days));
        let now = Timestamp::now();
        let device = DeviceRecord {
            digest: digest(&secret),
            name: device_name(user_agent),
            scope: record.scope,
            created_at: now.to_string(),
            expires_at: now.saturating_add(lifetime).map_err(io::Error::other)?.to_string(),
        };
        write(&self.folder.join(file_name(&device.digest)), &device)?;
        for surplus in self.devices()?.into_iter().skip(MAX_DEVICES) {
            self.remove(surplus.id())?;
        }
        let max_age = u64::try_from(lifetime.as_secs()).unwrap_or_default();
        Ok(device.device().map(|device| NewDevice {
            device,
            secret,
            max_age,
        }))
    }
}

impl Devices for DeviceStore {
    fn redeem(&self, code: &str, user_agent: &str) -> Option<NewDevice> {
        self.try_redeem(code, user_agent).unwrap_or_else(|error| {
            tracing::warn!(%error, "a browser could not sign in");
            None
        })
    }

    fn find(&self, secret: &str) -> Option<Device> {
        let path = self.folder.join(file_name(&digest(secret)));
        let device: DeviceRecord = read(&path).ok()??;
        (!is_over(&device.expires_at)).then(|| device.device())?
    }

    fn is_valid(&self, id: &str) -> bool {
        let devices = records::<DeviceRecord>(&self.folder).unwrap_or_default();
        devices
            .iter()
            .any(|(_, device)| device.id() == id && !is_over(&device.expires_at))
    }

    fn sign_out(&self, id: &str) {
        if let Err(error) = self.remove(id) {
            tracing::warn!(%error, "a device could not be signed out");
        }
    }
}

fn scope_named(name: &str) -> Option<Scope> {
    [Scope::View, Scope::Drive, Scope::Admin]
        .into_iter()
        .find(|scope| scope.to_string() == name)
}

fn secret(bytes: usize) -> io::Result<String> {
    let mut random = vec![0; bytes];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    Ok(URL_SAFE_NO_PAD.encode(random))
}

fn digest(secret: &str) -> String {
    Sha256::digest(secret.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn file_name(digest: &str) -> String {
    format!("{digest}.json")
}

/// A time that cannot be read has passed.
fn is_over(expires_at: &str) -> bool {
    expires_at
        .parse::<Timestamp>()
        .map_or(true, |time| time <= Timestamp::now())
}

/// Returns the browser and the system of a user agent, such as "Firefox on Android".
fn device_name(user_agent: &str) -> String {
    let first = |names: &[(&str, &str)], fallback: &str| {
        let found = names.iter().find(|(mark, _)| user_agent.contains(mark));
        found.map_or(fallback, |(_, name)| name).to_owned()
    };
    let browser = first(
        &[
            ("Edg/", "Edge"),
            ("Firefox/", "Firefox"),
            ("FxiOS/", "Firefox"),
            ("CriOS/", "Chrome"),
            ("Chrome/", "Chrome"),
            ("Safari/", "Safari"),
        ],
        "A browser",
    );
    let system = first(
        &[
            ("iPhone", "iPhone"),
            ("iPad", "iPad"),
            ("Android", "Android"),
            ("Windows", "Windows"),
            ("Mac OS X", "macOS"),
            ("Linux", "Linux"),
        ],
        "an unknown system",
    );
    format!("{browser} on {system}").chars().take(MAX_NAME).collect()
}

fn write(path: &Path, record: &impl Serialize) -> io::Result<()> {
    write_atomically(path, &serde_json::to_vec(record)?)
}

fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the records of a folder with their paths. Temporary files and files that cannot be read are left out.
fn records<T: DeserializeOwned>(folder: &Path) -> io::Result<Vec<(PathBuf, T)>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json")
            && let Some(record) = read(&path)?
        {
            found.push((path, record));
        }
    }
    Ok(found)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const GRANT: Grant = Grant {
        scope: Scope::Drive,
        days: 7,
    };

    fn store() -> (tempfile::TempDir, DeviceStore) {
        let root = tempfile::tempdir().unwrap();
        let store = DeviceStore::new(&DataDir::prepare(root.path()).unwrap());
        (root, store)
    }

    #[test]
    fn code_is_used_once() {
        let (_root, store) = store();
        let code = store.create_code(GRANT).unwrap();
        let new = store.redeem(&code, "Mozilla/5.0 (X11; Linux) Chrome/1").unwrap();
        assert_eq!(new.device.scope, Scope::Drive);
        assert_eq!(new.max_age, 7 * 24 * 3600);
        assert_eq!(store.find(&new.secret), Some(new.device));
        assert_eq!(store.devices().unwrap()[0].name, "Chrome on Linux");
        assert!(store.redeem(&code, "").is_none(), "used twice");
        assert!(store.redeem("unknown", "").is_none());
        assert_eq!(store.find(&code), None, "a code is not a secret of a device");
    }

    #[test]
    fn code_and_device_expire() {
        let (_root, store) = store();
        let code = store.create_code(GRANT).unwrap();
        let path = store.codes().join(file_name(&digest(&code)));
        let mut record: CodeRecord = read(&path).unwrap().unwrap();
        record.expires_at = "2020-01-01T00:00:00Z".to_owned();
        write(&path, &record).unwrap();
        assert!(store.redeem(&code, "").is_none());

        let new = store
            .redeem(&store.create_code(Grant { days: 0, ..GRANT }).unwrap(), "")
            .unwrap();
        assert_eq!(store.find(&new.secret), None);
        assert!(!store.is_valid(&new.device.id));
        assert!(store.devices().unwrap().is_empty());
    }

    #[test]
    fn revoked_device_is_unknown() {
        let (_root, store) = store();
        let new = store.redeem(&store.create_code(GRANT).unwrap(), "").unwrap();
        let other = store.redeem(&store.create_code(GRANT).unwrap(), "").unwrap();
        assert!(store.is_valid(&new.device.id));
        store.remove(&new.device.id).unwrap();
        assert_eq!(store.find(&new.secret), None);
        assert!(!store.is_valid(&new.device.id));
        assert!(store.is_valid(&other.device.id));
    }

    #[test]
    fn files_hold_no_secret_and_belong_to_one_user() {
        let (root, store) = store();
        let code = store.create_code(GRANT).unwrap();
        let new = store.redeem(&code, "").unwrap();
        let waiting = store.create_code(GRANT).unwrap();
        for folder in [store.codes(), store.folder.clone()] {
            for (path, record) in records::<serde_json::Value>(&folder).unwrap() {
                assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
                let text = format!("{} {record}", path.display());
                assert!(!text.contains(&new.secret) && !text.contains(&waiting), "{text}");
            }
        }
        assert_eq!(fs::metadata(store.codes()).unwrap().permissions().mode() & 0o777, 0o700);
        drop(root);
    }
}
