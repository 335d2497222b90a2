//! How a lock looks in every chart: a colour, a marker and a dash, so that none of them has to tell alone.

use maud::{Markup, html};

/// How many colours style.css defines besides the baseline's.
const COLOURS: usize = 8;
const MARKERS: usize = 7;
const DASHES: [&str; 5] = ["none", "7 4", "2 4", "10 4 2 4", "4 3"];

/// The look of one lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    index: usize,
    /// The baseline is drawn in the colour of text, its line thick.
    is_baseline: bool,
    /// Its place among those that are not the baseline.
    place: usize,
}

impl Look {
    /// The look of the lock at `index`.
    pub(crate) fn of(index: usize, baseline: Option<usize>) -> Self {
        Look {
            index,
            is_baseline: baseline == Some(index),
            place: if baseline.is_some_and(|baseline| index > baseline) { index - 1 } else { index },
        }
    }

    /// The class that colours an element and lets the legend hide it.
    pub(crate) fn class(self) -> String {
        let colour = if self.is_baseline { "cb".to_owned() } else { format!("c{}", self.place % COLOURS) };
        format!("s{} {colour}", self.index)
    }

    /// The dash pattern of its line.
    pub(crate) fn dash(self) -> &'static str {
        if self.is_baseline { "none" } else { DASHES[(self.place + 1) % DASHES.len()] }
    }

    /// The width of its line, in pixels.
    pub(crate) fn stroke(self) -> &'static str {
        if self.is_baseline { "3" } else { "2" }
    }

    /// Its marker around a point.
    pub(crate) fn marker(self, x: f64, y: f64) -> Markup {
        let shape = if self.is_baseline { 0 } else { 1 + self.place % (MARKERS - 1) };
        let polygon = |points: &[(f64, f64)]| {
            let points: Vec<String> =
                points.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).collect();
            html! { polygon class="mark" points=(points.join(" ")) {} }
        };
        match shape {
            0 => html! { circle class="mark" cx=(px(x)) cy=(px(y)) r="5" {} },
            1 => polygon(&[(-4.5, -4.5), (4.5, -4.5), (4.5, 4.5), (-4.5, 4.5)]),
            2 => polygon(&[(0.0, -6.0), (5.5, 4.5), (-5.5, 4.5)]),
            3 => polygon(&[(0.0, -6.3), (6.3, 0.0), (0.0, 6.3), (-6.3, 0.0)]),
            4 => polygon(&[(0.0, 6.0), (5.5, -4.5), (-5.5, -4.5)]),
            5 => polygon(&[
                (-2.0, -6.0),
                (2.0, -6.0),
                (2.0, -2.0),
                (6.0, -2.0),
                (6.0, 2.0),
                (2.0, 2.0),
                (2.0, 6.0),
                (-2.0, 6.0),
                (-2.0, 2.0),
                (-6.0, 2.0),
                (-6.0, -2.0),
                (-2.0, -2.0),
            ]),
            _ => polygon(&[(0.0, -6.2), (5.9, -1.9), (3.6, 5.0), (-3.6, 5.0), (-5.9, -1.9)]),
        }
    }

    /// A piece of its line with its marker, for legends and tables.
    pub(crate) fn swatch(self) -> Markup {
        html! {
            svg.swatch width="34" height="14" viewBox="0 0 34 14" aria-hidden="true" focusable="false" {
                g class=(self.class()) {
                    line class="line" x1="1" y1="7" x2="33" y2="7" stroke-width=(self.stroke())
                        stroke-dasharray=(self.dash()) {}
                    (self.marker(17.0, 7.0))
                }
            }
        }
    }
}

/// A coordinate.
pub(crate) fn px(value: f64) -> String {
    format!("{value:.1}")
}
