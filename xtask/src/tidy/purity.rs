//! The purity of the core, and the host library keeping its hands off the user's environment.

use super::Finding;
use crate::source::{Source, find_word, line_at, matching_close};

const RULE: &str = "purity";

/// Names that the product code of one folder must not use.
struct Ban {
    folder: &'static str,
    /// Modules of `std`, also caught inside `use std::{…}`.
    std_modules: &'static [&'static str],
    words: &'static [&'static str],
    remedy: &'static str,
}

const BANS: &[Ban] = &[
    Ban {
        folder: "crates/innkeeper-core/src",
        std_modules: &["fs", "net", "process", "env", "thread"],
        words: &[
            "tokio",
            "SystemTime",
            "Instant",
            "Timestamp::now",
            "Zoned::now",
            "rand::",
            "use rand",
            "getrandom",
            "print!",
            "println!",
            "eprint!",
            "eprintln!",
        ],
        remedy: "the core is a pure state machine: take the time, the randomness or the data as an input, \
                 or return an effect for the host to perform",
    },
    Ban {
        folder: "crates/innkeeper-host/src",
        std_modules: &["env"],
        words: &["etcetera", "home_dir"],
        remedy: "an embedded host must not look around on its own: take the value through the builder, \
                 and read the environment in the program",
    },
];

/// Checks one file.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let bans = BANS.iter().filter(|ban| source.is_under(ban.folder));
    bans.flat_map(|ban| check_ban(source, ban)).collect()
}

fn check_ban(source: &Source, ban: &Ban) -> Vec<Finding> {
    let code = &source.product_code;
    let mut uses: Vec<(usize, String)> = Vec::new();
    for word in ban.words {
        let found = find_word(code, word).into_iter();
        uses.extend(found.map(|position| (position, (*word).to_owned())));
    }
    for module in ban.std_modules {
        let path = format!("std::{module}");
        let direct = find_word(code, &path).into_iter();
        let grouped = grouped_std_imports(code)
            .into_iter()
            .filter(|(_, name)| name == module)
            .map(|(position, _)| position);
        uses.extend(direct.chain(grouped).map(|position| (position, path.clone())));
    }
    let findings = uses.into_iter().map(|(position, name)| Finding {
        path: source.path.clone(),
        line: line_at(code, position),
        rule: RULE,
        what: format!("`{name}` must not be used in {}", ban.folder),
        remedy: ban.remedy.to_owned(),
    });
    findings.collect()
}

/// Returns the first name of each member of every `std::{…}`, with its position.
fn grouped_std_imports(code: &str) -> Vec<(usize, &str)> {
    let mut members = Vec::new();
    for start in find_word(code, "std::{") {
        let open = start + "std::".len();
        let close = matching_close(code, open).unwrap_or(code.len());
        let mut depth = 0usize;
        let mut at_member_start = true;
        for (position, byte) in code.bytes().enumerate().take(close).skip(open + 1) {
            match byte {
                b'{' => depth += 1,
                b'}' => depth = depth.saturating_sub(1),
                b',' if depth == 0 => at_member_start = true,
                _ if at_member_start && !byte.is_ascii_whitespace() => {
                    let rest = &code[position..close];
                    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
                    members.push((position, &rest[..end.unwrap_or(rest.len())]));
                    at_member_start = false;
                }
                _ => {}
            }
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&Source::new(path, text)).len()
    }

    const CORE: &str = "crates/innkeeper-core/src/clock.rs";
    const HOST: &str = "crates/innkeeper-host/src/host.rs";

    #[test]
    fn pure_code_passes() {
        let text = "//! Knows nothing of tokio.\nuse std::{fmt, collections::{HashMap}};\n\
                    fn a(now: Timestamp) { let text = \"std::fs\"; let random = 4; }\n\
                    #[cfg(test)]\nmod tests { use std::fs; fn now() { Instant::now(); } }\n";
        assert_eq!(findings(CORE, text), 0);
    }

    #[test]
    fn impure_code_fails() {
        for line in [
            "use std::fs;",
            "use std::{fmt, net::{TcpStream}};",
            "use std::{\n    collections::{HashMap},\n    env,\n};",
            "fn a() { std::process::exit(1) }",
            "std::thread::sleep(d);",
            "use tokio::sync::mpsc;",
            "let t = SystemTime::UNIX_EPOCH;",
            "let t = Instant::now();",
            "let t = jiff::Timestamp::now();",
            "let t = Zoned::now();",
            "let r = rand::random();",
            "getrandom::fill(&mut bytes);",
            "println!();",
            "eprintln!();",
        ] {
            assert_eq!(findings(CORE, line), 1, "{line}");
            assert_eq!(findings("crates/innkeeper/src/main.rs", line), 0, "{line}");
        }
    }

    #[test]
    fn the_host_reads_no_environment() {
        assert_eq!(
            findings(HOST, "use std::fs; const V: &str = env!(\"CARGO_PKG_VERSION\");"),
            0
        );
        assert_eq!(findings(HOST, "let home = std::env::var(\"HOME\");"), 1);
        assert_eq!(findings(HOST, "use std::{env, fs};"), 1);
        assert_eq!(findings(HOST, "use etcetera::BaseStrategy;"), 1);
    }

    #[test]
    fn findings_name_the_line() {
        let source = Source::new(CORE, "// One.\n\nuse std::fs;\n");
        assert_eq!(check(&source)[0].line, 3);
    }
}
