//! Which benchmarks are tried, and what their reports must hold to be believed.
//!
//! Speed is judged only where the benchmark itself does it, with CPU time of the same run: a busy machine must not turn
//! the checks red.

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// One brief run of a benchmark.
pub(super) struct Benchmark {
    pub(super) arguments: &'static [&'static str],
    /// A number that the report must hold somewhere, and that must be above zero.
    pub(super) figure: Option<&'static str>,
}

/// The benchmarks that are tried.
pub(super) const BENCHMARKS: &[Benchmark] = &[
    Benchmark {
        arguments: &["fanout", "--clients", "10", "--deltas", "20000"],
        figure: Some("ratio"),
    },
    // Long rounds: the kernel counts CPU time in steps of 10 ms, and the benchmark fails beyond its limit.
    Benchmark {
        arguments: &["dialects", "--deltas", "100000"],
        figure: Some("cost"),
    },
    Benchmark {
        arguments: &[
            "idle",
            "--connections",
            "200",
            "--subscribers",
            "30",
            "--pings",
            "200",
            "--starts",
            "1",
        ],
        figure: Some("rss_per_connection_bytes"),
    },
    Benchmark {
        arguments: &["core", "--smoke"],
        figure: None,
    },
    Benchmark {
        arguments: &["stored", "--sessions", "2000", "--touched", "50", "--starts", "1"],
        figure: None,
    },
    Benchmark {
        arguments: &["history", "--turns", "200", "--mib", "12", "--deltas", "5000"],
        figure: Some("ratio"),
    },
    Benchmark {
        arguments: &["model", "--deltas", "300", "--rush", "5000"],
        figure: Some("ratio"),
    },
    Benchmark {
        arguments: &[
            "durable",
            "--clients",
            "4",
            "--seconds",
            "1",
            "--deltas-per-second",
            "10000",
            "--stream-seconds",
            "3",
        ],
        figure: Some("ratio"),
    },
    Benchmark {
        arguments: &["mcp", "--calls", "40", "--large-calls", "8"],
        figure: Some("ratio"),
    },
    Benchmark {
        arguments: &[
            "acp",
            "--deltas",
            "200",
            "--rush",
            "5000",
            "--rounds",
            "1",
            "--sessions",
            "5",
        ],
        figure: Some("ratio"),
    },
    Benchmark {
        arguments: &["scan", "--plugins", "40", "--rounds", "1"],
        figure: Some("cold_ratio"),
    },
    Benchmark {
        arguments: &["changes", "--files", "500", "--changed", "50", "--rounds", "1"],
        figure: Some("first_ratio"),
    },
    Benchmark {
        arguments: &[
            "terminal",
            "--megabytes",
            "5",
            "--watchers",
            "2",
            "--terminals",
            "5",
            "--rounds",
            "1",
        ],
        figure: Some("one_ratio"),
    },
    // It judges, too: memory, and the share of CPU time that the client takes.
    Benchmark {
        arguments: &["chat", "--minutes", "2"],
        figure: Some("cpu_cores"),
    },
];

/// The soak. It judges, and its verdict does not depend on how fast the machine is.
pub(super) const SOAK: Benchmark = Benchmark {
    arguments: &["soak", "--minutes", "5"],
    figure: None,
};

/// Checks that a report is JSON and not empty, and holds the figure that the benchmark is about.
pub(super) fn check(benchmark: &Benchmark, report: &str) -> Result<()> {
    let values: Vec<Value> = serde_json::Deserializer::from_str(report)
        .into_iter()
        .collect::<Result<_, _>>()
        .context("the benchmark printed something other than JSON on stdout")?;
    let mut numbers = Vec::new();
    for value in &values {
        collect_numbers("", value, &mut numbers);
    }
    if !numbers.iter().any(|(_, number)| *number > 0.0) {
        bail!("the benchmark reported no figure above zero");
    }
    let Some(figure) = benchmark.figure else {
        return Ok(());
    };
    let mut of_figure = numbers.iter().filter(|(name, _)| *name == figure).peekable();
    if of_figure.peek().is_none() {
        bail!("the benchmark reported no `{figure}`");
    }
    match of_figure.find(|(_, number)| *number <= 0.0) {
        Some((_, number)) => bail!("the benchmark reported a `{figure}` of {number}"),
        None => Ok(()),
    }
}

/// Collects every number of a report with the name of the field that holds it.
fn collect_numbers<'a>(name: &'a str, value: &'a Value, numbers: &mut Vec<(&'a str, f64)>) {
    match value {
        Value::Number(number) => numbers.extend(number.as_f64().map(|number| (name, number))),
        Value::Array(values) => {
            for value in values {
                collect_numbers(name, value, numbers);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                collect_numbers(name, value, numbers);
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITH_RATIO: Benchmark = Benchmark {
        arguments: &[],
        figure: Some("ratio"),
    };

    /// Returns the commands of `innkeeper-bench` that its help shows.
    fn commands(source: &str) -> Vec<String> {
        let (_, variants) = source.split_once("enum Bench {").expect("the enum of benchmarks");
        let (variants, _) = variants.split_once("\n}").expect("its end");
        let mut is_hidden = false;
        let mut names = Vec::new();
        for line in variants.lines().map(str::trim) {
            let name: String = line.chars().take_while(char::is_ascii_alphanumeric).collect();
            match name.as_str() {
                "" => is_hidden |= line.contains("hide = true"),
                _ if std::mem::take(&mut is_hidden) => {}
                name => names.push(name.to_ascii_lowercase()),
            }
        }
        names
    }

    #[test]
    fn every_benchmark_is_tried() {
        let source = include_str!("../../../crates/innkeeper-bench/src/main.rs");
        let mut known = commands(source);
        let tried = BENCHMARKS.iter().chain([&SOAK]);
        let mut tried: Vec<&str> = tried.map(|benchmark| benchmark.arguments[0]).collect();
        known.sort();
        tried.sort_unstable();
        assert_eq!(tried, known, "add a row for a new benchmark");
    }

    #[test]
    fn hidden_commands_are_no_benchmarks() {
        let source = "enum Bench {\n    /// Measures.\n    Idle(idle::Args),\n    #[command(hide = true)]\n    Server,\n    \
                      Soak(Args),\n}\n";
        assert_eq!(commands(source), ["idle", "soak"]);
    }

    #[test]
    fn believable_reports_pass() {
        for report in [
            r#"{"ratio": 0.6}"#,
            "{\"benchmark\": \"fanout\"}\n{\"runs\": [{\"ratio\": 0.61}]}\n",
        ] {
            assert!(check(&WITH_RATIO, report).is_ok(), "{report}");
        }
    }

    #[test]
    fn unbelievable_reports_fail() {
        for report in [
            "",
            "{}",
            "ratio: 0.6",
            r#"{"ratio": null, "p99": 1}"#,
            r#"{"ratio": 0.0, "p99": 1}"#,
            r#"{"p99": 1}"#,
        ] {
            assert!(check(&WITH_RATIO, report).is_err(), "{report}");
        }
    }
}
