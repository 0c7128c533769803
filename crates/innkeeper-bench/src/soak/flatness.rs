//! Whether a process stays as it is: samples over time, and what counts as growth.

use std::fmt;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::server::usage::{open_files, resident_bytes, threads};

/// Warm-up: the share of the run, from its start, that is sampled and not judged, and the least it takes. In
/// its first minutes a host maps in its own code, and its allocator and SQLite find out how much they need.
const WARM_UP: f64 = 0.2;
const LEAST_WARM_UP_SECONDS: f64 = 120.0;
/// The growth that a short run may have: the steps in which an allocator grows. Against the 600,000
/// actions and 3,000 connections of five minutes it is 3 bytes of each action, or 700 of each connection.
const ALLOCATOR_STEPS: f64 = 2.0 * 1024.0 * 1024.0;
/// Memory may grow within an hour by the larger of these: a share of itself, and some bytes.
const MEMORY_SHARE: f64 = 0.1;
const MEMORY_BYTES: f64 = 16.0 * 1024.0 * 1024.0;
/// Open files may drift by so many over the run.
const FILES: f64 = 10.0;
/// Threads may drift by so many over the run. Some come for a moment, for instance to checkpoint.
const THREADS: f64 = 2.0;

/// A process at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    seconds: f64,
    rss_bytes: f64,
    open_files: f64,
    threads: f64,
}

impl Sample {
    /// Looks at a process, so many seconds after the start.
    pub(crate) fn take(pid: u32, seconds: f64) -> Result<Self> {
        Ok(Self {
            seconds,
            rss_bytes: resident_bytes(pid)? as f64,
            open_files: open_files(pid)? as f64,
            threads: threads(pid)? as f64,
        })
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{:.1} MiB, {} files, {} threads",
            self.rss_bytes / (1024.0 * 1024.0),
            self.open_files,
            self.threads
        )
    }
}

/// The trend of one figure after warm-up.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    name: &'static str,
    minimum: f64,
    mean: f64,
    maximum: f64,
    /// By how much the fitted line rises over the part of the run that is judged.
    growth: f64,
    /// The largest rise that passes.
    allowed: f64,
    /// By how much it would rise in an hour.
    growth_per_hour: f64,
    /// The change that noise alone explains: three standard errors of the fitted line.
    noise: f64,
    pub(crate) is_flat: bool,
}

/// Judges the samples of a run.
pub(crate) fn judge(samples: &[Sample]) -> Result<Vec<Figure>> {
    let last = samples.last().context("nothing was sampled")?.seconds;
    let warm_up = (last * WARM_UP).max(LEAST_WARM_UP_SECONDS).min(last / 2.0);
    let judged: Vec<Sample> = samples
        .iter()
        .filter(|sample| sample.seconds >= warm_up)
        .copied()
        .collect();
    let column = |of: fn(&Sample) -> f64| -> Vec<(f64, f64)> {
        judged.iter().map(|sample| (sample.seconds, of(sample))).collect()
    };
    let memory = column(|sample| sample.rss_bytes);
    let mean = memory.iter().map(|(_, value)| value).sum::<f64>() / memory.len().max(1) as f64;
    let hours = (last - warm_up) / 3600.0;
    let memory_limit = (MEMORY_BYTES.max(mean * MEMORY_SHARE) * hours).max(ALLOCATOR_STEPS);
    Ok(vec![
        Figure::of("rss_bytes", &memory, memory_limit, hours)?,
        Figure::of("open_files", &column(|sample| sample.open_files), FILES, hours)?,
        Figure::of("threads", &column(|sample| sample.threads), THREADS, hours)?,
    ])
}

