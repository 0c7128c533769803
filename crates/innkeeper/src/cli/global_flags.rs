//! Flags that select the host may stand before the command: `innkeeper --data DIR sessions`.
//!
//! They belong to the command, where `--help` shows them. Before a command they are moved behind it.

use std::ffi::{OsStr, OsString};

use clap::Command;

/// The flags that may stand before a command. All of them take a value.
const FLAGS: [&str; 5] = ["--data", "--config", "--log", "--url", "--token-file"];

/// Moves the leading flags behind the command that follows them. Without a command, nothing changes.
pub(crate) fn behind_the_command(root: &Command, args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    let leading = count_leading(&args);
    let Some(depth) = args.get(1 + leading..).map(|rest| count_commands(root, rest)) else {
        return args;
    };
    if depth > 0
        && let Some(moved) = args.get_mut(1..1 + leading + depth)
    {
        moved.rotate_left(leading);
    }
    args
}

/// Counts the words of global flags after the name of the program.
fn count_leading(args: &[OsString]) -> usize {
    let mut count = 0;
    while let Some(word) = args.get(1 + count).and_then(|word| word.to_str()) {
        match word.split_once('=') {
            Some((flag, _)) if FLAGS.contains(&flag) => count += 1,
            None if FLAGS.contains(&word) && args.len() > 2 + count => count += 2,
            _ => break,
        }
    }
    count
}

/// Counts the words that name a command and its subcommands.
fn count_commands(root: &Command, words: &[OsString]) -> usize {
    let mut command = root;
    let mut count = 0;
    while let Some(next) = words.get(count).and_then(|word| subcommand(command, word)) {
        command = next;
        count += 1;
    }
    count
}

fn subcommand<'a>(command: &'a Command, name: &OsStr) -> Option<&'a Command> {
    command.find_subcommand(name.to_str()?)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    fn moved(line: &str) -> String {
        let words = line.split(' ').map(OsString::from);
        let moved = behind_the_command(&Cli::command(), words);
        moved.join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn leading_flags_move_behind_the_innermost_command() {
        for (line, expected) in [
            ("innkeeper --data X sessions", "innkeeper sessions --data X"),
            (
                "innkeeper --data=X --log debug sessions show a",
                "innkeeper sessions show --data=X --log debug a",
            ),
            (
                "innkeeper --url ws://h terminals new -- ls --data",
                "innkeeper terminals new --url ws://h -- ls --data",
            ),
        ] {
            assert_eq!(moved(line), expected);
        }
    }

    #[test]
    fn other_command_lines_stay_as_they_are() {
        for line in [
            "innkeeper",
            "innkeeper --data X",
            "innkeeper --data",
            "innkeeper --data X --listen :0",
            "innkeeper send --data X hello",
            "innkeeper --version",
            "innkeeper --no-auth sessions",
        ] {
            assert_eq!(moved(line), line);
        }
    }
}
