//! `lockwork sim`: the locks on machines that one does not have at hand.

mod args;
mod coverage;
mod explain;
pub(crate) mod grid;
mod machines;
pub(crate) mod predict;
mod predict_check;
mod sensitivity;
mod sweep;
mod validate;
mod workers;
mod workload;

use std::process::ExitCode;

pub(crate) use args::{SimArgs, SimCommand};
pub(crate) use workload::share;

use crate::error::Failure;

/// Simulates. The exit status is 0 when anything was simulated, 130 after Ctrl-C, else 1.
pub(crate) fn main(args: &SimArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        Some(SimCommand::Machines { name, json }) => machines::main(name.as_deref(), *json),
        Some(SimCommand::Validate { source, seeds, sensitivity, json, out, place }) => {
            let runs = validate::Wanted { seeds: *seeds, variants: *sensitivity };
            validate::main(source.as_deref(), runs, *json, out.as_deref(), place)
        }
        Some(SimCommand::Coverage(args)) => coverage::main(args),
        None if args.sweep.explain => explain::main(&args.sweep),
        None => sweep::main(&args.sweep),
    }
}
