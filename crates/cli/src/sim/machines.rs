//! `lockwork sim machines`: which machines there are; and from a name or a file to a machine.

use std::path::Path;
use std::process::ExitCode;

use lockwork_sim::Machine;
use lockwork_sim::machine::{library, named, text_of};

use crate::error::Failure;
use crate::terminal;

/// Lists the machines, or prints the file of one.
pub(super) fn main(name: Option<&str>, json: bool) -> Result<ExitCode, Failure> {
    let machines = library();
    if let Some(name) = name {
        let text = text_of(name).ok_or_else(|| unknown(name))?;
        terminal::print(text)?;
    } else if json {
        terminal::print_json(&machines)?;
    } else {
        let mut table = terminal::wrapping_table();
        table.set_header(["name", "CPUs", "nodes", "machine", "latencies from"]);
        for machine in &machines {
            table.add_row([
                machine.name.clone(),
                machine.cpus().to_string(),
                machine.nodes.to_string(),
                machine.title.clone(),
                machine.source.clone(),
            ]);
        }
        terminal::print(&table.trim_fmt())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The machine that `text` names, or that the file of this name describes.
pub(super) fn find(text: &str) -> Result<Machine, Failure> {
    if let Some(machine) = named(text) {
        return Ok(machine);
    }
    if text.contains('/') || Path::new(text).extension().is_some() {
        return Machine::read(Path::new(text)).map_err(Failure::usage);
    }
    Err(unknown(text))
}

fn unknown(name: &str) -> Failure {
    let machines = library();
    let names = machines.iter().map(|machine| machine.name.as_str());
    let mend = match lockwork_locks::registry::nearest(name, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`lockwork sim machines` shows those there are; a file is named with its ending".to_owned(),
    };
    Failure::usage(format!("unknown machine `{name}`: {mend}"))
}
