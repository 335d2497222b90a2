//! The report as a page: the table, who waits for whom, a timeline, flame graphs. It needs no network and no JavaScript.

use std::collections::BTreeMap;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::stacks::{self, Sample, Side};
use super::table::{self, count, duration, percent};
use super::view::{Row, View, share};
use crate::compare::{CONTENT_POLICY, SCRIPT, STYLE};

/// What this page has that the other has not.
const OWN_STYLE: &str = "\
.flame rect { stroke: var(--card); } .flame text { font-size: 11px; fill: #10141b; pointer-events: none; }
.flame g:focus { outline: none; } .flame g:focus rect { stroke: var(--focus); stroke-width: 2; }
.bar { display: block; height: .6rem; border-radius: .3rem; background: var(--c1); min-width: 2px; }
td.stack { font: .82rem/1.4 ui-monospace, monospace; overflow-wrap: anywhere; max-width: 20rem; }
.edge { fill: none; stroke: var(--c1); opacity: .55; } .node { fill: var(--plain-bg); stroke: var(--line); }
.label { font-size: 12px; fill: var(--text); } .axis { font-size: 11px; fill: var(--soft); }";

/// The whole page.
pub(super) fn page(view: &View) -> String {
    let profile = &view.profile;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(CONTENT_POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Locks of " (profile.name) }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) (PreEscaped(OWN_STYLE)) }
            }
            body {
                a.skip href="#results" { "Skip to the results" }
                header {
                    p.kicker { "Lockwork profile" }
                    h1 { "Which locks of " (profile.name) " hurt" }
                    dl.facts {
                        (fact("Process", &profile.pid.to_string()))
                        (fact("Wall time", &duration(profile.wall_ns as f64)))
                        (fact("Threads", &profile.threads.to_string()))
                        (fact("Busy time waiting for locks", &percent(view.of_busy(view.waits_ns()))))
                        (fact("Threads' time holding locks", &percent(view.of_threads(view.sections_ns()))))
                    }
                }
                main id="results" {
                    (glance(view))
                    (locks(view))
                    (blame(view))
                    (timeline(view))
                    (flames(view, Side::Waiters, "Where threads waited", "flame-waiters"))
                    (flames(view, Side::Holders, "What they waited for: code that released the lock", "flame-holders"))
                    (how_to_read())
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

fn fact(name: &str, value: &str) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

fn glance(view: &View) -> Markup {
    let hurting: Vec<&Row> = table::hurting(view).collect();
    html! {
        section aria-labelledby="glance" {
            h2 id="glance" { "At a glance" }
            @if hurting.is_empty() {
                p { "No lock hurts: threads waited for none of them for more than 1% of their busy time." }
            }
            @for row in hurting { p { (table::sentence(view, row)) } }
        }
    }
}

fn locks(view: &View) -> Markup {
    html! {
        section aria-labelledby="locks" {
            h2 id="locks" { "Locks" }
            div.scroll tabindex="0" role="region" aria-labelledby="locks" {
                table {
                    thead { tr {
                        @for head in ["Lock", "Site", "Kind", "Served by", "Acquired", "Contended", "Waited", "Wait p50", "p99", "max", "Held p50", "p99", "Waiters"] {
                            th scope="col" { (head) }
                        }
                    } }
                    tbody {
                        @for row in view.locks.iter().take(100) {
                            tr {
                                th scope="row" { (row.name) @if row.members.len() > 1 { " ×" (row.members.len()) } }
                                td.stack { (row.site) }
                                td { (row.kind()) }
                                td { (row.sum.served_by) }
                                td { (count(row.acquisitions())) }
                                td { (percent(row.contended_share())) }
                                td { (percent(view.of_busy(row.sum.wait.total_ns))) }
                                td { (duration(row.sum.wait.quantile(0.5) as f64)) }
                                td { (duration(row.sum.wait.quantile(0.99) as f64)) }
                                td { (duration(row.sum.wait.max_ns as f64)) }
                                td { (duration(row.sum.hold.quantile(0.5) as f64)) }
                                td { (duration(row.sum.hold.quantile(0.99) as f64)) }
                                td { (format!("{:.1}, at most {}", view.mean_waiters(row), row.sum.waiting_max)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The graph of blame: functions on the left wait for those on the right.
fn blame(view: &View) -> Markup {
    const MOST: usize = 14;
    const HEIGHT: f64 = 46.0;
    let mut sums: BTreeMap<(String, String, String), u64> = BTreeMap::new();
    for edge in &view.profile.edges {
        let Some(row) = view.row_of(edge.lock) else { continue };
        let holder = if edge.acquired != 0 { edge.acquired } else { edge.released };
        *sums.entry((view.function(edge.waiter), row.name.clone(), view.function(holder))).or_default() +=
            edge.ns;
    }
    let mut edges: Vec<_> = sums.into_iter().collect();
    edges.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let total: u64 = edges.iter().map(|(_, ns)| ns).sum();
    edges.truncate(MOST);
    let most = edges.first().map_or(1, |(_, ns)| *ns).max(1);
    let place =
        |names: &[&String], name: &String| names.iter().position(|there| *there == name).unwrap_or(0) as f64;
    let distinct = |pick: fn(&(String, String, String)) -> &String| {
        let mut names: Vec<&String> = Vec::new();
        for (edge, _) in &edges {
            if !names.contains(&pick(edge)) {
                names.push(pick(edge));
            }
        }
        names
    };
    let [left, right] = [distinct(|edge| &edge.0), distinct(|edge| &edge.2)];
    let height = HEIGHT * left.len().max(right.len()) as f64 + 20.0;
    let clip = |name: &str| name.chars().take(44).collect::<String>();
    html! {
        section aria-labelledby="blame" {
            h2 id="blame" { "Who waits for whom" }
            p.sub { "On the left the functions that waited, on the right those that had the lock; the wider the line, the longer." }
            @if edges.is_empty() { p { "No thread waited." } } @else {
                div.scroll {
                    svg.chart viewBox={ "0 0 1000 " (height) } role="img" aria-label="Who waits for whom; the table below has the same figures" {
                        @for ((waiter, lock, holder), ns) in &edges {
                            @let from = place(&left, waiter) * HEIGHT + 25.0;
                            @let to = place(&right, holder) * HEIGHT + 25.0;
                            path.edge.pt d=(format!("M330 {from} C 500 {from}, 500 {to}, 670 {to}"))
                                stroke-width=(format!("{:.1}", 1.0 + 14.0 * *ns as f64 / most as f64))
                                aria-label=(format!("{waiter} waits for {holder}: {}, {lock}", duration(*ns as f64))) {}
                        }
                        @for (names, x) in [(&left, 5.0), (&right, 670.0)] {
                            @for (index, name) in names.iter().enumerate() {
                                @let y = index as f64 * HEIGHT + 10.0;
                                rect.node x=(x) y=(y) width="325" height="30" rx="6" {}
                                text.label x=(x + 8.0) y=(y + 20.0) { (clip(name)) }
                            }
                        }
                    }
                }
                table {
                    thead { tr { th scope="col" { "Waits" } th scope="col" { "for" } th scope="col" { "Lock" } th scope="col" { "Time" } th scope="col" { "Part" } } }
                    tbody {
                        @for ((waiter, lock, holder), ns) in &edges {
                            tr {
                                td.stack { (waiter) } td.stack { (holder) } td { (lock) } td.nobreak { (duration(*ns as f64)) }
                                td { (percent(share(*ns, total))) span.bar style=(format!("width:{:.0}%", share(*ns, most) * 100.0)) {} }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// How many threads waited for the hottest locks, over time.
fn timeline(view: &View) -> Markup {
    const BINS: usize = 120;
    const MOST: usize = 8;
    let profile = &view.profile;
    let first = profile.events.iter().map(|event| event.since).min().unwrap_or(profile.started_ns);
    let last = profile.events.iter().map(|event| event.until).max().unwrap_or(first + 1).max(first + 1);
    let width = ((last - first) as f64 / BINS as f64).max(1.0);
    let rows: Vec<&Row> = view.locks.iter().filter(|row| row.sum.wait.total_ns != 0).take(MOST).collect();
    let lines: Vec<Vec<f64>> = rows
        .iter()
        .map(|row| {
            let mut bins = vec![0.0; BINS];
            for event in profile.events.iter().filter(|event| row.members.contains(&event.lock)) {
                let [from, to] = [event.since, event.until].map(|at| at.saturating_sub(first) as f64 / width);
                let last = (to as usize).min(BINS - 1);
                for (bin, sum) in bins.iter_mut().enumerate().take(last + 1).skip(from as usize) {
                    let inside = (to.min(bin as f64 + 1.0) - from.max(bin as f64)).max(0.0);
                    *sum += inside * event.weight;
                }
            }
            bins
        })
        .collect();
    let top = lines.iter().flatten().fold(1.0_f64, |most, value| most.max(*value));
    html! {
        section aria-labelledby="timeline" {
            h2 id="timeline" { "Over time" }
            p.sub { "Threads that waited for each lock, of the waits that were sampled last." }
            @if rows.is_empty() { p { "No thread waited." } } @else {
                ul.legend {
                    @for (index, row) in rows.iter().enumerate() {
                        li data-series=(index) { span style=(format!("color:var(--c{index})")) aria-hidden="true" { "■ " } (row.name) }
                    }
                }
                div.scroll {
                    svg.chart viewBox="0 0 1000 280" role="img" aria-label="Waiting threads over time" {
                        text.axis x="4" y="14" { (format!("{top:.1} threads")) }
                        text.axis x="4" y="272" { "0" }
                        text.axis x="930" y="276" { (duration((last - first) as f64)) }
                        line x1="40" x2="995" y1="255" y2="255" stroke="var(--line)" {}
                        @for (index, bins) in lines.iter().enumerate() {
                            @let points: String = bins.iter().enumerate()
                                .map(|(bin, value)| format!("{:.1},{:.1} ", 40.0 + 955.0 * (bin as f64 + 0.5) / BINS as f64, 255.0 - 230.0 * value / top))
                                .collect();
                            polyline class=(format!("s{index}")) points=(points) fill="none" stroke=(format!("var(--c{index})")) stroke-width="2" {}
                        }
                    }
                }
            }
        }
    }
}

/// A function and what it called.
#[derive(Default)]
struct Node {
    ns: u64,
    children: BTreeMap<String, Node>,
}

fn tree(samples: &[Sample]) -> Node {
    let mut root = Node::default();
    for sample in samples {
        root.ns += sample.ns;
        let mut node = &mut root;
        let names = sample.frames.iter().rev().map(|frame| frame.function.clone());
        for name in names.chain([format!("[{}]", sample.lock)]) {
            node = node.children.entry(name).or_default();
            node.ns += sample.ns;
        }
    }
    root
}

fn flames(view: &View, side: Side, title: &str, id: &str) -> Markup {
    let root = tree(&stacks::samples(view, side));
    let mut boxes = Vec::new();
    place(&root, 0.0, 1000.0, 0, &mut boxes);
    let depth = boxes.iter().map(|(_, _, depth, ..)| depth + 1).max().unwrap_or(0);
    let total = root.ns;
    html! {
        section aria-labelledby=(id) {
            h2 id=(id) { (title) }
            @if total == 0 { p { "No thread waited." } } @else {
                p.sub { "A box is as wide as the time waited below it; the innermost function stands lowest, its lock below it." }
                div.scroll {
                    svg.chart.flame viewBox=(format!("0 0 1000 {}", depth * 20 + 4)) role="group" aria-label=(title) {
                        @for (x, width, depth, name, ns) in &boxes {
                            @let label = format!("{name}: {}, {}", duration(*ns as f64), percent(share(*ns, total)));
                            g.pt role="img" aria-label=(label) {
                                rect x=(format!("{x:.1}")) y=(depth * 20) width=(format!("{width:.1}")) height="19" fill=(format!("hsl({} 75% 68%)", hue(name))) {}
                                @if *width > 30.0 {
                                    text x=(format!("{:.1}", x + 3.0)) y=(depth * 20 + 14) { (name.chars().take((width / 6.6) as usize).collect::<String>()) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

type Box = (f64, f64, usize, String, u64);

fn place(node: &Node, x: f64, width: f64, depth: usize, boxes: &mut Vec<Box>) {
    let mut at = x;
    for (name, child) in &node.children {
        let own = width * share(child.ns, node.ns);
        if own >= 0.5 {
            boxes.push((at, own, depth, name.clone(), child.ns));
            place(child, at, own, depth + 1, boxes);
        }
        at += own;
    }
}

/// Warm colours, the same for the same name.
fn hue(name: &str) -> u32 {
    name.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte))) % 55
}

fn how_to_read() -> Markup {
    html! {
        section aria-labelledby="how" {
            h2 id="how" { "How to read this" }
            p { "Every wait is measured. Acquisitions that need not wait are a sample, each with a weight, so that their number and the times held are right on average. Which thread waited for which is known for a sample of the waits, drawn in proportion to their length." }
            p { "A wait is blamed on those that released the lock while it lasted: the time between two releases on the later one. Stacks follow frame pointers; of code compiled without them only the function that called the lock operation is known." }
        }
    }
}
