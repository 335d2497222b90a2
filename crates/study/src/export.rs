//! The runs of a campaign as CSV: the columns that [`Study::read`](crate::Study::read) takes, and all others behind them.

use crate::error::Error;
use crate::store::Record;

const HEADER: [&str; 37] = [
    "bench",
    "node",
    "strategy",
    "throughput",
    "rep",
    "p99",
    "energy",
    "seconds",
    "variant",
    "threads",
    "placement",
    "outcome",
    "reason",
    "machine",
    "application",
    "started",
    "wall",
    "p50",
    "p999",
    "energy_dram",
    "user",
    "system",
    "max_rss_kib",
    "voluntary",
    "involuntary",
    "minor_faults",
    "major_faults",
    "jain",
    "upper_half",
    "host",
    "kernel",
    "commit",
    "competing",
    "load",
    "temperature",
    "frequency",
    "served",
];

fn number<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// All runs, also those without a throughput: their field is empty.
///
/// # Errors
///
/// If the text cannot be made, which only a lack of memory can cause.
pub fn export(records: &[Record]) -> Result<String, Error> {
    let fail = |error: &dyn std::fmt::Display| Error::Campaign(format!("CSV: {error}"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(HEADER).map_err(|error| fail(&error))?;
    for run in records {
        let (key, usage, around) = (&run.key, &run.usage, &run.surroundings);
        let fields: [String; HEADER.len()] = [
            run.bench.clone(),
            key.nodes.to_string(),
            key.lock.clone(),
            number(run.throughput),
            key.round.to_string(),
            number(run.p99),
            number(run.energy),
            number(run.energy_seconds),
            run.variant.clone(),
            key.threads.to_string(),
            key.placement.name().to_owned(),
            run.outcome.name().to_owned(),
            run.reason.clone().unwrap_or_default(),
            run.machine.clone().unwrap_or_default(),
            key.application.clone(),
            run.started.clone(),
            format!("{:.6}", run.seconds),
            number(run.p50),
            number(run.p999),
            number(run.energy_dram),
            usage.user.to_string(),
            usage.system.to_string(),
            usage.max_rss.to_string(),
            usage.voluntary.to_string(),
            usage.involuntary.to_string(),
            usage.minor_faults.to_string(),
            usage.major_faults.to_string(),
            number(run.jain),
            number(run.upper_half),
            around.host.clone(),
            around.kernel.clone(),
            around.commit.clone(),
            number(around.competing),
            number(around.load),
            number(around.temperature),
            number(around.frequency),
            run.served.clone().unwrap_or_default(),
        ];
        writer.write_record(fields).map_err(|error| fail(&error))?;
    }
    let bytes = writer.into_inner().map_err(|error| fail(&error))?;
    String::from_utf8(bytes).map_err(|error| fail(&error))
}
