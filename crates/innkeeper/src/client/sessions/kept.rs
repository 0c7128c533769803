//! The kept sessions without a host: who may touch them, and what their store says in our words.

use std::path::PathBuf;

use innkeeper_local::KeptContents;
use innkeeper_store::{Archive, ErrorKind, FILE_NAME, Mode, StoreError};

use crate::cli::CommonArgs;
use crate::config::ConfigFile;
use crate::data_dir::{DataDir, DataDirLock};
use crate::endpoint::Endpoint;
use crate::failure::{Failure, Kind};
use crate::serve::KEPT_CONTENTS;
use crate::text::warn;

/// The data directory of a command, and who runs on it.
pub(super) struct Place {
    /// The directory.
    pub(super) dir: DataDir,
    /// The configuration.
    pub(super) config: ConfigFile,
}

impl Place {
    /// Finds the directory that flags or the configuration name.
    pub(super) fn find(args: &CommonArgs) -> Result<Self, Failure> {
        let config = ConfigFile::load(args)?;
        crate::logging::start(args.log.as_deref().unwrap_or("off"))?;
        let dir = DataDir::existing(config.data_dir(args)?);
        Ok(Self { dir, config })
    }

    /// Tells whether a host can be asked.
    pub(super) fn has_host(&self) -> bool {
        Endpoint::find(&self.dir).is_some()
    }

    /// Opens the kept sessions to look at them, beside a host too.
    pub(super) fn look(&self) -> Result<Archive, Failure> {
        Archive::open(&self.dir.file(FILE_NAME), Mode::ReadOnly).map_err(failure)
    }

    /// Opens the kept sessions to change them. No host starts while the lock is held.
    pub(super) fn change(&self) -> Result<(DataDirLock, Archive), Failure> {
        let path = self.dir.file(FILE_NAME);
        if !path.exists() {
            let text = format!("there are no kept sessions: {} does not exist", path.display());
            return Err(Failure::new(Kind::DataDirectory, text).hint("name the data directory with --data DIR"));
        }
        let lock = self.dir.lock()?;
        let archive = Archive::open(&path, Mode::Exclusive).map_err(failure)?;
        Ok((lock, archive))
    }

    /// Where things are kept beside sessions.
    pub(super) fn contents(&self) -> PathBuf {
        self.dir.file(KEPT_CONTENTS)
    }

    /// Removes what was kept beside a session that is gone.
    pub(super) fn remove_contents(&self, uri: &str) {
        let directory = self.contents();
        if let Err(error) = KeptContents::remove(&directory, uri) {
            let directory = directory.display();
            warn(&format!(
                "what was kept beside the session is still in {directory} ({error})"
            ));
        }
    }

    /// Opens the kept sessions to add some, and creates what is missing.
    pub(super) fn create(&self) -> Result<(DataDirLock, Archive), Failure> {
        let dir = DataDir::prepare(self.dir.path())?;
        let lock = dir.lock()?;
        let archive = Archive::create(&dir.file(FILE_NAME)).map_err(failure)?;
        Ok((lock, archive))
    }
}

/// What the store says, as a failure of this program.
pub(super) fn failure(error: StoreError) -> Failure {
    let kind = match error.kind {
        ErrorKind::Refused => Kind::Rejected,
        ErrorKind::Busy => Kind::InUse,
        ErrorKind::NotThere
        | ErrorKind::Foreign
        | ErrorKind::Newer
        | ErrorKind::Damaged
        | ErrorKind::Full
        | ErrorKind::Io => Kind::DataDirectory,
    };
    Failure::new(kind, error.message)
}
