//! `innkeeper sessions export`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use innkeeper_cli::args::ExportArgs;
use innkeeper_cli::failure::{Failure, Kind};
use innkeeper_cli::sessions::choose_session;
use innkeeper_cli::terminal::note;
use innkeeper_store::Archive;

use super::contents;
use super::offline::{Offline, all_sessions, store_failure};

/// Writes sessions as lines of JSON. A running host is not disturbed: an export has a session as it is at one moment,
/// with everything that any client has seen.
pub(super) fn run(args: &ExportArgs) -> Result<(), Failure> {
    let data = Offline::find(&args.common)?;
    let archive = data.read()?;
    let all = all_sessions(&archive)?;
    let chosen: Vec<&str> = if args.all {
        all.iter().map(String::as_str).collect()
    } else {
        let choose = |wanted: &String| choose_session(wanted, all.iter().map(String::as_str));
        args.sessions.iter().map(choose).collect::<Result<_, _>>()?
    };
    let Some(path) = &args.output else {
        let out = io::stdout().lock();
        return write(&data, &archive, &chosen, out, Path::new("standard output"));
    };
    let unfinished = Unfinished::create(path)?;
    write(&data, &archive, &chosen, &unfinished.file, path)?;
    unfinished.finish()?;
    note(&format!("Exported {} sessions to {}", chosen.len(), path.display()));
    Ok(())
}

fn write(data: &Offline, archive: &Archive, chosen: &[&str], out: impl Write, name: &Path) -> Result<(), Failure> {
    let mut out = Watched {
        out: BufWriter::new(out),
        closed: false,
    };
    let written = chosen
        .iter()
        .try_for_each(|uri| {
            let announced = contents::announce(data, uri, &mut out)?;
            archive.export(uri, &mut out).map_err(store_failure)?;
            contents::export(data, uri, announced, &mut out)
        })
        .and_then(|()| out.flush().map_err(|error| unwritable(name, &error)));
    match out.closed {
        true => Err(Failure::new(Kind::OutputClosed, "the reader of the output went away")),
        false => written,
    }
}

/// Remembers whether the reader closed the output, which the store reports only as a write error.
struct Watched<W: Write> {
    out: BufWriter<W>,
    closed: bool,
}

impl<W: Write> Write for Watched<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes);
        self.closed |= matches!(&written, Err(error) if error.kind() == io::ErrorKind::BrokenPipe);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        self.closed |= matches!(&flushed, Err(error) if error.kind() == io::ErrorKind::BrokenPipe);
        flushed
    }
}

/// A file that gets its name when it is complete. It is for this user alone, because sessions are private.
struct Unfinished {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
}

impl Unfinished {
    fn create(path: &Path) -> Result<Self, Failure> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.tmp", uuid::Uuid::new_v4().simple()));
        let temporary = path.with_file_name(name);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)
            .map_err(|error| unwritable(path, &error))?;
        Ok(Self {
            file,
            temporary,
            path: path.to_owned(),
        })
    }

    fn finish(&self) -> Result<(), Failure> {
        self.file
            .sync_all()
            .and_then(|()| fs::rename(&self.temporary, &self.path))
            .map_err(|error| unwritable(&self.path, &error))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After the rename there is nothing to remove.
        let _ = fs::remove_file(&self.temporary);
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(
        Kind::Unexpected,
        format!("{} cannot be written ({error})", path.display()),
    )
    .hint("name a file in a directory of your own with --output FILE")
}
