//! The operating system commands that mean something to the host.

use url::Url;

/// A command that the host understands.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Osc<'a> {
    /// A report of shell integration: OSC 633 of VS Code, or OSC 133 of FinalTerm.
    Integration(Report<'a>),
    /// The working directory, as a URI (OSC 7).
    Directory(String),
    /// The title (OSC 0 and 2).
    Title(String),
}

/// A report of shell integration.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Report<'a> {
    /// The reported step.
    pub(super) kind: ReportKind,
    /// The nonce that came with it.
    pub(super) nonce: Option<&'a [u8]>,
}

/// The content of a report.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReportKind {
    /// The prompt begins or ends.
    Prompt,
    /// The text of the next command.
    CommandLine(String),
    /// A command starts.
    Started,
    /// A command has ended.
    Ended(Option<i64>),
    /// The working directory, as a URI.
    Directory(String),
    /// Something that the host has no use for.
    Other,
}

/// Reads an operating system command.
pub(super) fn parse<'a>(params: &[&'a [u8]]) -> Option<Osc<'a>> {
    match params {
        [b"0" | b"2", rest @ ..] => Some(Osc::Title(text(&rest.join(&b';')))),
        [b"7", rest @ ..] => directory_of_uri(&text(&rest.join(&b';'))).map(Osc::Directory),
        [b"633", rest @ ..] => Some(Osc::Integration(vscode(rest))),
        [b"133", rest @ ..] => Some(Osc::Integration(final_term(rest))),
        _ => None,
    }
}

/// OSC 633. Our scripts add the nonce to every report, VS Code's only to the command line.
fn vscode<'a>(params: &[&'a [u8]]) -> Report<'a> {
    match params {
        [b"A" | b"B", nonce @ ..] => Report {
            kind: ReportKind::Prompt,
            nonce: nonce.first().copied(),
        },
        [b"C", nonce @ ..] => Report {
            kind: ReportKind::Started,
            nonce: nonce.first().copied(),
        },
        [b"D", rest @ ..] => Report {
            kind: ReportKind::Ended(rest.first().and_then(|code| exit_code(code))),
            nonce: rest.get(1).copied(),
        },
        [b"E", line, nonce @ ..] => Report {
            kind: ReportKind::CommandLine(unescape(&text(line))),
            nonce: nonce.first().copied(),
        },
        [b"P", property, nonce @ ..] => Report {
            kind: property
                .strip_prefix(b"Cwd=")
                .and_then(|path| directory_of_path(&unescape(&text(path))))
                .map_or(ReportKind::Other, ReportKind::Directory),
            nonce: nonce.first().copied(),
        },
        _ => Report {
            kind: ReportKind::Other,
            nonce: None,
        },
    }
}

/// OSC 133, which has no command lines and no nonce.
fn final_term<'a>(params: &[&'a [u8]]) -> Report<'a> {
    let kind = match params {
        [b"A" | b"B", ..] => ReportKind::Prompt,
        [b"C", ..] => ReportKind::Started,
        [b"D", rest @ ..] => ReportKind::Ended(rest.first().and_then(|code| exit_code(code))),
        _ => ReportKind::Other,
    };
    Report { kind, nonce: None }
}

fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().filter(|c| !c.is_control()).collect()
}

fn exit_code(code: &[u8]) -> Option<i64> {
    std::str::from_utf8(code).ok()?.parse().ok()
}

/// Undoes the escapes of OSC 633: `\\` and `\xAB`.
fn unescape(escaped: &str) -> String {
    let mut bytes = Vec::with_capacity(escaped.len());
    let mut rest = escaped.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            (b'\\', [b'\\', after @ ..]) => {
                bytes.push(b'\\');
                rest = after;
            }
            (b'\\', [b'x', high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let digit = |byte: u8| (byte as char).to_digit(16).unwrap_or_default() as u8;
                bytes.push(digit(*high) << 4 | digit(*low));
                rest = after;
            }
            (byte, _) => bytes.push(*byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the directory that a shell reports as `file://host/path`. The name of the machine is left out: the shell may
/// be on another one, and clients could not reach it either way.
fn directory_of_uri(uri: &str) -> Option<String> {
    let mut uri = Url::parse(uri).ok().filter(|uri| uri.scheme() == "file")?;
    uri.set_host(None).ok()?;
    uri.set_query(None);
    uri.set_fragment(None);
    Some(uri.into())
}

fn directory_of_path(path: &str) -> Option<String> {
    Url::from_file_path(path).ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(osc: &str) -> Option<Osc<'_>> {
        let params: Vec<&[u8]> = osc.split(';').map(str::as_bytes).collect();
        parse(&params)
    }

    fn report(kind: ReportKind, nonce: Option<&'static str>) -> Option<Osc<'static>> {
        Some(Osc::Integration(Report {
            kind,
            nonce: nonce.map(str::as_bytes),
        }))
    }

    #[test]
    fn reports_of_shell_integration_are_read() {
        assert_eq!(parsed("633;A"), report(ReportKind::Prompt, None));
        assert_eq!(parsed("633;B;n"), report(ReportKind::Prompt, Some("n")));
        assert_eq!(parsed("633;C;n"), report(ReportKind::Started, Some("n")));
        assert_eq!(parsed("633;D"), report(ReportKind::Ended(None), None));
        assert_eq!(parsed("633;D;130;n"), report(ReportKind::Ended(Some(130)), Some("n")));
        assert_eq!(parsed("633;D;x"), report(ReportKind::Ended(None), None));
        let line = ReportKind::CommandLine("echo a;b\\c\nd".to_owned());
        assert_eq!(parsed(r"633;E;echo a\x3bb\\c\x0ad;n"), report(line, Some("n")));
        let directory = ReportKind::Directory("file:///a%20b".to_owned());
        assert_eq!(parsed("633;P;Cwd=/a b;n"), report(directory, Some("n")));
        assert_eq!(parsed("633;P;IsWindows=False"), report(ReportKind::Other, None));
        assert_eq!(parsed("133;D;1"), report(ReportKind::Ended(Some(1)), None));
        assert_eq!(parsed("133;A;cl=m"), report(ReportKind::Prompt, None));
    }

    #[test]
    fn directories_and_titles_are_read() {
        let directory = |uri: &str| Some(Osc::Directory(uri.to_owned()));
        assert_eq!(parsed("7;file://box/home/me/a%20b"), directory("file:///home/me/a%20b"));
        assert_eq!(parsed("7;file:///x"), directory("file:///x"));
        assert_eq!(parsed("7;http://x/y"), None);
        assert_eq!(parsed("7;"), None);
        assert_eq!(parsed("2;vim; x"), Some(Osc::Title("vim; x".to_owned())));
        assert_eq!(parsed("0;"), Some(Osc::Title(String::new())));
        assert_eq!(parsed("8;;http://x"), None);
    }

    #[test]
    fn broken_escapes_stay_as_they_are() {
        assert_eq!(unescape(r"a\x4"), r"a\x4");
        assert_eq!(unescape(r"\xZZ\"), r"\xZZ\");
        assert_eq!(unescape(r"\xc3\xbc"), "ü");
    }
}
