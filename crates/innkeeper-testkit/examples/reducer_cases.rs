//! Writes cases for the reducers of the web app, one JSON object per line: `reducer_cases FILE [SEEDS]`.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};

use innkeeper_testkit::reducer_cases::{random, recorded};

/// Random cases per run of the simulator: a run takes as long as many of them.
const RANDOM_PER_RUN: u64 = 50;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: reducer_cases FILE [SEEDS]")?;
    let seeds: u64 = arguments.next().map_or(Ok(60), |seeds| seeds.parse())?;
    let mut file = BufWriter::new(File::create(&path)?);
    let mut cases = 0;
    for seed in 0..seeds {
        let random = (0..RANDOM_PER_RUN).map(|number| random(seed * RANDOM_PER_RUN + number));
        let random: Vec<_> = random.collect::<Result<_, _>>()?;
        for case in recorded(seed)?.iter().chain(&random) {
            serde_json::to_writer(&mut file, case)?;
            file.write_all(b"\n")?;
            cases += 1;
        }
    }
    file.flush()?;
    println!("{cases} cases in {path}");
    Ok(())
}
