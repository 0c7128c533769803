//! Command lines that can be compared with a pattern: one plain command, nothing else.
//!
//! A shell gives a meaning to almost every character. This tokenizer understands the few lines that
//! mean the same in every shell: a program and its arguments, separated by spaces, where an argument
//! is either made of harmless characters or quoted as a whole. Everything else is refused, and a
//! line that is refused is asked about.

/// Keywords of shells: a line that starts with one is not a plain command.
const KEYWORDS: &[&str] = &[
    "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select", "then",
    "time", "until", "while",
];

/// Programs that run the command that their arguments name. A pattern that leaves any of them open
/// would allow every command.
const WRAPPERS: &[&str] = &[
    ".",
    "builtin",
    "busybox",
    "chroot",
    "chrt",
    "command",
    "doas",
    "env",
    "eval",
    "exec",
    "flock",
    "ionice",
    "nice",
    "nohup",
    "nsenter",
    "parallel",
    "pkexec",
    "runuser",
    "script",
    "setpriv",
    "setsid",
    "source",
    "ssh",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "systemd-run",
    "taskset",
    "timeout",
    "trap",
    "unshare",
    "valgrind",
    "watch",
    "xargs",
];

/// Programs that execute a file or an argument. A pattern has to name that file.
const INTERPRETERS: &[&str] = &[
    "ash",
    "awk",
    "bash",
    "bun",
    "csh",
    "dash",
    "deno",
    "docker",
    "elvish",
    "expect",
    "fish",
    "gawk",
    "gdb",
    "ksh",
    "kubectl",
    "lua",
    "mawk",
    "node",
    "npx",
    "nu",
    "osascript",
    "perl",
    "php",
    "podman",
    "powershell",
    "pwsh",
    "python",
    "python2",
    "python3",
    "rbash",
    "ruby",
    "sh",
    "tclsh",
    "tcsh",
    "uv",
    "uvx",
    "zsh",
];

/// Options that have a program run another program, read configuration from another file, or write a file, without
/// their dashes. A wildcard does not match them.
const ESCAPES: &[&str] = &[
    "C",
    "artifact-dir",
    "c",
    "checkpoint-action",
    "command",
    "config",
    "config-env",
    "config-path",
    "cwd",
    "delete",
    "dir",
    "directory",
    "eval",
    "exec",
    "exec-path",
    "execdir",
    "ext-diff",
    "fls",
    "fprint",
    "fprint0",
    "fprintf",
    "git-dir",
    "globalconfig",
    "import",
    "init-file",
    "loader",
    "lockfile-path",
    "manifest-path",
    "modfile",
    "node-options",
    "o",
    "ok",
    "okdir",
    "open-files-in-pager",
    "out-dir",
    "output",
    "output-directory",
    "overlay",
    "prefix",
    "rcfile",
    "receive-pack",
    "require",
    "rsh",
    "script-shell",
    "shell",
    "target-dir",
    "textconv",
    "to-command",
    "toolexec",
    "upload-pack",
    "use-compress-program",
    "userconfig",
    "vettool",
    "work-tree",
];

/// One word of a line, or of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Word {
    /// Characters that no shell changes.
    Plain(String),
    /// A word that is quoted from its first character to its last.
    Quoted(String),
    /// `*` in a pattern: any word; at the end, any number of them.
    Any,
}

/// The words of a line that is one plain command; `None` if it may be anything else.
pub(crate) fn words_of_line(line: &str) -> Option<Vec<Word>> {
    let words = read(line).ok()?;
    (!words.contains(&Word::Any)).then_some(words)
}

/// The words of a pattern, or the reason why it is none.
pub(crate) fn words_of_pattern(pattern: &str) -> Result<Vec<Word>, String> {
    let words = read(pattern)?;
    let (Some(Word::Plain(program)), Some(open)) = (words.first(), words.iter().position(|word| *word == Word::Any))
    else {
        return Ok(words);
    };
    let name = program.rsplit('/').next().unwrap_or(program);
    let names_file = |word: &Word| matches!(word, Word::Plain(text) if !text.starts_with('-'));
    let is_named = words.get(1..open).unwrap_or_default().iter().any(names_file);
    if WRAPPERS.contains(&name) || INTERPRETERS.contains(&name) && !is_named {
        return Err(format!(
            "`{name}` runs whatever its arguments say, so they cannot be left open: write them in full, or `*` alone \
             if every command is meant"
        ));
    }
    Ok(words)
}

fn read(line: &str) -> Result<Vec<Word>, String> {
    if let Some(odd) = line.chars().find(|c| !matches!(c, ' '..='~')) {
        return Err(format!(
            "has the character {}, and only plain ASCII text can be compared",
            odd.escape_unicode()
        ));
    }
    let mut words = Vec::new();
    let mut rest = line.trim_matches(' ');
    while let Some(first) = rest.chars().next() {
        let (word, after) = match first {
            '\'' | '"' => quoted(rest, first)?,
            _ => plain(rest)?,
        };
        if !after.is_empty() && !after.starts_with(' ') {
            return Err("has a word that is quoted in part; quote the whole word".to_owned());
        }
        words.push(word);
        rest = after.trim_start_matches(' ');
    }
    match words.first() {
        Some(Word::Plain(program)) if is_program(program) => Ok(words),
        Some(_) => Err("must begin with the name of a program, which is neither quoted nor left open".to_owned()),
        None => Err("is empty".to_owned()),
    }
}

