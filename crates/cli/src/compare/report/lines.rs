//! A metric over the number of threads: a line a lock, whiskers for intervals, and a band of its own for
//! locks that gave no value.

use maud::{Markup, html};

use super::scale::Scale;
use super::series::{Look, px};
use crate::compare::format;
use crate::compare::meta::MetricInfo;
use crate::compare::results::Document;
use crate::compare::summary::Cell;
use crate::compare::verdict::Verdict;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 96.0;
const RIGHT: f64 = 24.0;
const PLOT_HEIGHT: f64 = 320.0;
/// The height of a band for collapsed or failed cells.
const BAND: f64 = 34.0;
const BAND_GAP: f64 = 6.0;

/// Draws the chart; `id` is unique in the page.
pub(crate) fn chart(document: &Document, metric: &MetricInfo, baseline: Option<usize>, id: &str) -> Markup {
    let cells: Vec<&Cell> = document.cells(metric).collect();
    let frame = Frame::new(document, metric, &cells);
    let scale_word = if frame.scale.is_logarithmic() { " (logarithmic)" } else { "" };
    let axis =
        format!("{}{}, {}{scale_word}", metric.name, format::in_unit(metric), format::direction(metric));
    html! {
        svg.chart viewBox={ "0 0 " (WIDTH) " " (px(frame.height)) } role="group"
            aria-labelledby={ (id) "-title " (id) "-desc" } {
            title id={ (id) "-title" } { (metric.name) " by number of threads" }
            desc id={ (id) "-desc" } { (description(document, metric, &cells)) }
            (frame.grid(document, &axis))
            @for lock in 0..document.meta.locks.len() {
                (connections(&frame, &cells, lock, baseline))
            }
            @for lock in 0..document.meta.locks.len() {
                @for cell in cells.iter().filter(|cell| cell.lock_index == lock) {
                    (mark(&frame, cell, metric, baseline))
                }
            }
        }
    }
}

/// Where things are.
struct Frame {
    scale: Scale,
    top: f64,
    height: f64,
    step: f64,
    dodge: f64,
    locks: usize,
    higher_is_better: bool,
    /// The bands that are needed, from the plot outwards.
    bands: Vec<Verdict>,
}

impl Frame {
    fn new(document: &Document, metric: &MetricInfo, cells: &[&Cell]) -> Self {
        let bands: Vec<Verdict> = [Verdict::Collapsed, Verdict::Failed]
            .into_iter()
            .filter(|verdict| cells.iter().any(|cell| cell.verdict == *verdict))
            .collect();
        let room = bands.len() as f64 * (BAND + BAND_GAP);
        // What is bad lies above when lower is better, else below.
        let top = 30.0 + if metric.higher_is_better { 0.0 } else { room };
        let values: Vec<f64> =
            cells.iter().filter_map(|cell| cell.median).flat_map(|m| [m.low, m.high]).collect();
        let step = (WIDTH - LEFT - RIGHT) / document.meta.threads.len() as f64;
        Frame {
            scale: Scale::fitting(&values, top + PLOT_HEIGHT, top),
            top,
            height: 30.0 + room + PLOT_HEIGHT + 56.0,
            step,
            dodge: (step * 0.7 / document.meta.locks.len() as f64).min(13.0),
            locks: document.meta.locks.len(),
            higher_is_better: metric.higher_is_better,
            bands,
        }
    }

    fn x(&self, threads: usize, lock: usize) -> f64 {
        let offset = lock as f64 - (self.locks - 1) as f64 / 2.0;
        LEFT + (threads as f64 + 0.5) * self.step + offset * self.dodge
    }

    /// The upper edge of a band.
    fn band(&self, verdict: Verdict) -> Option<f64> {
        let place = self.bands.iter().position(|band| *band == verdict)? as f64;
        Some(if self.higher_is_better {
            self.top + PLOT_HEIGHT + BAND_GAP + place * (BAND + BAND_GAP)
        } else {
            self.top - (place + 1.0) * (BAND + BAND_GAP)
        })
    }

    /// Where a cell is drawn; nowhere when it has nothing to say.
    fn y(&self, cell: &Cell) -> Option<f64> {
        match cell.median {
            Some(median) => Some(self.scale.at(median.value)),
            None => self.band(cell.verdict).map(|edge| edge + BAND / 2.0),
        }
    }

