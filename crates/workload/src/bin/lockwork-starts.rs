//! Measures what it costs to start a program in this environment, a preloaded library included.

use std::process::{Command, ExitCode};
use std::time::Instant;

use clap::Parser;

/// Measures the time to start a program and wait for its end.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Example:\n  lockwork compare --locks pthread,passthrough,futex --metric 'us: ([\\d.]+)' -- lockwork-starts"
)]
struct Options {
    /// How often to start it; the result is the median
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    starts: u32,

    /// The program
    #[arg(default_value = "/bin/true")]
    program: String,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let mut times = Vec::new();
    for _ in 0..options.starts {
        let start = Instant::now();
        if let Err(error) = Command::new(&options.program).status() {
            eprintln!("lockwork-starts: {}: {error}", options.program);
            return ExitCode::from(2);
        }
        times.push(start.elapsed());
    }
    times.sort_unstable();
    println!("us: {:.1}", times[times.len() / 2].as_nanos() as f64 / 1000.0);
    ExitCode::SUCCESS
}
