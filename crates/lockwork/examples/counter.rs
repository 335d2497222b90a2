//! Counts under the lock of your choice: `cargo run --release --example counter -- 'gcr(mcs-stp)' 8`

use std::env;
use std::error::Error;
use std::thread;
use std::time::Instant;

use lockwork::DynMutex;

const ROUNDS: u64 = 1_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let spec = args.next().unwrap_or_else(|| "gcr(mcs-stp)".into());
    let threads: u64 = args.next().map_or(Ok(4), |text| text.parse())?;

    let count = DynMutex::with_spec(&spec, 0)?;
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..ROUNDS / threads {
                    *count.lock() += 1;
                }
            });
        }
    });
    let spent = start.elapsed();

    println!("{}: {} increments by {threads} threads in {spent:.0?}", count.lock_ref(), count.lock());
    Ok(())
}
