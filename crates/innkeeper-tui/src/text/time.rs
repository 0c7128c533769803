//! Times and amounts as users read them.

use jiff::Timestamp;

/// Returns the age of a moment in one short word.
pub(crate) fn age(moment: &str, now: Timestamp) -> String {
    let Ok(moment) = moment.parse::<Timestamp>() else {
        return String::new();
    };
    match (now.as_second() - moment.as_second()).max(0) {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m", seconds / 60),
        seconds @ 3600..86_400 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// Returns the seconds between a moment and now.
pub(crate) fn seconds_since(moment: &str, now: Timestamp) -> Option<i64> {
    let moment = moment.parse::<Timestamp>().ok()?;
    Some((now.as_second() - moment.as_second()).max(0))
}

/// Formats a duration.
pub(crate) fn duration(milliseconds: i64) -> String {
    match milliseconds.max(0) {
        short @ 0..1000 => format!("{short} ms"),
        short @ 1000..60_000 => format!("{}.{} s", short / 1000, short % 1000 / 100),
        long => format!("{} min {} s", long / 60_000, long % 60_000 / 1000),
    }
}

/// Formats a number of tokens.
pub(crate) fn tokens(count: i64) -> String {
    match count {
        few @ ..10_000 => few.to_string(),
        many => format!("{}k", many / 1000),
    }
}

/// Formats a count with its noun.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_durations_are_short() {
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        assert_eq!(age("2026-01-01T23:59:50Z", now), "10s");
        assert_eq!(age("2026-01-01T22:00:00Z", now), "2h");
        assert_eq!(age("nonsense", now), "");
        assert_eq!(duration(40), "40 ms");
        assert_eq!(duration(2345), "2.3 s");
        assert_eq!(duration(61_000), "1 min 1 s");
        assert_eq!(tokens(123_456), "123k");
        assert_eq!(counted(1, "line"), "1 line");
    }
}
