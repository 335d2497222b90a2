//! `lockwork policy check`: what a policy file says, as it was understood.

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;

use crate::error::Failure;
use crate::run::read_policy;
use crate::terminal;

/// Prints the policy, or why it is none.
pub(crate) fn main(file: &Path, as_json: bool) -> Result<ExitCode, Failure> {
    let policy = read_policy(file)?;
    let text = |value: Option<String>| value.unwrap_or_else(|| "any".to_owned());
    if as_json {
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
