//! Asks the monitor at a socket a thousand times a second whether a thread runs, as waiters of aware locks do, until it is
//! ended. It says so when it is told for the first time. Without a socket it wakes up as often and asks nobody.
//!
//! ```text
//! target/release/examples/asks /run/lockwork/monitor.sock
//! ```

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use lockwork_platform::monitor::{Attached, attach_as_told};
use lockwork_platform::{LastSeen, Native, Sched};

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(1);

fn main() -> ExitCode {
    let Some(socket) = std::env::args().nth(1) else {
        println!("awake");
        loop {
            thread::sleep(PAUSE);
        }
    };
    if !(0..100).any(|_| attach_as_told(&socket) == Attached::Yes) {
        eprintln!("asks: no monitor answers at {socket}");
        return ExitCode::FAILURE;
    }
    let me = Native::tid();
    let mut says = Some("told");
    loop {
        let told = Native::running(me).or_else(|| Native::has_run(me, &mut LastSeen::default()));
        match told {
            Some(_) => says.take().into_iter().for_each(|what| println!("{what}")),
            // Where context switches are watched, somebody has to ask for it.
            None => Native::want_watch(),
        }
        thread::sleep(PAUSE);
    }
}
