//! Completions and manual pages, made from the same description of the command line that parses it.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::Cli;
use crate::error::Failure;
use crate::program::describe;
use crate::terminal;

/// Prints a completion script.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "lockwork", &mut script);
    terminal::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes all pages into a directory, or prints the first.
pub(crate) fn pages(directory: Option<&Path>) -> Result<ExitCode, Failure> {
    match directory {
        Some(directory) => {
            write_all(directory).map_err(|error| {
                Failure::usage(format!("cannot write to `{}`: {}", directory.display(), describe(&error)))
            })?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command())
                .render(&mut page)
                .map_err(|error| Failure::with_status(1, format!("cannot make the page: {error}")))?;
            terminal::print(&String::from_utf8_lossy(&page))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write_all(directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    clap_mangen::generate_to(Cli::command(), directory)
}
