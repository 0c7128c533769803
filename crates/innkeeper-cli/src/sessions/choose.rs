//! Selects a session by its URI, the beginning of the URI, or the beginning of its last part.

use crate::failure::{Failure, Kind};
use crate::terminal::one_line;

/// Most candidates that an error lists.
const CANDIDATES: usize = 10;

/// Returns the one session that the argument selects.
pub fn choose<'a>(wanted: &str, uris: impl Iterator<Item = &'a str>) -> Result<&'a str, Failure> {
    let mut candidates = Vec::new();
    for uri in uris {
        if uri == wanted {
            return Ok(uri);
        }
        if !wanted.is_empty() && (uri.starts_with(wanted) || last_part(uri).starts_with(wanted)) {
            candidates.push(uri);
        }
    }
    let shown = one_line(wanted, 200);
    match candidates.as_slice() {
        [only] => Ok(only),
        [] => Err(Failure::new(Kind::Rejected, format!("there is no session {shown}"))
            .hint("`innkeeper sessions` lists the sessions")),
        several => {
            let named: Vec<String> = several.iter().take(CANDIDATES).map(|uri| one_line(uri, 200)).collect();
            let more = match several.len().saturating_sub(CANDIDATES) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let text = format!("{shown} may be any of {}{more}", named.join(", "));
            Err(Failure::new(Kind::Usage, text).hint("write more of the one you mean"))
        }
    }
}

/// Returns the one session whose URI, or its last part, is exactly this. Without a confirmation a prefix could select
/// another session the second time.
pub(crate) fn choose_whole<'a>(wanted: &str, uris: impl Iterator<Item = &'a str> + Clone) -> Result<&'a str, Failure> {
    let is_whole = |uri: &&str| *uri == wanted || (!wanted.is_empty() && last_part(uri) == wanted);
    let whole: Vec<&str> = uris.clone().filter(is_whole).collect();
    match whole.as_slice() {
        [only] => Ok(only),
        [] => match choose(wanted, uris) {
            Ok(meant) => Err(Failure::new(
                Kind::Usage,
                format!("{} is only the beginning of a name", one_line(wanted, 200)),
            )
            .hint(format!("with --yes, write the whole name: {}", one_line(meant, 200)))),
            Err(failure) => Err(failure),
        },
        _ => choose(wanted, whole.into_iter()),
    }
}

fn last_part(uri: &str) -> &str {
    uri.rsplit('/').next().unwrap_or(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    const URIS: [&str; 3] = ["ahp-session:/abc", "ahp-session:/abcd", "copilot:/xyz"];

    #[test]
    fn a_session_is_found_by_any_beginning_that_is_enough() {
        for (wanted, found) in [
            ("ahp-session:/abc", "ahp-session:/abc"),
            ("abcd", "ahp-session:/abcd"),
            ("x", "copilot:/xyz"),
            ("copilot", "copilot:/xyz"),
        ] {
            assert_eq!(choose(wanted, URIS.into_iter()).unwrap(), found, "{wanted}");
        }
    }

    #[test]
    fn without_confirmation_only_whole_names_are_accepted() {
        for (wanted, found) in [
            ("ahp-session:/abc", "ahp-session:/abc"),
            ("abc", "ahp-session:/abc"),
            ("xyz", "copilot:/xyz"),
        ] {
            assert_eq!(choose_whole(wanted, URIS.into_iter()).unwrap(), found, "{wanted}");
        }
        for beginning in ["x", "copilot", "abcd/", ""] {
            assert!(choose_whole(beginning, URIS.into_iter()).is_err(), "{beginning}");
        }
        let failure = choose_whole("xy", URIS.into_iter()).unwrap_err();
        assert_eq!(failure.kind(), Kind::Usage);
    }

    #[test]
    fn ambiguous_prefix_lists_the_candidates() {
        let failure = choose("abc", URIS.into_iter()).unwrap_err();
        assert_eq!(failure.kind(), Kind::Usage);
        assert!(
            failure.to_string().contains("ahp-session:/abc, ahp-session:/abcd"),
            "{failure}"
        );
        assert_eq!(choose("nothing", URIS.into_iter()).unwrap_err().kind(), Kind::Rejected);
        assert_eq!(choose("", URIS.into_iter()).unwrap_err().kind(), Kind::Rejected);
    }
}
