//! CPU time and memory of a process, from `/proc`.

use std::{fs, time::Duration};

use anyhow::{Context, Result};
use rustix::param::clock_ticks_per_second;

/// Returns the CPU time that all threads of the process have used, in user and kernel mode.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let ticks = cpu_ticks(&stat).with_context(|| format!("{path} has no CPU times: {stat}"))?;
    Ok(Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64))
}

/// Returns the CPU time of the threads of a process whose names have this prefix. The kernel stores 15 characters.
pub(crate) fn thread_cpu_time(pid: u32, name: &str) -> Result<Duration> {
    let mut ticks = 0;
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let path = entry?.path();
        // A thread that has ended meanwhile has nothing to add.
        let Ok(stat) = fs::read_to_string(path.join("stat")) else {
            continue;
        };
        if fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.starts_with(name)) {
            ticks += cpu_ticks(&stat).unwrap_or_default();
        }
    }
    Ok(Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64))
}

/// Returns the memory of the process that is resident now, in bytes.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64> {
    status_bytes(pid, "VmRSS")
}

/// Returns the most memory that the process ever had resident, in bytes.
pub(crate) fn peak_resident_bytes(pid: u32) -> Result<u64> {
    status_bytes(pid, "VmHWM")
}

/// Returns how many bytes the process has read, from the disk, from the system's memory and from sockets.
pub(crate) fn read_bytes(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/io");
    let io = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    let count = line.with_context(|| format!("{path} has no rchar"))?;
    Ok(count.trim().parse()?)
}

/// Returns how many files and sockets the process has open.
pub(crate) fn open_files(pid: u32) -> Result<usize> {
    entries(&format!("/proc/{pid}/fd"))
}

/// Returns how many threads the process has.
pub(crate) fn threads(pid: u32) -> Result<usize> {
    entries(&format!("/proc/{pid}/task"))
}

fn entries(path: &str) -> Result<usize> {
    let entries = fs::read_dir(path).with_context(|| format!("cannot list {path}"))?;
    Ok(entries.count())
}

fn status_bytes(pid: u32, field: &str) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    status_field_bytes(&status, field).with_context(|| format!("{path} has no {field}"))
}

/// Sums utime and stime, the 14th and 15th field. The second field is the program's name in
/// parentheses and may itself contain blanks and parentheses, so counting starts after the last one.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut times = after_name.split_ascii_whitespace().skip(11);
    let user: u64 = times.next()?.parse().ok()?;
    let system: u64 = times.next()?.parse().ok()?;
    Some(user + system)
}

fn status_field_bytes(status: &str, field: &str) -> Option<u64> {
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_ticks_survive_a_hostile_program_name() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 7 8 20 0 3 0 100 1 2";
        assert_eq!(cpu_ticks(stat), Some(300));
        assert_eq!(cpu_ticks("42 (short) S 1"), None);
    }

    #[test]
    fn status_fields_are_kibibytes() {
        let status = "Name:\tx\nVmHWM:\t    2172 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(status_field_bytes(status, "VmRSS"), Some(1024 * 1024));
        assert_eq!(status_field_bytes(status, "VmHWM"), Some(2172 * 1024));
        assert_eq!(status_field_bytes(status, "VmSwap"), None);
    }

    #[test]
    fn this_process_has_memory_and_its_peak_is_no_lower() {
        let pid = std::process::id();
        cpu_time(pid).unwrap();
        let resident = resident_bytes(pid).unwrap();
        assert!(resident > 0);
        assert!(peak_resident_bytes(pid).unwrap() > 0);
        assert!(read_bytes(pid).unwrap() > 0);
        assert!(open_files(pid).unwrap() > 0);
        assert!(threads(pid).unwrap() > 0);
    }
}
