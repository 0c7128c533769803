//! Finding the ids of requirements that a test cites.
//!
//! In a name they are written `dsp08` anywhere, or `dsp_08` among the ids with which the name starts;
//! further inside, `page_20` is a page and a number. In prose, which is comments and the messages of
//! assertions, they are written `DSP-08`, as a range `DSP-08 to DSP-10`, or as `lesson 12` and
//! `lessons 12, 13 and 15`.

use std::collections::BTreeMap;

use super::requirements::Requirements;
use super::tests_in_source::Test;

/// The prefix of requirements that prose may cite by a word and a number.
const LESSON: &str = "LESSON";

/// Two digits make no more ids than this under one prefix, so no range is longer.
const MAX_NUMBERS: u32 = 100;

/// Where a test cites a requirement. A test that carries it in its name is about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cited {
    InName,
    InProse,
}

/// Returns the ids that a test cites, whether they exist or not, as long as their prefix does.
pub(super) fn of(test: &Test, requirements: &Requirements) -> BTreeMap<String, Cited> {
    let told = in_prose(&test.prose, requirements).into_iter();
    let named = in_name(&test.name, requirements).into_iter();
    told.map(|id| (id, Cited::InProse))
        .chain(named.map(|id| (id, Cited::InName)))
        .collect()
}

fn in_name(name: &str, requirements: &Requirements) -> Vec<String> {
    let mut ids = Vec::new();
    let mut words = name.split('_').peekable();
    let mut is_leading = true;
    while let Some(word) = words.next() {
        let (letters, digits) = word.split_at(word.find(|c: char| c.is_ascii_digit()).unwrap_or(word.len()));
        let prefix = letters.to_ascii_uppercase();
        let digits = if !requirements.has_prefix(&prefix) {
            None
        } else if digits.is_empty() && is_leading {
            words.next_if(|next| is_two_digits(next))
        } else {
            Some(digits).filter(|digits| is_two_digits(digits))
        };
        match digits {
            Some(digits) => ids.push(format!("{prefix}-{digits}")),
            None => is_leading = false,
        }
    }
    ids
}

fn is_two_digits(word: &str) -> bool {
    word.len() == 2 && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn in_prose(text: &str, requirements: &Requirements) -> Vec<String> {
    let mut ids = Vec::new();
    let mut last: Option<Id<'_>> = None;
    let mut is_range = false;
    let mut expects = Lessons::None;
    for word in text.split(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | '_' | ',' | '.' | ';')) {
        let ends_list = word.ends_with(['.', ';']);
        let word = word.trim_matches([',', '.', ';', '-']);
        if word.is_empty() && !ends_list {
            continue;
        }
        let id = Id::parse(word, requirements).or_else(|| expects.number(word, requirements));
        match id {
            Some(id) => {
                if let Some(first) = last.filter(|_| is_range) {
                    // Some numbers in between do not exist: the list leaves them out.
                    let between = first.up_to(id).filter(|id| requirements.position(id).is_some());
                    ids.extend(between);
                }
                ids.push(id.to_string());
                (last, is_range) = (Some(id), false);
                expects = expects.after_number();
            }
            None => {
                is_range = word == "to" && last.is_some();
                if !is_range {
                    last = None;
                }
                expects = expects.after_word(word);
            }
        }
        if ends_list {
            (last, is_range, expects) = (None, false, Lessons::None);
        }
    }
    ids
}

/// An id as prose spells it.
#[derive(Clone, Copy)]
struct Id<'a> {
    prefix: &'a str,
    number: u32,
    /// Ours has two digits. A wrong number of them is a mistake to report, not to correct.
    digits: usize,
}

impl<'a> Id<'a> {
    fn parse(word: &'a str, requirements: &Requirements) -> Option<Self> {
        let (prefix, digits) = word.split_once('-')?;
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number || !requirements.has_prefix(prefix) {
            return None;
        }
        Some(Self {
            prefix,
            number: digits.parse().ok()?,
            digits: digits.len(),
        })
    }

    /// Returns the ids strictly between the two.
    fn up_to(self, last: Self) -> impl Iterator<Item = String> {
        let end = if self.prefix == last.prefix {
            last.number.min(MAX_NUMBERS)
        } else {
            0
        };
        (self.number.saturating_add(1)..end).map(move |number| Id { number, ..self }.to_string())
    }
}

impl std::fmt::Display for Id<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { prefix, number, digits } = self;
        write!(f, "{prefix}-{number:0digits$}")
    }
}

/// Whether a bare number is a lesson.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lessons {
    None,
    /// Behind "lesson", and behind the "and" of a list.
    One,
    /// Behind "lessons", up to the next word that is not a number.
    Many,
}