    fn grid(&self, document: &Document, axis: &str) -> Markup {
        let bottom = self.top + PLOT_HEIGHT;
        let right = WIDTH - RIGHT;
        let foot = self.height - 30.0;
        html! {
            g aria-hidden="true" {
                text.axis x=(px(LEFT)) y="16" { (axis) }
                @for (tick, label) in self.scale.ticks() {
                    @let y = self.scale.at(tick);
                    line.grid x1=(px(LEFT)) x2=(px(right)) y1=(px(y)) y2=(px(y)) {}
                    text.tick x=(px(LEFT - 10.0)) y=(px(y + 4.0)) text-anchor="end" { (label) }
                }
                line.frame x1=(px(LEFT)) x2=(px(right)) y1=(px(bottom)) y2=(px(bottom)) {}
                @for &band in &self.bands {
                    @let y = self.band(band).unwrap_or_default();
                    rect.band x=(px(LEFT)) y=(px(y)) width=(px(right - LEFT)) height=(px(BAND)) rx="4" {}
                    text.tick.bad x=(px(LEFT - 10.0)) y=(px(y + BAND / 2.0 + 4.0)) text-anchor="end" {
                        (band.text())
                    }
                }
                @for (index, threads) in document.meta.threads.iter().enumerate() {
                    @let x = LEFT + (index as f64 + 0.5) * self.step;
                    text.tick x=(px(x)) y=(px(foot - 2.0)) text-anchor="middle" {
                        (threads.map(|count| count.to_string()).unwrap_or_default())
                    }
                }
                text.axis x=(px((LEFT + right) / 2.0)) y=(px(foot + 20.0)) text-anchor="middle" { "threads" }
            }
        }
    }
}

/// The lines between a lock's neighbouring cells; thin ones where they lead to a cell without a value.
fn connections(frame: &Frame, cells: &[&Cell], lock: usize, baseline: Option<usize>) -> Markup {
    let look = Look::of(lock, baseline);
    let own: Vec<(&Cell, f64)> = cells
        .iter()
        .filter(|cell| cell.lock_index == lock)
        .filter_map(|cell| Some((*cell, frame.y(cell)?)))
        .collect();
    html! {
        g class=(look.class()) aria-hidden="true" {
            @for pair in own.windows(2) {
                @let (from, from_y) = pair[0];
                @let (to, to_y) = pair[1];
                @let neighbours = to.threads_index == from.threads_index + 1;
                @let measured = from.median.is_some() && to.median.is_some();
                @if neighbours && (measured || from.median.is_some()) {
                    line.line.lost[!measured]
                        x1=(px(frame.x(from.threads_index, lock))) y1=(px(from_y))
                        x2=(px(frame.x(to.threads_index, lock))) y2=(px(to_y))
                        stroke-width=(look.stroke()) stroke-dasharray=(if measured { look.dash() } else { "1 4" }) {}
                }
            }
        }
    }
}

fn mark(frame: &Frame, cell: &Cell, metric: &MetricInfo, baseline: Option<usize>) -> Markup {
    let Some(y) = frame.y(cell) else { return html! {} };
    let x = frame.x(cell.threads_index, cell.lock_index);
    let look = Look::of(cell.lock_index, baseline);
    let label = super::cell_label(cell, metric);
    html! {
        g class={ "pt " (look.class()) } tabindex="0" role="img" aria-label=(label) {
            title { (label) }
            @if let Some(median) = cell.median {
                (whisker(x, frame.scale.at(median.low), frame.scale.at(median.high)))
                (look.marker(x, y))
            } @else {
                (cross(x, y))
            }
            circle.hit cx=(px(x)) cy=(px(y)) r="11" {}
        }
    }
}

fn whisker(x: f64, low: f64, high: f64) -> Markup {
    html! {
        path.whisker d={
            "M" (px(x)) " " (px(low)) "V" (px(high))
            "M" (px(x - 4.0)) " " (px(low)) "h8M" (px(x - 4.0)) " " (px(high)) "h8"
        } {}
    }
}

/// The mark of a cell without a value.
pub(crate) fn cross(x: f64, y: f64) -> Markup {
    html! {
        path.cross d={ "M" (px(x - 5.0)) " " (px(y - 5.0)) "l10 10m0-10l-10 10" } {}
    }
}

fn description(document: &Document, metric: &MetricInfo, cells: &[&Cell]) -> String {
    let mut text = format!(
        "Line chart of the median of {}, {}, for {} locks at {} thread counts; whiskers are 95% intervals. ",
        metric.name,
        format::direction(metric),
        document.meta.locks.len(),
        document.meta.threads.len()
    );
    for verdict in [Verdict::Collapsed, Verdict::Failed] {
        let names: Vec<String> = cells
            .iter()
            .filter(|cell| cell.verdict == verdict)
            .map(|cell| format!("{} at {}", cell.lock, format::threads(cell.threads)))
            .collect();
        if !names.is_empty() {
            text.push_str(&format!("{}: {}. ", capitalised(verdict.text()), names.join(", ")));
        }
    }
    text.push_str("The table below the chart has the same figures.");
    text
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