/// A quoted word, and what follows it.
fn quoted(text: &str, quote: char) -> Result<(Word, &str), String> {
    let inside = text.get(1..).unwrap_or_default();
    let Some((content, after)) = inside.split_once(quote) else {
        return Err("has a quote that does not end".to_owned());
    };
    // Between double quotes a shell still expands these.
    if quote == '"'
        && let Some(special) = content.chars().find(|c| matches!(c, '$' | '`' | '\\' | '!'))
    {
        return Err(format!("has `{special}` between double quotes, which a shell replaces"));
    }
    Ok((Word::Quoted(content.to_owned()), after))
}

/// A word without quotes, and what follows it.
fn plain(text: &str) -> Result<(Word, &str), String> {
    let end = text.find([' ', '\'', '"']).unwrap_or(text.len());
    let (word, after) = text.split_at(end);
    if word == "*" {
        return Ok((Word::Any, after));
    }
    match word.chars().find(|c| !is_harmless(*c)) {
        Some('*') => Err("has `*` inside a word; `*` stands for whole words".to_owned()),
        Some(special) => Err(format!(
            "has `{special}`, which means something to a shell; only one plain command can be compared"
        )),
        None => Ok((Word::Plain(word.to_owned()), after)),
    }
}

/// Characters without a meaning in any shell, anywhere in an argument.
fn is_harmless(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | ':' | '=' | '@' | '%' | '+' | ',' | '-')
}

/// A program is named by a word that is no assignment, no option and no keyword.
fn is_program(word: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '+' | '-');
    word.chars().all(is_name) && !word.starts_with('-') && !KEYWORDS.contains(&word)
}

/// Whether a pattern covers a line.
pub(crate) fn covers(pattern: &[Word], line: &[Word]) -> bool {
    let (fixed, is_open) = match pattern.split_last() {
        Some((Word::Any, fixed)) => (fixed, true),
        _ => (pattern, false),
    };
    let fits_length = match is_open {
        true => line.len() >= fixed.len(),
        false => line.len() == fixed.len(),
    };
    let fits = |(wanted, word): (&Word, &Word)| match wanted {
        Word::Any => may_vary(word),
        Word::Plain(_) | Word::Quoted(_) => wanted == word,
    };
    fits_length
        && fixed.iter().zip(line).all(fits)
        && line.get(fixed.len()..).is_some_and(|rest| rest.iter().all(may_vary))
}

/// Returns true if `*` matches a word: anything but a path that leads out of the directory, and an option that changes
/// what the command does.
fn may_vary(word: &Word) -> bool {
    let text = match word {
        Word::Plain(text) | Word::Quoted(text) => text.as_str(),
        Word::Any => return false,
    };
    let name = text.split('=').next().unwrap_or(text);
    let option = name.trim_start_matches('-');
    // `-Z` of cargo enables unstable features, whose meaning may change.
    if text.starts_with('-') && (ESCAPES.contains(&option) || text.starts_with("-Z")) {
        return false;
    }
    let value = match text.strip_prefix("--").and_then(|option| option.split_once('=')) {
        Some((_, value)) => value,
        // The value of a short option may follow it directly, as in `-C..` or `-I/usr`.
        None if text.starts_with('-') => return !text.contains("..") && !text.contains('/'),
        None => text,
    };
    let is_outside =
        |part: &str| part.starts_with('/') || part.starts_with('~') || part.split('/').any(|part| part == "..");
    !value.split([':', '=', ',', ' ', ';']).any(is_outside)
}

/// Writes words so that reading them gives the same words again; `None` where that is not possible.
pub(crate) fn written(words: &[Word]) -> Option<String> {
    let write = |word: &Word| match word {
        Word::Plain(text) => Some(text.clone()),
        Word::Quoted(text) if !text.contains('\'') => Some(format!("'{text}'")),
        Word::Quoted(text) => Some(format!("\"{text}\"")),
        Word::Any => Some("*".to_owned()),
    };
    let text = words.iter().map(write).collect::<Option<Vec<_>>>()?.join(" ");
    (read(&text).as_deref() == Ok(words)).then_some(text)
}