impl Figure {
    fn of(name: &'static str, points: &[(f64, f64)], limit: f64, hours: f64) -> Result<Self> {
        let line = Line::fit(points).context("too few samples to judge by; let it run longer")?;
        let (first, last) = (points[0].0, points[points.len() - 1].0);
        let growth = line.slope * (last - first);
        let noise = 3.0 * line.slope_error * (last - first);
        let values = || points.iter().map(|(_, value)| *value);
        // In minutes an hour's allowance is less than what the sampling itself moves.
        let allowed = limit.max(noise);
        Ok(Self {
            name,
            minimum: values().fold(f64::INFINITY, f64::min),
            mean: values().sum::<f64>() / points.len() as f64,
            maximum: values().fold(f64::NEG_INFINITY, f64::max),
            growth,
            allowed,
            growth_per_hour: growth / hours,
            noise,
            is_flat: growth <= allowed,
        })
    }

    /// One line of the table.
    pub(crate) fn row(&self) -> String {
        let unit = if self.name == "rss_bytes" { 1024.0 * 1024.0 } else { 1.0 };
        format!(
            "{:<12} {:>9.1} {:>9.1} {:>9.1} {:>+9.2} {:>9.2} {:>+11.2}  {}",
            if unit > 1.0 { "rss (MiB)" } else { self.name },
            self.minimum / unit,
            self.mean / unit,
            self.maximum / unit,
            self.growth / unit,
            self.allowed / unit,
            self.growth_per_hour / unit,
            if self.is_flat { "PASS" } else { "FAIL" }
        )
    }

    /// The heading of the table.
    pub(crate) fn heading() -> String {
        format!(
            "{:<12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11}",
            "after warm-up", "minimum", "mean", "maximum", "growth", "allowed", "per hour"
        )
    }
}

/// A line through points by least squares.
struct Line {
    slope: f64,
    slope_error: f64,
}

impl Line {
    fn fit(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len() as f64;
        if points.len() < 10 {
            return None;
        }
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (middle, height) = (mean(|point| point.0), mean(|point| point.1));
        let spread: f64 = points.iter().map(|(x, _)| (x - middle).powi(2)).sum();
        if spread <= 0.0 {
            return None;
        }
        let slope = points.iter().map(|(x, y)| (x - middle) * (y - height)).sum::<f64>() / spread;
        let left_over: f64 = points
            .iter()
            .map(|(x, y)| (y - height - slope * (x - middle)).powi(2))
            .sum();
        Some(Self {
            slope,
            slope_error: (left_over / (count - 2.0) / spread).sqrt(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(minutes: u32, rss: impl Fn(f64) -> f64) -> Vec<Figure> {
        let samples: Vec<Sample> = (0..minutes * 30)
            .map(|index| {
                let seconds = f64::from(index) * 2.0;
                Sample {
                    seconds,
                    rss_bytes: rss(seconds),
                    open_files: 40.0 + f64::from(index % 5),
                    threads: 6.0,
                }
            })
            .collect();
        judge(&samples).unwrap()
    }

    const MIB: f64 = 1024.0 * 1024.0;

    #[test]
    fn noise_counts_as_flat() {
        let figures = run(5, |seconds| 40.0 * MIB + (seconds * 0.7).sin() * 2.0 * MIB);
        assert!(figures.iter().all(|figure| figure.is_flat), "{figures:?}");
    }

    #[test]
    fn growth_before_the_warm_up_ends_is_not_judged() {
        let figures = run(5, |seconds| 20.0 * MIB + seconds.min(110.0) * MIB);
        assert!(figures[0].is_flat, "{figures:?}");
    }

    #[test]
    fn a_leak_is_seen_in_minutes_and_in_an_hour() {
        // Per hour: what three minutes show for certain, and what an hour does.
        for (minutes, leaked) in [(5, 60.0), (60, 20.0)] {
            let leak = |seconds: f64| 40.0 * MIB + seconds * leaked * MIB / 3600.0 + (seconds * 0.7).sin() * 0.1 * MIB;
            let figures = run(minutes, leak);
            assert!(!figures[0].is_flat, "{figures:?}");
        }
    }

    #[test]
    fn too_short_a_run_is_refused() {
        assert!(judge(&[]).is_err());
        let sample = Sample {
            seconds: 1.0,
            rss_bytes: 1.0,
            open_files: 1.0,
            threads: 1.0,
        };
        assert!(judge(&[sample; 5]).is_err());
    }
}
