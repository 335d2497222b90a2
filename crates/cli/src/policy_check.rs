//! `lockwork policy check`: what a policy file says, as it was understood.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Subcommand, ValueHint};
use serde_json::json;

use crate::error::Failure;
use crate::run::read_policy;
use crate::terminal;

/// `lockwork policy`
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Check a policy file and print it as it was understood
    #[command(after_help = "\
Examples:
  lockwork policy check server.toml

A policy:
  default = \"gcr(mcs-stp)\"

  [[rule]]                              # the first rule that matches decides
  init = \"librocksdb.so.7+0x1a2b3c\"     # code that initialised, or first took, the lock
  lock = \"mcs-stp\"

  [[rule]]
  init = \"rocksdb::LRUCache::Insert\"    # the same, by function
  lock = \"ticket\"

  [[rule]]
  symbol = \"global_mutex\"               # a static lock, by name, or \"server+0x4a2c0\" by address
  lock = \"ttas\"

  [[rule]]
  kind = \"rwlock\"
  lock = \"cst-rwsem\"                    # a reader-writer lock

  [[rule]]
  kind = \"recursive\"                    # normal adaptive recursive errorcheck mutex rwlock spin cond
  lock = \"passthrough\"")]
    Check {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        /// The policy file
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
}

/// Prints the policy, or why it is none.
pub(crate) fn main(
    PolicyCommand::Check { json: as_json, file }: &PolicyCommand,
) -> Result<ExitCode, Failure> {
    let policy = read_policy(file)?;
    let text = |value: Option<String>| value.unwrap_or_else(|| "any".to_owned());
    if *as_json {
        let rules: Vec<_> = policy
            .rules
            .iter()
            .map(|rule| {
                json!({
                    "line": rule.line,
                    "init": rule.init.as_ref().map(ToString::to_string),
                    "symbol": rule.symbol.as_ref().map(ToString::to_string),
                    "kind": rule.kind.map(|kind| kind.to_string()),
                    "lock": rule.lock.to_string(),
                })
            })
            .collect();
        terminal::print_json(&json!({ "default": policy.default.to_string(), "rules": rules }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = terminal::table();
    table.set_header(["line", "initialised or first taken by", "symbol", "kind", "lock"]);
    for rule in &policy.rules {
        table.add_row([
            rule.line.to_string(),
            text(rule.init.as_ref().map(ToString::to_string)),
            text(rule.symbol.as_ref().map(ToString::to_string)),
            text(rule.kind.map(|kind| kind.to_string())),
            rule.lock.to_string(),
        ]);
    }
    table.add_row(["", "everything else", "", "", &policy.default.to_string()]);
    terminal::print(&table.trim_fmt())?;
    Ok(ExitCode::SUCCESS)
}
