//! The figures of `fanout`: per round, as medians, and as ratios of host to broadcaster.

use std::fmt;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::{
    fanout::round::{Load, RoundOutcome},
    report::machine::Machine,
    report::stats::{Percentiles, median, ratio},
};

/// The figures of one round, or the medians of several.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RoundFigures {
    /// From the first delivery to any client to the last delivery to any client.
    seconds: f64,
    /// Deltas times clients; a delta that was merged into another's frame counts.
    deliveries: u64,
    /// Frames that carried them.
    frames: u64,
    /// The share of deliveries that had no frame of their own.
    merged_fraction: f64,
    /// The throughput that `ratio` compares.
    deliveries_per_second: f64,
    /// The throughput if a merged frame is worth no more than any other.
    frames_per_second: f64,
    /// CPU time of the server, user and kernel, for one delivery.
    cpu_per_delivery_us: f64,
    /// The server's memory at its highest.
    peak_rss_bytes: u64,
    /// CPU seconds of this process per second: near the count of its threads, it is the limit itself.
    client_cpu_share: f64,
    /// From making a delta to its receipt, for paced runs.
    latency: Option<Percentiles>,
    /// From the first client's receipt of a delta to each client's, for paced runs.
    spread: Option<Percentiles>,
}

impl RoundFigures {
    /// Computes the figures of a round of turns with `deltas` deltas.
    pub(crate) fn new(outcome: &RoundOutcome, deltas: usize) -> Result<Self> {
        let delivered = &outcome.delivered;
        let first = delivered
            .iter()
            .map(|client| client.first)
            .min()
            .context("no client received anything")?;
        let last = delivered
            .iter()
            .map(|client| client.last)
            .max()
            .context("no client received anything")?;
        let seconds = last.duration_since(first).as_secs_f64();
        let deliveries = (deltas * delivered.len()) as u64;
        let frames = delivered.iter().map(|client| client.frames).sum::<u64>();
        Ok(Self {
            seconds,
            deliveries,
            frames,
            merged_fraction: deliveries.saturating_sub(frames) as f64 / deliveries as f64,
            deliveries_per_second: ratio(deliveries as f64, seconds).context("all arrived at once; use more deltas")?,
            frames_per_second: ratio(frames as f64, seconds).context("all arrived at once; use more deltas")?,
            cpu_per_delivery_us: outcome.server_cpu.as_secs_f64() * 1e6 / deliveries as f64,
            peak_rss_bytes: outcome.peak_resident_bytes,
            client_cpu_share: outcome.client_cpu.as_secs_f64() / outcome.elapsed.as_secs_f64(),
            latency: Percentiles::of_nanos(delivered.iter().flat_map(|client| client.latencies.clone()).collect()),
            spread: spread(delivered.iter().map(|client| client.arrivals.as_slice())),
        })
    }

    /// Returns the CPU time of the server for one delivery, in microseconds.
    pub(crate) fn cpu_per_delivery_us(&self) -> f64 {
        self.cpu_per_delivery_us
    }

    /// Returns the throughput.
    pub(crate) fn deliveries_per_second(&self) -> f64 {
        self.deliveries_per_second
    }

    /// Returns the median of every figure.
    fn medians(rounds: &[Self]) -> Option<Self> {
        let of = |figure: fn(&Self) -> f64| median(rounds.iter().map(figure));
        let percentiles = |figure: fn(&Self) -> Option<Percentiles>| {
            let samples: Vec<_> = rounds.iter().filter_map(figure).collect();
            Some(Percentiles {
                p50_us: median(samples.iter().map(|sample| sample.p50_us))?,
                p99_us: median(samples.iter().map(|sample| sample.p99_us))?,
            })
        };
        Some(Self {
            seconds: of(|round| round.seconds)?,
            deliveries: of(|round| round.deliveries as f64)? as u64,
            frames: of(|round| round.frames as f64)? as u64,
            merged_fraction: of(|round| round.merged_fraction)?,
            deliveries_per_second: of(|round| round.deliveries_per_second)?,
            frames_per_second: of(|round| round.frames_per_second)?,
            cpu_per_delivery_us: of(|round| round.cpu_per_delivery_us)?,
            peak_rss_bytes: of(|round| round.peak_rss_bytes as f64)? as u64,
            client_cpu_share: of(|round| round.client_cpu_share)?,
            latency: percentiles(|round| round.latency),
            spread: percentiles(|round| round.spread),
        })
    }
}

