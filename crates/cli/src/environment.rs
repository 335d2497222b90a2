//! The variables of `lockwork_config`, as this process has them.

use lockwork_config::{self as config, Variable};
use lockwork_platform::topology::Topology;

use crate::error::Failure;

/// The value of a variable, if it is not empty.
pub(crate) fn get(variable: &Variable) -> Result<Option<String>, Failure> {
    match std::env::var_os(variable.name).filter(|value| !value.is_empty()) {
        None => Ok(None),
        Some(value) => value
            .into_string()
            .map(Some)
            .map_err(|_| Failure::usage(format!("{} is not UTF-8", variable.name))),
    }
}

/// Refuses what the library would refuse, before it is put under a program.
pub(crate) fn check() -> Result<(), Failure> {
    topology()?;
    let text = get(&config::SPIN_NS)?;
    config::spin_ns(text.as_deref()).map_err(|error| Failure::usage(error.to_string()))?;
    let text = get(&config::CPU_CLOCKS)?;
    config::cpu_clocks(text.as_deref()).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(())
}

/// The virtual topology, if there is one.
pub(crate) fn topology() -> Result<Option<Topology>, Failure> {
    let text = get(&config::TOPOLOGY)?;
    text.map(|text| Topology::of_variable(&text).map_err(|error| Failure::usage(error.to_string())))
        .transpose()
}
