//! The HTML report: one file that asks the network for nothing and can be read without JavaScript.

mod lines;
mod rows;
mod scale;
mod series;

use lockwork_stats::{MIN_PAIRS, Margin, RESAMPLES};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::format;
use super::meta::MetricInfo;
use super::results::Document;
use super::runs::{Outcome, Run};
use super::summary::Cell;
use super::verdict::Verdict;
use rows::Show;
use series::Look;

pub(crate) const STYLE: &str = include_str!("style.css");
pub(crate) const SCRIPT: &str = include_str!("script.js");

/// Browsers enforce what the page promises: nothing is loaded from anywhere.
pub(crate) const CONTENT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; \
     form-action 'none'";

/// The whole page.
pub(crate) fn page(document: &Document) -> String {
    let baseline = document.meta.common_baseline();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(CONTENT_POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Locks compared: " (document.meta.command.first().map(String::as_str).unwrap_or_default()) }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#results" { "Skip to the results" }
                (header(document))
                main id="results" {
                    (glance(document))
                    @for (index, metric) in document.meta.metrics.iter().enumerate() {
                        (metric_section(document, metric, baseline, index))
                    }
                    (served(document))
                    (bad_runs(document))
                    (how_to_read(document))
                    (all_runs(document))
                }
                footer {
                    "Made by lockwork " (document.meta.lockwork) ". The same data: "
                    code { "runs.csv" } ", " code { "meta.json" } " and " code { "results.json" } " beside this file."
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

fn header(document: &Document) -> Markup {
    html! {
        header {
            p.kicker { "Lockwork comparison" }
            @if document.meta.simulated.is_some() {
                h1 { "How " (document.meta.locks.len()) " locks did in simulation" }
            } @else {
                h1 { "How " (document.meta.locks.len()) " locks did under one command" }
            }
            pre.command tabindex="0" aria-label="The command" { code { (format::command(&document.meta.command)) } }
            @if let Some(original) = &document.meta.original {
                pre.command tabindex="0" aria-label="The command under locks" { code { (format::command(original)) } }
            }
            dl.facts {
                (fact("Date", &document.meta.date))
                @if let Some(machine) = &document.meta.simulated {
                    (fact("Simulated machine", machine))
                    (fact("Baseline", &document.meta.baseline))
                    (fact("Runs", &format!("{} seeds", document.meta.rounds)))
                } @else {
                    (fact("Machine", &document.meta.host.line()))
                    (fact("Baseline", &document.meta.baseline))
                    (fact("Runs", &format!(
                        "{} interleaved rounds after {} of warm-up; time-out {} s; seed {}",
                        document.meta.rounds, document.meta.warmup_rounds, document.meta.timeout_s, document.meta.seed
                    )))
                }
                @if let Some(load) = document.competing_load {
                    (fact("Competing load", &format!("{:.1}% of the machine's CPU time (median over runs)", load * 100.0)))
                }
                @if let Some(commit) = &document.meta.commit {
                    (fact("Commit", commit))
                }
                @if let Some(library) = &document.meta.library {
                    (fact("Library", library))
                }
                @for library in &document.meta.libraries {
                    (fact(&format!("Library @{}", library.label), &library.path))
                }
            }
            @for caveat in format::caveats(document) {
                p.caveat role="note" { (caveat) }
            }
        }
    }
}

fn fact(name: &str, value: &str) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

/// The primary metric's outcome in a card for each thread count.
fn glance(document: &Document) -> Markup {
    let Some(metric) = document.meta.metrics.first() else {
        return html! {};
    };
    html! {
        section aria-labelledby="glance" {
            h2 id="glance" { "At a glance" }
            p { "By " strong { (metric.name) } ", against " strong { (document.meta.baseline) } ":" }
            div.cards {
                @for threads in 0..document.meta.threads.len() {
                    @let cells: Vec<&Cell> =
                        document.cells(metric).filter(|cell| cell.threads_index == threads).collect();
                    div.card {
                        h3 { (if document.meta.threads == [None] { "All runs".to_owned() } else { format::threads(document.meta.threads[threads]) }) }
                        ul {
                            @for verdict in [
                                Verdict::Faster, Verdict::NoDifference, Verdict::Slower, Verdict::Collapsed,
                                Verdict::Failed, Verdict::NotEnoughRounds, Verdict::NoBaseline, Verdict::NoRatio,
                                Verdict::NotRun,
                            ] {
                                (glance_line(&cells, verdict, metric))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn glance_line(cells: &[&Cell], verdict: Verdict, metric: &MetricInfo) -> Markup {
    let mut matching: Vec<&&Cell> = cells.iter().filter(|cell| cell.verdict == verdict).collect();
    if matching.is_empty() {
        return html! {};
    }
    let rank = |cell: &Cell| {
        let ratio = cell.ratio.map_or(1.0, |ratio| ratio.value);
        if metric.higher_is_better { -ratio } else { ratio }
    };
    matching.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
    html! {
        li {
            span class={ "badge " (verdict_class(verdict)) } { (verdict.text()) }
            " "
            @for (index, cell) in matching.iter().enumerate() {
                @if index > 0 { ", " }
                span.nobreak {
                    (cell.lock)
                    @if let Some(ratio) = cell.ratio {
                        " " b { (format::ratio(ratio.value)) }
                    }
                }
            }
        }
    }
}

fn metric_section(document: &Document, metric: &MetricInfo, baseline: Option<usize>, index: usize) -> Markup {
    let heading = format!("metric-{index}");
    let with_lines = document.meta.threads.len() > 1;
    let with_ratios =
        document.meta.locks.len() > 1 && document.cells(metric).any(|cell| cell.ratio.is_some());
    html! {
        section aria-labelledby=(heading) {
            h2 id=(heading) { (metric.name) }
            p.sub {
                "Median" (format::in_unit(metric)) ", " strong { (format::direction(metric)) }
                @if index == 0 && document.meta.metrics.len() > 1 { ", primary metric" } "."
            }
            figure {
                (legend(document, baseline))
                div.scroll role="region" aria-label={ "Chart of " (metric.name) } {
                    @if with_lines {
                        (lines::chart(document, metric, baseline, &format!("lines-{index}")))
                    } @else {
                        (rows::chart(document, metric, baseline, Show::Values, &format!("values-{index}")))
                    }
                }
                figcaption {
                    "Points are medians, whiskers 95% intervals"
                    @if !with_lines { ", thin ticks the single runs" }
                    "; a cross marks a lock that gave no value. Points can be reached with the keyboard."
                }
            }
            @if with_ratios {
                h3 { "Ratio to " (document.meta.baseline) }
                figure {
                    div.scroll role="region" aria-label={ "Chart of the ratio of " (metric.name) } {
                        (rows::chart(document, metric, baseline, Show::Ratios, &format!("ratios-{index}")))
                    }
                    figcaption {
                        "Left of 1 is " (if metric.higher_is_better { "worse" } else { "better" }) ", right of it "
                        (if metric.higher_is_better { "better" } else { "worse" })
                        "; an interval that crosses 1 shows no difference."
                    }
                }
            }
            h3 { "Table" }
            (table(document, metric, baseline))
        }
    }
}

fn legend(document: &Document, baseline: Option<usize>) -> Markup {
    html! {
        ul.legend aria-label="Locks" {
            @for (index, lock) in document.meta.locks.iter().enumerate() {
                li data-series=(index) { (Look::of(index, baseline).swatch()) span { (lock) } }
            }
        }
    }
}

fn table(document: &Document, metric: &MetricInfo, baseline: Option<usize>) -> Markup {
    let with_threads = document.meta.threads != [None];
    html! {
        div.scroll role="region" tabindex="0" aria-label={ "Table of " (metric.name) } {
            table {
                caption.hidden { (metric.name) ", " (format::direction(metric)) }
                thead {
                    tr {
                        @if with_threads { th scope="col" class="num" { "Threads" } }
                        th scope="col" { "Lock" }
                        th scope="col" class="num" { "Median" @if !metric.unit.is_empty() { " (" (metric.unit) ")" } }
                        th scope="col" class="num" { "95% interval" }
                        th scope="col" class="num" { "× " (document.meta.baseline) }
                        th scope="col" class="num" { "95% interval" }
                        th scope="col" { "Verdict" }
                        th scope="col" { "5% rule" }
                        th scope="col" class="num" { "Student’s p" }
                        th scope="col" class="num" { "Wilcoxon’s p" }
                        th scope="col" class="num" { "Runs" }
                    }
                }
                @for threads in 0..document.meta.threads.len() {
                    tbody {
                        @for cell in document.cells(metric).filter(|cell| cell.threads_index == threads) {
                            (table_row(cell, with_threads, baseline))
                        }
                    }
                }
            }
        }
    }
}

fn table_row(cell: &Cell, with_threads: bool, baseline: Option<usize>) -> Markup {
    let dash = || "–".to_owned();
    html! {
        tr {
            @if with_threads { td.num { (cell.threads.map(|count| count.to_string()).unwrap_or_default()) } }
            th scope="row" { (Look::of(cell.lock_index, baseline).swatch()) " " (cell.lock) }
            td.num { (cell.median.map_or_else(dash, |m| format::value(m.value))) }
            td.num.soft { (cell.median.as_ref().map_or_else(dash, format::interval)) }
            td.num { (cell.ratio.map_or_else(dash, |r| format::ratio(r.value))) }
            td.num.soft { (cell.ratio.as_ref().map_or_else(dash, format::ratio_interval)) }
            td.verdict { span class={ "badge " (verdict_class(cell.verdict)) } { (cell.note) } }
            td { (cell.five_percent.map_or("–", margin)) }
            td.num.soft { (cell.student_p.map_or_else(dash, |p| format!("{p:.3}"))) }
            td.num.soft { (cell.wilcoxon_p.map_or_else(dash, |p| format!("{p:.3}"))) }
            td.num { (format::runs(cell)) }
        }
    }
}

/// What the rule of 5% says.
fn margin(margin: Margin) -> &'static str {
    match margin {
        Margin::Alike => "alike",
        Margin::Differs => "differs",
        Margin::Undecided => "undecided",
    }
}

/// What a point says to a screen reader, and in its tooltip.
fn cell_label(cell: &Cell, metric: &MetricInfo) -> String {
    let at = cell.threads.map(|_| format!(", {}", format::threads(cell.threads))).unwrap_or_default();
    let mut label = format!("{}{at}: ", cell.lock);
    if let Some(median) = &cell.median {
        let value = format::with_unit(median.value, metric);
        label.push_str(&format!("{} {value} (95% interval {}); ", metric.name, format::interval(median)));
    }
    if let Some(ratio) = &cell.ratio {
        let (value, interval) = (format::ratio(ratio.value), format::ratio_interval(ratio));
        label.push_str(&format!("{value} the baseline's ({interval}); "));
    }
    label.push_str(&cell.note);
    label
}

fn verdict_class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "good",
        Verdict::Slower => "worse",
        Verdict::Collapsed | Verdict::Failed => "bad",
        _ => "plain",
    }
}

fn served(document: &Document) -> Markup {
    html! {
        @if !document.served.is_empty() {
            section aria-labelledby="served" {
                h2 id="served" { "What was served" }
                p {
                    "What the library says that it served in the first round, at the highest thread count. The figures of a lock "
                    "are of everything that was served under it."
                }
                dl.reading {
                    @for (said, what) in format::served(document) { dt { (said) } dd { (what) } }
                }
            }
        }
    }
}

fn bad_runs(document: &Document) -> Markup {
    let bad: Vec<&Run> = document.bad_runs().collect();
    html! {
        section aria-labelledby="bad-runs" {
            h2 id="bad-runs" { "Runs that gave no value" }
            @if bad.is_empty() {
                p { "None: every run ended with exit status 0 and gave every metric." }
            } @else {
                p {
                    "None of these is averaged away: a lock with such a run has no median at that thread count."
                }
                div.scroll role="region" tabindex="0" aria-label="Table of runs without a value" {
                    table {
                        thead { tr {
                            th scope="col" { "Lock" } th scope="col" class="num" { "Threads" }
                            th scope="col" { "Round" } th scope="col" { "Reason" }
                        } }
                        tbody {
                            @for run in bad {
                                tr {
                                    th scope="row" { (run.lock) }
                                    td.num { (run.threads.map_or_else(|| "–".to_owned(), |count| count.to_string())) }
                                    td { (round(run)) }
                                    td.wrap { (run.reason.as_deref().unwrap_or("no reason is known")) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn round(run: &Run) -> String {
    if run.warmup { "warm-up".to_owned() } else { (run.round + 1).to_string() }
}

fn how_to_read(document: &Document) -> Markup {
    html! {
        section aria-labelledby="reading" {
            h2 id="reading" { "How to read this" }
            dl.reading {
                dt { "Interleaved rounds" }
                dd {
                    "Every round runs each lock at each thread count once, in an order shuffled anew, so that whatever "
                    "else the machine does falls on all of them alike. Warm-up rounds are not counted."
                }
                dt { "Median and 95% interval" }
                dd {
                    "Half of the runs were below the median, half above. The interval comes from drawing the runs again "
                    "with replacement " (format::value(RESAMPLES as f64)) " times (bootstrap, widened for few runs): it "
                    "contains the true median 19 times out of 20. With less than nine runs it is as wide as the runs themselves."
                }
                dt { "Ratio" }
                dd {
                    "Within each round the lock's value over the baseline's (" (document.meta.baseline) ") at the same thread "
                    "count; shown is the median of these ratios. What changes between rounds changes both and leaves the ratio "
                    "alone. A round in which one of them has no value gives no ratio."
                }
                dt { "faster, slower" }
                dd { "The interval of the ratio does not contain 1, whatever the intervals of the medians do." }
                dt { "5% rule" }
                dd { "Alike: the whole interval of the ratio lies within 5% of 1. Differs: all of it lies beyond. Undecided: neither." }
                dt { "Student’s p, Wilcoxon’s p" }
                dd {
                    "How probable ratios like these are between equals, by the paired t-test and by the signed-rank test of their "
                    "logarithms, with Holm's correction over all comparisons of the metric."
                }
                dt { "not enough rounds" }
                dd { "Of fewer than " (MIN_PAIRS) " pairs no interval can say that much: chance alone puts five on one side of 1 too often." }
                dt { "no difference" }
                dd {
                    "The runs do not tell the two apart. That is no proof that they are equal: more runs may show a small "
                    "difference."
                }
                dt { "collapsed" }
                dd {
                    "At least one run was still going after " (document.meta.timeout_s) " s and was killed. After two of them the lock "
                    "is not run again at that thread count."
                }
                dt { "failed" }
                dd { "At least one run crashed, ended with an exit status other than 0, or printed no metric." }
                dt { "pthread, passthrough" }
                dd {
                    "pthread runs without Lockwork; passthrough runs with its library, which forwards everything to glibc: "
                    "the difference is the cost of interposing."
                }
                dt { "Competing load" }
                dd { "CPU time of everything else on the machine while the command ran; it is recorded with every run." }
            }
        }
    }
}

fn all_runs(document: &Document) -> Markup {
    html! {
        section aria-labelledby="runs" {
            h2 id="runs" { "All runs" }
            details {
                summary { (document.runs.len()) " runs in the order they were made, warm-up included" }
                div.scroll role="region" tabindex="0" aria-label="Table of all runs" {
                    table.small {
                        thead { tr {
                            th scope="col" { "Lock" } th scope="col" class="num" { "Threads" }
                            th scope="col" { "Round" } th scope="col" { "Outcome" }
                            @for metric in &document.meta.metrics { th scope="col" class="num" { (metric.name) } }
                            th scope="col" class="num" { "Wall s" } th scope="col" class="num" { "User s" }
                            th scope="col" class="num" { "System s" } th scope="col" class="num" { "Memory MiB" }
                            th scope="col" class="num" { "Others' CPU s" }
                        } }
                        tbody { @for run in &document.runs { (run_row(run)) } }
                    }
                }
            }
        }
    }
}

fn run_row(run: &Run) -> Markup {
    let outcome = match run.outcome {
        Outcome::Ok => "ok",
        Outcome::TimedOut => "timed out",
        Outcome::Crashed => "crashed",
        Outcome::NoMetric => "no metric",
        Outcome::Interrupted => "interrupted",
    };
    html! {
        tr {
            th scope="row" { (run.lock) }
            td.num { (run.threads.map_or_else(|| "–".to_owned(), |count| count.to_string())) }
            td { (round(run)) }
            td { (outcome) }
            @for value in run.values.iter() { td.num { (value.map_or_else(|| "–".to_owned(), format::value)) } }
            td.num { (format!("{:.3}", run.wall_s)) }
            td.num { (format!("{:.2}", run.user_s)) }
            td.num { (format!("{:.2}", run.system_s)) }
            td.num { (format!("{:.1}", run.max_rss_kib as f64 / 1024.0)) }
            td.num { (run.competing_cpu_s.map_or_else(|| "–".to_owned(), |s| format!("{s:.2}"))) }
        }
    }
}