impl fmt::Display for RoundFigures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{:.0} deliveries/s, {:.1} % merged, {:.3} µs CPU per delivery, peak {:.1} MiB",
            self.deliveries_per_second,
            self.merged_fraction * 100.0,
            self.cpu_per_delivery_us,
            self.peak_rss_bytes as f64 / (1024.0 * 1024.0),
        )?;
        if let Some(latency) = self.latency {
            write!(formatter, ", latency {latency}")?;
        }
        Ok(())
    }
}

/// The result of `fanout`. Ratios are host to broadcaster and absent without a host.
#[derive(Debug, Serialize)]
pub(crate) struct FanoutReport {
    bench: &'static str,
    clients: usize,
    deltas: usize,
    bytes: usize,
    frame_bytes: usize,
    delay_ms: u64,
    max_latency_ms: u64,
    /// Deliveries per second; the higher the better.
    ratio: Option<f64>,
    /// Frames per second: the same without the gain of merging.
    frames_ratio: Option<f64>,
    /// CPU time per delivery; the lower the better.
    cpu_per_delivery_ratio: Option<f64>,
    /// p99 from making a delta to its receipt, for paced runs; the lower the better.
    latency_p99_ratio: Option<f64>,
    host: Option<RoundFigures>,
    raw: RoundFigures,
    host_rounds: Vec<RoundFigures>,
    raw_rounds: Vec<RoundFigures>,
    machine: Machine,
}

impl FanoutReport {
    /// Computes medians and ratios.
    pub(crate) fn new(
        load: &Load,
        frame_bytes: usize,
        host_rounds: Vec<RoundFigures>,
        raw_rounds: Vec<RoundFigures>,
    ) -> Result<Self> {
        let host = RoundFigures::medians(&host_rounds);
        let raw = RoundFigures::medians(&raw_rounds).context("the broadcaster ran no round")?;
        let compare = |figure: fn(&RoundFigures) -> Option<f64>| ratio(figure(host.as_ref()?)?, figure(&raw)?);
        Ok(Self {
            bench: "fanout",
            clients: load.clients,
            deltas: load.measured.deltas,
            bytes: load.measured.bytes,
            frame_bytes,
            delay_ms: load.measured.delay_ms,
            max_latency_ms: load.max_latency_ms,
            ratio: compare(|figures| Some(figures.deliveries_per_second)),
            frames_ratio: compare(|figures| Some(figures.frames_per_second)),
            cpu_per_delivery_ratio: compare(|figures| Some(figures.cpu_per_delivery_us)),
            latency_p99_ratio: compare(|figures| Some(figures.latency?.p99_us)),
            host,
            raw,
            host_rounds,
            raw_rounds,
            machine: Machine::current(),
        })
    }
}

/// Returns how far behind the first client each client received each delta.
fn spread<'client>(arrivals: impl Iterator<Item = &'client [u64]> + Clone) -> Option<Percentiles> {
    let deltas = arrivals.clone().map(<[u64]>::len).min()?;
    let samples = (0..deltas).flat_map(|delta| {
        let first = arrivals.clone().map(|client| client[delta]).min().unwrap_or_default();
        arrivals.clone().map(move |client| client[delta] - first)
    });
    Percentiles::of_nanos(samples.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(deliveries_per_second: f64, p99_us: f64) -> RoundFigures {
        RoundFigures {
            seconds: 1.0,
            deliveries: 100,
            frames: 50,
            merged_fraction: 0.5,
            deliveries_per_second,
            frames_per_second: deliveries_per_second / 2.0,
            cpu_per_delivery_us: 3.0,
            peak_rss_bytes: 1024,
            client_cpu_share: 0.5,
            latency: Some(Percentiles { p50_us: 1.0, p99_us }),
            spread: None,
        }
    }

    #[test]
    fn medians_are_taken_figure_by_figure() {
        let rounds = [figures(10.0, 7.0), figures(30.0, 5.0), figures(20.0, 9.0)];
        let medians = RoundFigures::medians(&rounds).unwrap();
        assert_eq!(medians.deliveries_per_second, 20.0);
        assert_eq!(medians.latency.unwrap().p99_us, 7.0);
        assert_eq!(medians.spread, None);
        assert!(RoundFigures::medians(&[]).is_none());
    }

    #[test]
    fn spread_is_measured_from_the_first_receipt_of_each_delta() {
        let arrivals: [&[u64]; 2] = [&[1_000, 9_000], &[4_000, 8_000]];
        let spread = spread(arrivals.into_iter()).unwrap();
        assert_eq!(
            spread,
            Percentiles {
                p50_us: 0.0,
                p99_us: 3.0
            }
        );
        assert_eq!(super::spread([].into_iter()), None);
    }
}
