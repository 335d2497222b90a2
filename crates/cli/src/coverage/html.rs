//! The matrix as a page: the standings, and a heat map with a row for each cell and a column for each lock. It needs no network
//! and no JavaScript.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::table::{meaning, percent, ratio};
use super::{Cell, Entry, Matrix, Row};
use crate::compare::{CONTENT_POLICY, STYLE};

/// What this page has that the others have not. The heat map's colours go from green over yellow to red and differ in lightness,
/// too; each cell says its ratio in figures.
const OWN_STYLE: &str = "\
main, header, footer { max-width: none; }
table.heat { border-collapse: separate; border-spacing: 1px; font-size: .78rem; }
table.heat th, table.heat td { padding: .12rem .35rem; border: 0; white-space: nowrap; }
table.heat td { text-align: right; font-variant-numeric: tabular-nums; color: #10141b; min-width: 2.6rem; }
table.heat thead th { writing-mode: vertical-rl; transform: rotate(180deg); text-align: left; vertical-align: bottom; }
table.heat thead th.corner { writing-mode: horizontal-tb; transform: none; }
table.heat tbody th { text-align: left; font-weight: 400; position: sticky; left: 0; background: var(--card); }
table.heat tr.group th { font-weight: 600; padding-top: .6rem; }
td.r0 { background: #1a9850; } td.r1 { background: #91cf60; } td.r2 { background: #d9ef8b; } td.r3 { background: #fee08b; }
td.r4 { background: #fc8d59; } table.heat td.r5 { background: #b2182b; color: #fff; }
td.unfair { text-decoration: underline dotted; } td.best { font-weight: 700; }
ul.key { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .4rem 1rem; }
ul.key span { display: inline-block; width: 1.1rem; height: 1.1rem; vertical-align: text-bottom; border-radius: .2rem; }
.k0 { background: #1a9850; } .k1 { background: #91cf60; } .k2 { background: #d9ef8b; } .k3 { background: #fee08b; }
.k4 { background: #fc8d59; } .k5 { background: #b2182b; }";

/// The least ratio of each colour, and what it says.
const SHADES: [(f64, &str); 6] = [
    (0.95, "within 5% of the best"),
    (0.8, "within 20%"),
    (0.6, "0.6 to 0.8"),
    (0.4, "0.4 to 0.6"),
    (0.2, "0.2 to 0.4"),
    (0.0, "below 0.2, or collapsed"),
];

fn shade(ratio: f64) -> usize {
    // The rule of the coverage itself: 95% of the best is within 5% of it.
    SHADES.iter().position(|(least, _)| ratio >= *least).unwrap_or(SHADES.len() - 1)
}

/// The whole page.
pub(super) fn page(matrix: &Matrix) -> String {
    let rows = matrix.rows();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(CONTENT_POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Coverage of " (rows.len()) " locks" }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) (PreEscaped(OWN_STYLE)) }
            }
            body {
                a.skip href="#results" { "Skip to the results" }
                header {
                    p.kicker { "Lockwork coverage" }
                    h1 { "How often " (rows.len()) " locks are among the best" }
                    p { (matrix.title) }
                }
                main id="results" {
                    (standings(&rows))
                    (heat_map(matrix, &rows))
                    @if !matrix.notes.is_empty() {
                        section aria-labelledby="notes" {
                            h2 id="notes" { "Notes" }
                            @for note in &matrix.notes { p { (note) } }
                        }
                    }
                }
                footer { "Made by lockwork " (env!("CARGO_PKG_VERSION")) ". The same data: " code { "coverage.csv" } " and " code { "coverage.json" } " beside this file." }
            }
        }
    };
    page.into_string()
}

fn standings(rows: &[Row]) -> Markup {
    let fair = rows.iter().any(|row| row.fair.is_some());
    let tails = rows.iter().any(|row| row.p99_over_best.is_some());
    html! {
        section aria-labelledby="standings" {
            h2 id="standings" { "Standings" }
            div.scroll tabindex="0" role="region" aria-labelledby="standings" {
                table {
                    thead { tr {
                        @for head in ["Lock", "Cells", "Within 5%", "Within 20%", "Geometric mean", "Worst", "Worst cell"] {
                            th scope="col" { (head) }
                        }
                        @if fair { @for head in ["Fair, 5%", "Fair", "Jain: median", "lowest"] { th scope="col" { (head) } } }
                        @if tails { th scope="col" { "P99 over the shortest" } }
                        th scope="col" { "Collapsed" }
                    } }
                    tbody {
                        @for row in rows {
                            tr {
                                th scope="row" { (row.lock) }
                                td { (row.standing.cells) }
                                td { (percent(Some(row.standing.within_5))) }
                                td { (percent(Some(row.standing.within_20))) }
                                td { (ratio(row.standing.geometric_mean)) }
                                td { (ratio(row.standing.worst)) }
                                td { (row.worst_in) }
                                @if fair {
                                    td { (percent(row.fair_within_5)) }
                                    td { (percent(row.fair)) }
                                    td { (row.jain.map_or_else(String::new, |(middle, _)| format!("{middle:.2}"))) }
                                    td { (row.jain.map_or_else(String::new, |(_, lowest)| format!("{lowest:.2}"))) }
                                }
                                @if tails { td { (row.p99_over_best.map_or_else(String::new, |times| format!("{times:.1}×"))) } }
                                td { (row.troubles) }
                            }
                        }
                    }
                }
            }
            @for line in meaning(fair, tails).lines() { p.sub { (line) } }
        }
    }
}

fn heat_map(matrix: &Matrix, rows: &[Row]) -> Markup {
    // The columns in the order of the standings.
    let locks: Vec<usize> =
        rows.iter().filter_map(|row| matrix.locks.iter().position(|lock| *lock == row.lock)).collect();
    let starts_group = |at: usize| at == 0 || matrix.cells[at - 1].group != matrix.cells[at].group;
    html! {
        section aria-labelledby="map" {
            h2 id="map" { "Every cell" }
            p.sub {
                "Throughput over that of the best lock of the row. Bold: the best. Underlined: not fair there. Point at a figure for \
                 fairness and latency, at a row's name for the command that shows the cell again."
            }
            ul.key {
                @for (index, (_, what)) in SHADES.iter().enumerate() {
                    li { span class={ "k" (index) } {} " " (what) }
                }
            }
            div.scroll tabindex="0" role="region" aria-labelledby="map" {
                table.heat {
                    thead { tr {
                        th.corner scope="col" { "Cell" }
                        @for &lock in &locks { th scope="col" { (matrix.locks[lock]) } }
                    } }
                    tbody {
                        @for (at, cell) in matrix.cells.iter().enumerate() {
                            @if starts_group(at) {
                                tr.group { th colspan=(locks.len() + 1) scope="colgroup" { (cell.group) } }
                            }
                            tr {
                                th scope="row" title=(cell.command) { (short_name(cell)) }
                                @for &lock in &locks { (figure(cell, lock)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Without the group, which has a row of its own.
fn short_name(cell: &Cell) -> String {
    cell.name()
        .strip_prefix(&cell.group)
        .map_or_else(|| cell.name(), |rest| rest.trim_start_matches(", ").to_owned())
}

fn figure(cell: &Cell, lock: usize) -> Markup {
    let (Some(entry), Some(value)) = (&cell.entries[lock], cell.ratio(lock)) else {
        return html! { td { "" } };
    };
    let mut class = format!("r{}", shade(value));
    if value >= 1.0 {
        class.push_str(" best");
    }
    if entry.fair == Some(false) {
        class.push_str(" unfair");
    }
    html! { td class=(class) title=(words(entry)) { (ratio(value)) } }
}

fn words(entry: &Entry) -> String {
    if let Some(trouble) = &entry.trouble {
        return trouble.clone();
    }
    let value = crate::compare::format::value;
    let mut parts = vec![format!("value {}", value(entry.value))];
    parts.extend(entry.jain.map(|jain| format!("Jain {jain:.2}")));
    parts.extend(entry.p99.map(|p99| format!("P99 {}", value(p99))));
    parts.join(", ")
}
