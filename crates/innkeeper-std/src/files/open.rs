//! Opening and reading files without following their names and without waiting for a writer.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use cap_std::fs::{Dir, OpenOptions};

/// The kind of an opened entry.
#[derive(Debug)]
pub enum Opened {
    /// A regular file, opened to read it.
    File(fs::File),
    /// A directory.
    Directory,
    /// A pipe, a socket or a device.
    Special,
}

/// Opens a file to read it, without following its last name and without waiting for a writer: a pipe or
/// a device among files must not hold up a call.
///
/// # Errors
///
/// When there is nothing, when the name is a link, and when the host may not open it.
pub fn open_regular(dir: &Dir, path: &Path) -> io::Result<Opened> {
    let mut options = OpenOptions::new();
    options.read(true);
    do_not_wait(&mut options);
    let file = match dir.open_with(path, &options) {
        Ok(file) => file.into_std(),
        // A socket, or a device without a driver: it cannot be opened at all.
        Err(error) => {
            let data = dir.symlink_metadata(path);
            let is_special = data.is_ok_and(|data| !data.is_file() && !data.is_dir() && !data.is_symlink());
            return if is_special { Ok(Opened::Special) } else { Err(error) };
        }
    };
    let data = file.metadata()?;
    Ok(if data.is_file() {
        Opened::File(file)
    } else if data.is_dir() {
        Opened::Directory
    } else {
        Opened::Special
    })
}

/// Opens neither follow a last name that is a symlink, nor wait for the other end of a pipe, nor make a terminal the
/// host's own.
pub fn do_not_wait(options: &mut OpenOptions) {
    #[cfg(unix)]
    {
        use cap_std::fs::OpenOptionsExt as _;
        use rustix::fs::OFlags;
        let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
        options.custom_flags(flags.bits().cast_signed());
    }
    #[cfg(not(unix))]
    let _ = options;
}

/// Opens a directory in a directory, and no link to one.
///
/// # Errors
///
/// When there is nothing, when it is no directory or a link, and when the host may not open it.
#[cfg(unix)]
pub fn open_child(dir: &Dir, name: &Path) -> io::Result<Dir> {
    use rustix::fs::{Mode, OFlags, openat};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = openat(dir, name, flags, Mode::empty())?;
    Ok(Dir::from_std_file(fs::File::from(handle)))
}

/// Opens a directory in a directory, and no link to one.
///
/// # Errors
///
/// When there is nothing, when it is no directory or a link, and when the host may not open it.
#[cfg(not(unix))]
pub fn open_child(dir: &Dir, name: &Path) -> io::Result<Dir> {
    if dir.symlink_metadata(name)?.is_symlink() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    dir.open_dir(name)
}

/// Reads a whole file that is not too large; `None` if it is larger. A file that grows meanwhile is read up
/// to the limit.
///
/// # Errors
///
/// When it cannot be read.
pub fn read_whole(file: fs::File, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use cap_std::ambient_authority;

    use super::*;

    #[test]
    fn nothing_but_a_regular_file_is_opened() {
        let temp = tempfile::tempdir().expect("a directory");
        let path = |name: &str| temp.path().join(name);
        fs::write(path("file"), "text").expect("a file");
        fs::create_dir(path("directory")).expect("a directory");
        symlink("file", path("link")).expect("a link");
        let _socket = UnixListener::bind(path("socket")).expect("a socket");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
        let dir = Dir::open_ambient_dir(temp.path(), ambient_authority()).expect("opened");
        let open = |name: &str| open_regular(&dir, Path::new(name));
        let Ok(Opened::File(file)) = open("file") else {
            panic!("it is a file");
        };
        assert_eq!(read_whole(file, 4).expect("read").as_deref(), Some(&b"text"[..]));
        assert!(matches!(open("directory"), Ok(Opened::Directory)));
        assert!(matches!(open("socket"), Ok(Opened::Special)));
        // The pipe has no writer, and the open does not wait for one.
        assert!(matches!(open("pipe"), Ok(Opened::Special)));
        assert!(open("link").is_err());
        assert_eq!(open("missing").expect_err("not there").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn files_beyond_the_limit_are_not_read() {
        let temp = tempfile::tempdir().expect("a directory");
        let file = temp.path().join("file");
        fs::write(&file, "12345").expect("a file");
        for (most, is_read) in [(0, false), (4, false), (5, true), (u64::MAX, true)] {
            let opened = fs::File::open(&file).expect("opened");
            assert_eq!(read_whole(opened, most).expect("read").is_some(), is_read, "{most}");
        }
    }
}