/// The pattern that is offered beside the exact command: the same subcommand of a well-known program
/// with other arguments.
pub(crate) fn suggested(words: &[Word]) -> Option<Vec<Word>> {
    const SUBCOMMANDS: &[(&str, &[&str])] = &[
        (
            "cargo",
            &[
                "bench", "build", "check", "clippy", "doc", "fmt", "metadata", "test", "tree",
            ],
        ),
        ("git", &["blame", "diff", "log", "show", "status"]),
        ("go", &["build", "list", "test", "vet"]),
        ("npm", &["test"]),
        ("pnpm", &["test"]),
        ("yarn", &["test"]),
    ];
    const SCRIPTS: &[&str] = &["npm", "pnpm", "yarn"];
    let plain = |index: usize| match words.get(index) {
        Some(Word::Plain(text)) => Some(text.as_str()),
        _ => None,
    };
    let (program, subcommand) = (plain(0)?, plain(1)?);
    let fixed = if SCRIPTS.contains(&program) && subcommand == "run" {
        plain(2).filter(|script| !script.starts_with('-'))?;
        3
    } else {
        let (_, known) = SUBCOMMANDS.iter().find(|(name, _)| *name == program)?;
        known.contains(&subcommand).then_some(2)?
    };
    let mut pattern = words.get(..fixed)?.to_vec();
    pattern.push(Word::Any);
    // Otherwise this very command would still be asked about.
    covers(&pattern, words).then_some(pattern)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_covered(pattern: &str, line: &str) -> bool {
        let pattern = words_of_pattern(pattern).expect("a pattern");
        words_of_line(line).is_some_and(|line| covers(&pattern, &line))
    }

    #[test]
    fn a_pattern_covers_the_same_command_with_other_arguments() {
        for line in [
            "cargo test",
            "cargo test -p core",
            "cargo test --test 'one two'",
            "cargo  test   --lib",
            "cargo test --package=core -- --nocapture",
            "cargo test src/a.rs",
        ] {
            assert!(is_covered("cargo test *", line), "{line}");
        }
        assert!(is_covered("go test *", "go test ./..."));
        assert!(is_covered("git show * -- src", "git show HEAD -- src"));
        assert!(!is_covered("git show * -- src", "git show -- src"));
        assert!(!is_covered("cargo test", "cargo test -p core"));
        assert!(!is_covered("cargo test *", "cargo build"));
        assert!(!is_covered("cargo test *", "cargo"));
    }

    #[test]
    fn a_wildcard_stands_for_nothing_that_leads_elsewhere() {
        for line in [
            "cat /etc/passwd",
            "cat ../secret",
            "cat a/../../b",
            "cat '/etc/passwd'",
            "cat --file=/etc/passwd",
            "cat -f/etc/passwd",
            "cat -C..",
            "cat a:/etc",
            "cat '~/x'",
            "cat --output=x",
            "cat --output x",
            "cat -o x",
            "cat --o=x",
            "cat -Zunstable-options",
            "cat -exec rm",
        ] {
            assert!(words_of_line(line).is_some(), "{line} is a plain command");
            assert!(!is_covered("cat *", line), "{line}");
        }
    }

    #[test]
    fn patterns_that_would_allow_everything_are_refused() {
        for pattern in [
            "env *",
            "sudo *",
            "/usr/bin/env *",
            "bash -c *",
            "xargs rm *",
            "timeout 5 *",
            "python *",
            "node -e *",
        ] {
            let problem = words_of_pattern(pattern).expect_err(pattern);
            assert!(problem.contains("cannot be left open"), "{problem}");
        }
        for pattern in ["* test", "", "a*", "a; *", "'ls' *", "FOO=1 ls *", "if *"] {
            assert!(words_of_pattern(pattern).is_err(), "{pattern}");
        }
        for pattern in ["sudo systemctl status", "bash scripts/test.sh *", "python3 -m pytest *"] {
            assert!(words_of_pattern(pattern).is_ok(), "{pattern}");
        }
    }

    #[test]
    fn a_suggestion_exists_for_well_known_subcommands_only() {
        let suggested = |line: &str| suggested(&words_of_line(line)?).and_then(|words| written(&words));
        assert_eq!(suggested("cargo test -p core").as_deref(), Some("cargo test *"));
        assert_eq!(suggested("npm run lint -- --fix").as_deref(), Some("npm run lint *"));
        for line in [
            "rm -rf target",
            "git push",
            "cargo run",
            "ls",
            "cargo test --config x",
            "./cargo test",
        ] {
            assert_eq!(suggested(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn a_written_command_line_parses_to_the_same_words(line in "[ -~]{0,40}") {
            if let Some(words) = words_of_line(&line)
                && let Some(text) = written(&words)
            {
                prop_assert_eq!(words_of_line(&text), Some(words));
            }
        }

        /// Nothing that a shell gives a meaning to passes outside of quotes.
        #[test]
        fn an_accepted_line_has_no_special_character_outside_of_quotes(line in "[ -~\\n\\t\u{200b}é]{0,30}") {
            if let Some(words) = words_of_line(&line) {
                for word in &words {
                    if let Word::Plain(text) = word {
                        prop_assert!(text.chars().all(is_harmless), "{line:?}");
                    }
                }
                prop_assert!(line.chars().all(|c| matches!(c, ' '..='~')));
            }
        }

        #[test]
        fn a_pattern_without_a_wildcard_covers_itself_alone(line in "[a-z]{1,5}( [a-z./=-]{1,6}){0,3}", other in "[a-z]{1,5}( [a-z./=-]{1,6}){0,3}") {
            if let (Some(words), Some(others)) = (words_of_line(&line), words_of_line(&other)) {
                prop_assert!(covers(&words, &words));
                prop_assert_eq!(covers(&words, &others), words == others);
            }
        }
    }
}
