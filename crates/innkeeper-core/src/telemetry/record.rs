//! Log records; [`super::otlp`] converts them to OpenTelemetry.

use std::borrow::Cow;

/// The named levels of OpenTelemetry, of which each is a band of four severities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// Every step.
    Trace,
    /// For developers who look for a bug.
    Debug,
    /// Ordinary events.
    Info,
    /// Something is odd, and went on.
    Warn,
    /// Something failed.
    Error,
    /// The host cannot continue.
    Fatal,
}

impl LogLevel {
    /// All of them, the lowest first.
    pub const ALL: [Self; 6] = [
        Self::Trace,
        Self::Debug,
        Self::Info,
        Self::Warn,
        Self::Error,
        Self::Fatal,
    ];

    /// The name of it in a URI.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
            Self::Fatal => "fatal",
        }
    }

    /// The level of this name, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|level| level.name().eq_ignore_ascii_case(name))
    }

    /// The lowest severity of its band (OTL-04).
    pub const fn lowest(self) -> Severity {
        Severity(match self {
            Self::Trace => 1,
            Self::Debug => 5,
            Self::Info => 9,
            Self::Warn => 13,
            Self::Error => 17,
            Self::Fatal => 21,
        })
    }
}

/// How bad it is: OpenTelemetry's `SeverityNumber`, from 1 to 24.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Severity(u8);

impl Severity {
    /// A severity by number; what is out of bounds becomes the nearest one.
    pub const fn new(number: u8) -> Self {
        match number {
            0 => Self(1),
            1..=24 => Self(number),
            _ => Self(24),
        }
    }

    /// The number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The name of it, such as `INFO2`: its band, and where it is there unless it is the lowest.
    pub fn text(self) -> &'static str {
        const NAMES: [&str; 24] = [
            "TRACE", "TRACE2", "TRACE3", "TRACE4", "DEBUG", "DEBUG2", "DEBUG3", "DEBUG4", "INFO", "INFO2", "INFO3",
            "INFO4", "WARN", "WARN2", "WARN3", "WARN4", "ERROR", "ERROR2", "ERROR3", "ERROR4", "FATAL", "FATAL2",
            "FATAL3", "FATAL4",
        ];
        let index = usize::from(self.0).saturating_sub(1);
        NAMES.get(index).copied().unwrap_or_default()
    }
}

impl From<LogLevel> for Severity {
    fn from(level: LogLevel) -> Self {
        level.lowest()
    }
}

/// One line of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct LogRecord {
    /// When it was written, in nanoseconds since 1970.
    pub time_unix_nano: u64,
    /// Severity.
    pub severity: Severity,
    /// Which part of the program wrote it.
    pub scope: Cow<'static, str>,
    /// Message text.
    pub body: String,
    /// Attributes, such as `ahp.session.id` (OTL-06).
    pub attributes: Vec<(Cow<'static, str>, LogValue)>,
}

/// A value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum LogValue {
    /// Text.
    Text(String),
    /// A whole number.
    Int(i64),
    /// Yes or no.
    Bool(bool),
}

impl From<&str> for LogValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for LogValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn otl04_each_level_is_a_band_of_four() {
        let lowest = LogLevel::ALL.map(|level| level.lowest().number());
        assert_eq!(lowest, [1, 5, 9, 13, 17, 21]);
        for level in LogLevel::ALL {
            assert!(level.lowest().text().eq_ignore_ascii_case(level.name()));
            assert_eq!(LogLevel::from_name(level.name()), Some(level));
        }
        let numbers = [0, 1, 10, 24, 255].map(|number| Severity::new(number).text());
        assert_eq!(numbers, ["TRACE", "TRACE", "INFO2", "FATAL4", "FATAL4"]);
    }
}
