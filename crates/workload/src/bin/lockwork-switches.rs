//! Measures what a context switch costs: two threads on one CPU that wake each other in turn through pipes, and do
//! nothing else. What watches the scheduler shows here most.

use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use clap::Parser;

/// Measures the time of a context switch, by two threads that hand a byte to and fro.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Example:\n  lockwork compare --locks pthread,mcs-aware --metric 'ns: ([\\d.]+)' -- lockwork-switches"
)]
struct Options {
    /// How often the byte goes there and back
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

fn main() -> ExitCode {
    match measure(Options::parse().rounds) {
        Ok(ns) => {
            println!("ns: {ns:.1}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("lockwork-switches: {error}");
            ExitCode::from(2)
        }
    }
}

/// Nanoseconds of one switch.
fn measure(rounds: u32) -> io::Result<f64> {
    stay_on_one_cpu()?;
    let (mut from_first, mut to_second) = io::pipe()?;
    let (mut from_second, mut to_first) = io::pipe()?;
    let second = thread::spawn(move || {
        let mut byte = [0];
        while from_first.read(&mut byte).is_ok_and(|got| got == 1) && to_first.write_all(&byte).is_ok() {}
    });
    let mut byte = [0];
    let start = Instant::now();
    for _ in 0..rounds {
        to_second.write_all(&byte)?;
        from_second.read_exact(&mut byte)?;
    }
    let time = start.elapsed();
    drop(to_second);
    second.join().map_err(|_| io::Error::other("the second thread panicked"))?;
    Ok(time.as_nanos() as f64 / f64::from(rounds) / 2.0)
}

/// Binds this thread, and those it starts, to the CPU it runs on.
fn stay_on_one_cpu() -> io::Result<()> {
    // SAFETY: takes nothing.
    let cpu = unsafe { libc::sched_getcpu() };
    // SAFETY: all zero is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: a CPU that exists.
    unsafe { libc::CPU_SET(usize::try_from(cpu).unwrap_or(0), &mut set) };
    // SAFETY: the set is as large as is said.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
