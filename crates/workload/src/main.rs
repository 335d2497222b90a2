//! `lockwork-avl`: a key-value map behind one POSIX lock, as a program to try locks on.

mod avl;
mod lock;
mod map;
mod options;
mod report;
mod rng;
mod run;

use clap::Parser;
use options::Options;
use report::Report;
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = Options::parse();
    match run::run(&options) {
        Ok(result) => {
            print(&Report::new(&options, &result), options.json);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("lockwork-avl: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print(report: &Report, json: bool) {
    if json {
        println!("{}", serde_json::to_string(report).expect("a report has only JSON's types"));
    } else {
        println!("{report}");
    }
}
