//! Horizontal charts, a row a lock: ratios to the baseline around 1, or values where there is one thread
//! count only.

use lockwork_stats::Estimate;
use maud::{Markup, html};

use super::lines::cross;
use super::scale::Scale;
use super::series::{Look, px};
use crate::compare::format;
use crate::compare::meta::MetricInfo;
use crate::compare::results::Document;
use crate::compare::summary::Cell;
use crate::compare::verdict::Verdict;

const WIDTH: f64 = 860.0;
const RIGHT: f64 = 190.0;
const ROW: f64 = 26.0;
const TOP: f64 = 34.0;
/// Room for a group's heading.
const HEADING: f64 = 28.0;

/// What the rows show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// The ratio to the baseline, on a logarithmic axis with a line at 1.
    Ratios,
    /// The values themselves, every run a tick.
    Values,
}

/// Draws the chart; `id` is unique in the page.
pub(crate) fn chart(
    document: &Document,
    metric: &MetricInfo,
    baseline: Option<usize>,
    show: Show,
    id: &str,
) -> Markup {
    let cells: Vec<&Cell> = document
        .cells(metric)
        .filter(|cell| cell.verdict != Verdict::NotRun)
        .filter(|cell| show == Show::Values || cell.lock != cell.baseline)
        .collect();
    let frame = Frame::new(document, &cells, show);
    let (title, axis) = match show {
        Show::Ratios => (
            format!("{}: ratio to {}", metric.name, document.meta.baseline),
            format!("× {} (logarithmic), {}", document.meta.baseline, format::direction(metric)),
        ),
        Show::Values => {
            let unit = format::in_unit(metric);
            let scale = if frame.scale.is_logarithmic() { " (logarithmic)" } else { "" };
            (
                format!("{} by lock", metric.name),
                format!("{}{unit}, {}{scale}", metric.name, format::direction(metric)),
            )
        }
    };
    html! {
        svg.chart viewBox={ "0 0 " (WIDTH) " " (px(frame.height)) } role="group"
            aria-labelledby={ (id) "-title " (id) "-desc" } {
            title id={ (id) "-title" } { (title) }
            desc id={ (id) "-desc" } {
                "A row for each lock: the point is the " (if show == Show::Ratios { "ratio" } else { "median" })
                ", the bar its 95% interval. The table below has the same figures."
            }
            (frame.grid(&axis, show))
            @for (cell, y) in cells.iter().zip(&frame.rows) {
                (row(&frame, cell, *y, metric, baseline, show))
            }
            @for (text, y) in &frame.headings {
                text.heading x="0" y=(px(*y)) aria-hidden="true" { (text) }
            }
        }
    }
}

struct Frame {
    scale: Scale,
    left: f64,
    height: f64,
    /// The middle of every row.
    rows: Vec<f64>,
    headings: Vec<(String, f64)>,
}

impl Frame {
    fn new(document: &Document, cells: &[&Cell], show: Show) -> Self {
        let longest = document.meta.locks.iter().map(|name| name.chars().count()).max().unwrap_or_default();
        let left = (longest as f64 * 7.4 + 24.0).clamp(90.0, 300.0);
        let mut values: Vec<f64> = cells
            .iter()
            .flat_map(|cell| {
                let runs = if show == Show::Values { cell.values.as_slice() } else { &[] };
                estimate(cell, show).into_iter().flat_map(|e| [e.low, e.high]).chain(runs.iter().copied())
            })
            .collect();
        let scale = match show {
            Show::Values => Scale::fitting(&values, left, WIDTH - RIGHT),
            Show::Ratios => {
                values.push(1.0);
                // Equals must not look worlds apart.
                values.extend([0.8, 1.25]);
                Scale::logarithmic(&values, left, WIDTH - RIGHT)
            }
        };
        let (mut rows, mut headings) = (Vec::new(), Vec::new());
        let mut y = TOP;
        let mut group = None;
        for cell in cells {
            if cell.threads.is_some() && group != Some(cell.threads_index) {
                group = Some(cell.threads_index);
                y += HEADING;
                headings.push((format::threads(cell.threads), y - 8.0));
            }
            rows.push(y + ROW / 2.0);
            y += ROW;
        }
        Frame { scale, left, height: y + 34.0, rows, headings }
    }

    fn grid(&self, axis: &str, show: Show) -> Markup {
        let bottom = self.height - 30.0;
        html! {
            g aria-hidden="true" {
                text.axis x=(px(self.left)) y="16" { (axis) }
                @for (tick, label) in self.scale.ticks() {
                    @let x = self.scale.at(tick);
                    line.grid x1=(px(x)) x2=(px(x)) y1=(px(TOP - 6.0)) y2=(px(bottom)) {}
                    text.tick x=(px(x)) y=(px(bottom + 18.0)) text-anchor="middle" { (label) }
                }
                @if show == Show::Ratios {
                    @let x = self.scale.at(1.0);
                    line.unity x1=(px(x)) x2=(px(x)) y1=(px(TOP - 6.0)) y2=(px(bottom)) {}
                }
            }
        }
    }
}

fn estimate(cell: &Cell, show: Show) -> Option<Estimate> {
    match show {
        Show::Ratios => cell.ratio,
        Show::Values => cell.median,
    }
}

fn row(
    frame: &Frame,
    cell: &Cell,
    y: f64,
    metric: &MetricInfo,
    baseline: Option<usize>,
    show: Show,
) -> Markup {
    let look = Look::of(cell.lock_index, baseline);
    let label = super::cell_label(cell, metric);
    let estimate = estimate(cell, show);
    let value = match (estimate, show) {
        (Some(ratio), Show::Ratios) => format!("{} ", format::ratio(ratio.value)),
        (Some(median), Show::Values) => format!("{} ", format::with_unit(median.value, metric)),
        (None, _) => String::new(),
    };
    let x = estimate.map_or(frame.left + 8.0, |e| frame.scale.at(e.value));
    html! {
        g class={ "pt " (look.class()) } tabindex="0" role="img" aria-label=(label) {
            title { (label) }
            rect.hit x="0" y=(px(y - ROW / 2.0)) width=(WIDTH) height=(px(ROW)) {}
            text.name x=(px(frame.left - 14.0)) y=(px(y + 4.0)) text-anchor="end" { (cell.lock) }
            @if show == Show::Values {
                @for run in &cell.values {
                    @let x = frame.scale.at(*run);
                    line.run x1=(px(x)) x2=(px(x)) y1=(px(y - 7.0)) y2=(px(y + 7.0)) {}
                }
            }
            @if let Some(estimate) = estimate {
                (whisker(frame.scale.at(estimate.low), frame.scale.at(estimate.high), y))
                (look.marker(x, y))
            } @else if matches!(cell.verdict, Verdict::Collapsed | Verdict::Failed) {
                (cross(x, y))
            }
            text class={ "said " (super::verdict_class(cell.verdict)) } x=(px(WIDTH - RIGHT + 14.0)) y=(px(y + 4.0)) {
                (value) (short_note(cell))
            }
        }
    }
}

/// The verdict as far as there is room for it.
fn short_note(cell: &Cell) -> String {
    match cell.verdict {
        Verdict::Collapsed | Verdict::Failed => cell.note.replace(", gave up", ""),
        verdict => verdict.text().to_owned(),
    }
}

fn whisker(low: f64, high: f64, y: f64) -> Markup {
    html! {
        path.whisker d={
            "M" (px(low)) " " (px(y)) "H" (px(high))
            "M" (px(low)) " " (px(y - 4.0)) "v8M" (px(high)) " " (px(y - 4.0)) "v8"
        } {}
    }
}