impl Lessons {
    fn number<'a>(self, word: &str, requirements: &Requirements) -> Option<Id<'a>> {
        if self == Self::None || word.len() > 2 || !requirements.has_prefix(LESSON) {
            return None;
        }
        Some(Id {
            prefix: LESSON,
            number: word.parse().ok()?,
            digits: 2,
        })
    }

    fn after_number(self) -> Self {
        if self == Self::Many { Self::Many } else { Self::None }
    }

    fn after_word(self, word: &str) -> Self {
        match word.to_ascii_lowercase().as_str() {
            "lesson" => Self::One,
            "lessons" => Self::Many,
            "to" if self == Self::Many => Self::Many,
            "and" if self == Self::Many => Self::One,
            _ => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirements() -> Requirements {
        let mut list = "id\tlevel\tarea\twhat\n".to_owned();
        for id in ["SES-18", "SES-19", "SES-20", "DSP-08", "E-41", "PAGE-01", "LESSON-12"] {
            let area = id.split('-').next().unwrap();
            list += &format!("{id}\tMUST\t{area}\tx\n");
        }
        Requirements::parse(&list).unwrap()
    }

    fn named(name: &str) -> Vec<String> {
        in_name(name, &requirements())
    }

    fn in_text(text: &str) -> Vec<String> {
        in_prose(text, &requirements())
    }

    #[test]
    fn names_cite_in_both_spellings() {
        assert_eq!(named("dsp08_e41_lesson12_refusals"), ["DSP-08", "E-41", "LESSON-12"]);
        assert_eq!(named("dsp_08_lesson_12_e41_refusals"), ["DSP-08", "LESSON-12", "E-41"]);
        assert_eq!(named("refusals_dsp08"), ["DSP-08"]);
        assert_eq!(named("dsp99_a_mistake"), ["DSP-99"]);
    }

    #[test]
    fn names_that_only_look_alike_cite_nothing() {
        for name in [
            "the_page_20_is_last",
            "neg08",
            "p_9",
            "e4",
            "e411_a",
            "page_1",
            "dsp",
            "wisdsp08",
            "_",
            "",
        ] {
            assert!(named(name).is_empty(), "{name}");
        }
        assert_eq!(named("ses18_20_rows_come"), ["SES-18"]);
    }

    #[test]
    fn prose_cites_ids() {
        assert_eq!(in_text("Refused (DSP-08, E-41)."), ["DSP-08", "E-41"]);
        assert_eq!(
            in_text("DSP-08/E-41: why. `LESSON-12`;"),
            ["DSP-08", "E-41", "LESSON-12"]
        );
        assert!(in_text("UTF-8, SHA-256, DSP-, XDSP-08, DSP-08x, dsp-08, 1E-9, D-08").is_empty());
    }

    #[test]
    fn a_wrong_number_of_digits_stays_wrong() {
        assert_eq!(in_text("DSP-8 and DSP-008"), ["DSP-8", "DSP-008"]);
    }

    #[test]
    fn ranges_include_every_id_in_between() {
        assert_eq!(in_text("(SES-18 to SES-20)"), ["SES-18", "SES-19", "SES-20"]);
        assert_eq!(in_text("`SES-18` to `SES-20`"), ["SES-18", "SES-19", "SES-20"]);
        assert_eq!(
            in_text("SES-18 to SES-4000000000"),
            ["SES-18", "SES-19", "SES-20", "SES-4000000000"]
        );
        assert_eq!(in_text("SES-18 to DSP-08"), ["SES-18", "DSP-08"]);
        assert_eq!(in_text("from SES-18. to SES-20"), ["SES-18", "SES-20"]);
        assert_eq!(in_text("SES-18 led us to believe SES-20"), ["SES-18", "SES-20"]);
        assert_eq!(in_text("E-41 to E-43"), ["E-41", "E-43"]);
    }

    #[test]
    fn lessons_are_cited_by_word() {
        assert_eq!(in_text("Lesson 12: 13 clients"), ["LESSON-12"]);
        assert_eq!(
            in_text("lessons 1, 2 and 12, and 5 more"),
            ["LESSON-01", "LESSON-02", "LESSON-12"]
        );
        assert_eq!(in_text("lessons 12. 13 clients"), ["LESSON-12"]);
        assert!(in_text("a lesson of 12 clients").is_empty());
    }

    #[test]
    fn the_name_outweighs_the_prose() {
        let test = Test {
            path: "a.rs".into(),
            line: 1,
            name: "dsp08_a".into(),
            prose: "DSP-08, E-41".into(),
        };
        let cited: Vec<(String, Cited)> = of(&test, &requirements()).into_iter().collect();
        assert_eq!(
            cited,
            [
                ("DSP-08".to_owned(), Cited::InName),
                ("E-41".to_owned(), Cited::InProse)
            ]
        );
    }
}
