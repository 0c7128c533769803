//! Percentiles and medians of samples.

use std::{fmt, fs, path::Path, time::Duration};

use serde::Serialize;

/// The two percentiles that every latency figure reports, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Percentiles {
    /// Half of the samples are at most this long.
    pub(crate) p50_us: f64,
    /// Ninety-nine of a hundred samples are at most this long.
    pub(crate) p99_us: f64,
}

impl Percentiles {
    /// Summarises durations in nanoseconds; `None` without samples.
    pub(crate) fn of_nanos(mut samples: Vec<u64>) -> Option<Self> {
        samples.sort_unstable();
        Some(Self {
            p50_us: nearest_rank(&samples, 50)? as f64 / 1_000.0,
            p99_us: nearest_rank(&samples, 99)? as f64 / 1_000.0,
        })
    }
}

impl fmt::Display for Percentiles {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "p50 {:.0} µs, p99 {:.0} µs", self.p50_us, self.p99_us)
    }
}

/// Returns the smallest sample that at least `percent` of all samples do not exceed.
fn nearest_rank(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

/// Returns the median, the mean of the middle two for an even count, and `None` without samples.
pub(crate) fn median(samples: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut samples: Vec<f64> = samples.into_iter().collect();
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    let upper = *samples.get(middle)?;
    if samples.len() % 2 == 1 {
        return Some(upper);
    }
    Some((samples[middle - 1] + upper) / 2.0)
}

/// Returns a duration in nanoseconds.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns how many bytes the files of a directory have together.
pub(crate) fn directory_bytes(directory: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let metadata = entry?.metadata()?;
        bytes += if metadata.is_file() { metadata.len() } else { 0 };
    }
    Ok(bytes)
}

/// Divides, with `None` instead of an infinity that JSON cannot express.
pub(crate) fn ratio(of: f64, to: f64) -> Option<f64> {
    (to > 0.0).then(|| of / to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_by_nearest_rank() {
        let samples = (1..=200).rev().map(|value| value * 1_000).collect();
        let percentiles = Percentiles::of_nanos(samples).unwrap();
        assert_eq!(
            percentiles,
            Percentiles {
                p50_us: 100.0,
                p99_us: 198.0
            }
        );
    }

    #[test]
    fn one_sample_is_every_percentile() {
        let percentiles = Percentiles::of_nanos(vec![7_000]).unwrap();
        assert_eq!(
            percentiles,
            Percentiles {
                p50_us: 7.0,
                p99_us: 7.0
            }
        );
        assert_eq!(Percentiles::of_nanos(Vec::new()), None);
    }

    #[test]
    fn median_of_odd_even_and_no_samples() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median([]), None);
    }

    #[test]
    fn a_ratio_to_nothing_is_unknown() {
        assert_eq!(ratio(3.0, 2.0), Some(1.5));
        assert_eq!(ratio(3.0, 0.0), None);
    }
}
