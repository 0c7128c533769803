//! Running commands visibly, and with an end.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Writes a command as one would type it.
pub(crate) fn command_line(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let program = program.rsplit(['/', '\\']).next().unwrap_or_default();
    let arguments = command.get_args().map(|argument| argument.to_string_lossy());
    let words: Vec<_> = std::iter::once(program.into()).chain(arguments).collect();
    words.join(" ")
}

/// Announces a step, takes it, and prints how long it took.
pub(crate) fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("\n$ {name}");
    let started = Instant::now();
    let outcome = work();
    let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
    println!("# {verdict} after {:.1} s: {name}", started.elapsed().as_secs_f64());
    outcome
}

/// Runs a command that writes to the terminal itself.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start `{}`; is it installed?", command_line(command)))?;
    if !status.success() {
        bail!("`{}` failed: {status}", command_line(command));
    }
    Ok(())
}

/// Runs a command and returns what it prints; one that takes too long is ended and counts as failed.
pub(crate) fn capture(command: &mut Command, longest: Duration) -> Result<String> {
    let name = command_line(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{name}`"))?;
    let mut stdout = child
        .stdout
        .take()
        .expect("invariant: the output was just asked to be piped");
    let reader = thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    wait(&mut child, longest).with_context(|| format!("`{name}`"))?;
    let Ok(text) = reader.join() else {
        bail!("reading the output of `{name}` failed");
    };
    text.with_context(|| format!("the output of `{name}` is not text"))
}

fn wait(child: &mut Child, longest: Duration) -> Result<()> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            if status.success() {
                return Ok(());
            }
            bail!("failed: {status}");
        }
        if started.elapsed() > longest {
            child.kill()?;
            child.wait()?;
            bail!("was still running after {} s and was ended", longest.as_secs());
        }
        thread::sleep(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_without_the_folder_of_the_program() {
        let mut command = Command::new("/usr/bin/cargo");
        command.args(["fmt", "--check"]);
        assert_eq!(command_line(&command), "cargo fmt --check");
    }

    #[cfg(unix)]
    #[test]
    fn output_is_captured_and_failure_is_reported() {
        let mut sh = Command::new("sh");
        let text = capture(sh.args(["-c", "echo hello"]), Duration::from_secs(10));
        assert_eq!(text.expect("sh can echo"), "hello\n");
        let mut sh = Command::new("sh");
        assert!(capture(sh.args(["-c", "exit 3"]), Duration::from_secs(10)).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_command_that_hangs_is_ended() {
        let error = capture(Command::new("sleep").arg("60"), Duration::from_millis(100));
        let message = format!("{:#}", error.expect_err("the time was too short"));
        assert!(message.contains("was ended"), "{message}");
    }
}
