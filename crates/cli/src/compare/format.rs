//! Numbers and labels as tables and charts show them.

use super::meta::MetricInfo;
use lockwork_stats::{Estimate, MIN_PAIRS};

use super::results::{Document, ServedBy};
use super::served::Served;
use super::summary::Cell;
use crate::specs::NO_PRELOAD;

/// A value to four significant digits, large ones in full with commas.
pub(crate) fn value(value: f64) -> String {
    let magnitude = value.abs();
    if (10_000.0..1e15).contains(&magnitude) {
        return with_commas(value);
    }
    if magnitude != 0.0 && !(1e-4..1e15).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let exponent = if magnitude == 0.0 { 0 } else { magnitude.log10().floor() as i32 };
    let decimals = (3 - exponent).max(0) as usize;
    format!("{value:.decimals$}")
}

fn with_commas(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

/// A value with its metric's unit.
pub(crate) fn with_unit(number: f64, metric: &MetricInfo) -> String {
    if metric.unit.is_empty() { value(number) } else { format!("{} {}", value(number), metric.unit) }
}

/// ` in seconds`, or nothing for a metric without a unit.
pub(crate) fn in_unit(metric: &MetricInfo) -> String {
    match metric.unit.as_str() {
        "" => String::new(),
        "s" => " in seconds".to_owned(),
        unit => format!(" in {unit}"),
    }
}

/// `1.98 – 2.07`
pub(crate) fn interval(estimate: &Estimate) -> String {
    format!("{} – {}", value(estimate.low), value(estimate.high))
}

/// `0.54×`
pub(crate) fn ratio(value: f64) -> String {
    if value >= 1000.0 {
        format!("{}×", with_commas(value))
    } else if value >= 100.0 {
        format!("{value:.0}×")
    } else if value >= 10.0 {
        format!("{value:.1}×")
    } else if value >= 0.01 || value == 0.0 {
        format!("{value:.2}×")
    } else {
        format!("{value:.4}×")
    }
}

/// `0.52× – 0.57×`
pub(crate) fn ratio_interval(estimate: &Estimate) -> String {
    format!("{} – {}", ratio(estimate.low), ratio(estimate.high))
}

/// `lower is better`
pub(crate) fn direction(metric: &MetricInfo) -> &'static str {
    if metric.higher_is_better { "higher is better" } else { "lower is better" }
}

/// `8 threads`
pub(crate) fn threads(count: Option<u32>) -> String {
    match count {
        Some(1) => "1 thread".to_owned(),
        Some(count) => format!("{count} threads"),
        None => "as given".to_owned(),
    }
}

/// Runs made, and the good ones among them when not all are.
pub(crate) fn runs(cell: &Cell) -> String {
    if cell.ok == cell.runs { cell.runs.to_string() } else { format!("{} of {}", cell.ok, cell.runs) }
}

/// The command line, quoted as a shell needs it.
pub(crate) fn command(words: &[String]) -> String {
    words
        .iter()
        .map(|word| {
            // Braces are the templates' own and need no quotes to be read.
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%{}*".contains(c);
            if !word.is_empty() && word.chars().all(plain) {
                word.clone()
            } else {
                format!("'{}'", word.replace('\'', "'\\''"))
            }
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// Of each lock that ran, with the thread count if there are several, what was served by it; empty where no run was asked.
pub(crate) fn served(document: &Document) -> Vec<(String, String)> {
    let line = |said: &ServedBy| {
        let what = match &said.served {
            Some(served) => served.to_string(),
            None if document.meta.delegates.contains(&said.lock) => {
                "the program's delegates, which LOCKWORK_DELEGATE names; its other locks are glibc's"
                    .to_owned()
            }
            None if said.lock == NO_PRELOAD => "every lock is glibc's, without the library".to_owned(),
            None => "nothing was heard of what it served: no lock was used, or the program ended by a signal or _exit"
                .to_owned(),
        };
        let at = said.threads.map(|count| format!(" ({})", threads(Some(count)))).unwrap_or_default();
        (format!("{}{at}", said.lock), what)
    };
    document.served.iter().map(line).collect()
}

/// Caveats that belong under every table and into the report.
pub(crate) fn caveats(document: &Document) -> Vec<String> {
    use super::results::NOTABLE_LOAD;
    let mut caveats = Vec::new();
    if document.meta.interrupted {
        caveats.push("Stopped by the user: only the runs made until then are counted.".to_owned());
    }
    if document.meta.hopeless {
        caveats.push(
            "Stopped after the first round: no run of it ended well with every metric. Check the command and \
             --metric."
                .to_owned(),
        );
    }
    if (document.meta.rounds as usize) < MIN_PAIRS {
        caveats.push(format!(
            "With {} {} of each, chance alone tells equals apart more often than one time in twenty: use {MIN_PAIRS} \
             or more for a verdict.",
            document.meta.rounds,
            if document.meta.simulated.is_some() { "seeds" } else { "measured rounds" },
        ));
    }
    // A `+` in its name says that both kinds were meant.
    let of_both = |said: &&ServedBy| {
        !said.lock.contains('+') && said.served.as_ref().is_some_and(Served::is_of_both_kinds)
    };
    let both: Vec<String> =
        document.served.iter().filter(of_both).map(|said| format!("`{}`", said.lock)).collect();
    if let Some(first) = document.served.iter().find(of_both) {
        let name = first.lock.split_once('@').map_or(first.lock.as_str(), |(name, _)| name);
        caveats.push(format!(
            "Figures of {} are of mutexes and of reader-writer locks. `{name}+{NO_PRELOAD}` leaves reader-writer locks \
             to glibc, which measures the mutex alone.",
            both.join(", ")
        ));
    }
    for said in &document.served {
        let Some(served) = said.served.as_ref() else { continue };
        if served.is_nothing() && said.lock != "passthrough" {
            caveats.push(format!(
                "`{}` served no lock of the program: its figures are not the lock's.",
                said.lock
            ));
        }
    }
    if let Some(load) = document.competing_load.filter(|&load| load > NOTABLE_LOAD) {
        caveats.push(format!(
            "Other processes took {:.0}% of the machine's CPU time during the runs (median); repeat on an idle \
             machine.",
            load * 100.0
        ));
    }
    caveats
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        for (number, text) in [
            (0.0, "0.000"),
            (2.3141, "2.314"),
            (12.3456, "12.35"),
            (123.456, "123.5"),
            (1234.5, "1234"),
            (12345.6, "12,346"),
            (1_234_567.0, "1,234,567"),
            (-12_345.0, "-12,345"),
            (0.01234, "0.01234"),
            (0.5, "0.5000"),
            (0.000_012, "1.200e-5"),
        ] {
            assert_eq!(value(number), text);
        }
    }

    #[test]
    fn ratios() {
        for (number, text) in
            [(0.5449, "0.54×"), (12.34, "12.3×"), (123.4, "123×"), (12345.0, "12,345×"), (0.0012, "0.0012×")]
        {
            assert_eq!(ratio(number), text);
        }
    }

    #[test]
    fn commands_are_quoted_only_where_needed() {
        let words = ["db_bench", "--reads={800000/threads}", "a b", "it's", ""].map(str::to_owned);
        assert_eq!(command(&words), r"db_bench --reads={800000/threads} 'a b' 'it'\''s' ''");
    }
}
