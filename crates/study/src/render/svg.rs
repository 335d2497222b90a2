//! The figures, as SVG. Everything is laid out in pixels: rows of names and numbers need no axes of a chart.

use std::fmt::Display;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::error::Error;
use crate::table::Table;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// How a figure shows its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A square for each row and column, the darker the higher.
    Heat,
    /// A point for each row: the first column to the right, the second up; both from 0 to 1.
    Points,
    /// For each application two bars a lock.
    Bars,
    /// For each application a bar and a dot a lock.
    BarsAndDots,
}

const INK: RGBColor = RGBColor(32, 32, 32);
const FAINT: RGBColor = RGBColor(190, 190, 190);
const FIRST: RGBColor = RGBColor(0, 95, 150);
const SECOND: RGBColor = RGBColor(220, 130, 0);
const SIZE: u32 = 11;

/// Draws a figure's table.
pub(crate) fn svg(table: &Table, shape: Shape) -> Result<String, Error> {
    let mut text = String::new();
    match shape {
        Shape::Heat => heat(&mut text, table),
        Shape::Points => points(&mut text, table),
        Shape::Bars => bars(&mut text, table, false),
        Shape::BarsAndDots => bars(&mut text, table, true),
    }
    .map_err(|error| Error::Draw(error.to_string()))?;
    let title = maud::html! { (table.title) }.into_string().replace('"', "&quot;");
    Ok(text.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{title}\" "), 1))
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn canvas(text: &mut String, (width, height): (i32, i32)) -> Result<Area<'_>, Box<dyn std::error::Error>> {
    let area =
        SVGBackend::with_string(text, (width.unsigned_abs(), height.unsigned_abs())).into_drawing_area();
    area.fill(&WHITE)?;
    Ok(area)
}

/// Writes at a point; `turned` is from bottom to top.
fn write(
    area: &Area<'_>,
    text: impl Display,
    at: (i32, i32),
    anchor: HPos,
    colour: &RGBColor,
    turned: bool,
) -> Drawn {
    let mut style = ("sans-serif", SIZE).into_font().color(colour).pos(Pos::new(anchor, VPos::Center));
    if turned {
        style = style.transform(FontTransform::Rotate270);
    }
    area.draw(&Text::new(text.to_string(), at, style))?;
    Ok(())
}

/// White to dark red.
fn warmth(share: f64) -> RGBColor {
    let toward = |from: f64, to: f64| (from + (to - from) * share.clamp(0.0, 1.0)) as u8;
    RGBColor(toward(255.0, 140.0), toward(255.0, 10.0), toward(255.0, 10.0))
}

fn heat(text: &mut String, table: &Table) -> Drawn {
    const CELL: i32 = 27;
    const MARGIN: i32 = 100;
    let (columns, rows) = (table.columns.len() as i32, table.rows.len() as i32);
    let area = canvas(text, (MARGIN + CELL * columns + 10, MARGIN + CELL * rows + 10))?;
    for (index, column) in (0..).zip(&table.columns) {
        write(&area, &column.name, (MARGIN + CELL * index + CELL / 2, MARGIN - 6), HPos::Left, &INK, true)?;
    }
    for (line, row) in (0..).zip(&table.rows) {
        let top = MARGIN + CELL * line;
        write(&area, &row.labels[0], (MARGIN - 6, top + CELL / 2), HPos::Right, &INK, false)?;
        for (index, cell) in (0..).zip(&row.cells) {
            let left = MARGIN + CELL * index;
            let Some(share) = cell.value() else { continue };
            area.draw(&Rectangle::new(
                [(left, top), (left + CELL - 1, top + CELL - 1)],
                warmth(share).filled(),
            ))?;
            let colour = if share > 0.5 { WHITE } else { INK };
            let percent = format!("{:.0}", 100.0 * share);
            write(&area, percent, (left + CELL / 2, top + CELL / 2), HPos::Center, &colour, false)?;
        }
    }
    area.present()?;
    Ok(())
}

fn points(text: &mut String, table: &Table) -> Drawn {
    const SIDE: i32 = 480;
    const MARGIN: i32 = 60;
    let area = canvas(text, (SIDE + MARGIN + 20, SIDE + MARGIN + 20))?;
    let place =
        |x: f64, y: f64| (MARGIN + (x * f64::from(SIDE)) as i32, 20 + ((1.0 - y) * f64::from(SIDE)) as i32);
    for tenth in (0..=10).step_by(2) {
        let value = f64::from(tenth) / 10.0;
        area.draw(&PathElement::new([place(value, 0.0), place(value, 1.0)], FAINT))?;
        area.draw(&PathElement::new([place(0.0, value), place(1.0, value)], FAINT))?;
        let (below, beside) = (place(value, 0.0), place(0.0, value));
        write(&area, value, (below.0, below.1 + 12), HPos::Center, &INK, false)?;
        write(&area, value, (beside.0 - 6, beside.1), HPos::Right, &INK, false)?;
    }
    area.draw(&PathElement::new([place(0.0, 0.0), place(1.0, 1.0)], FIRST.stroke_width(2)))?;
    for row in &table.rows {
        if let (Some(x), Some(y)) = (row.cells[0].value(), row.cells[1].value()) {
            area.draw(&Circle::new(place(x, y), 3, SECOND.mix(0.5).filled()))?;
        }
    }
    write(&area, &table.columns[0].name, (MARGIN + SIDE / 2, SIDE + 50), HPos::Center, &INK, false)?;
    write(&area, &table.columns[1].name, (16, 20 + SIDE / 2), HPos::Center, &INK, true)?;
    area.present()?;
    Ok(())
}

fn bars(text: &mut String, table: &Table, dots: bool) -> Drawn {
    const PANEL: i32 = 250;
    const HEIGHT: i32 = 120;
    const LOCK: i32 = 26;
    const MARGIN: i32 = 50;
    let panels: Vec<_> = table.rows.chunk_by(|one, other| one.labels[0] == other.labels[0]).collect();
    let widest = panels.iter().map(|rows| rows.len()).max().unwrap_or(0) as i32;
    let area = canvas(text, ((MARGIN + LOCK * widest + 20).max(420), 30 + PANEL * panels.len() as i32))?;
    for (index, (column, colour)) in (0..).zip(table.columns.iter().zip([FIRST, SECOND])) {
        let left = MARGIN + 180 * index;
        area.draw(&Rectangle::new([(left, 8), (left + 12, 20)], colour.filled()))?;
        write(&area, &column.name, (left + 18, 14), HPos::Left, &INK, false)?;
    }
    for (panel, rows) in (0..).zip(panels) {
        let floor = 30 + PANEL * panel + 30 + HEIGHT;
        write(&area, &rows[0].labels[0], (MARGIN, floor - HEIGHT - 16), HPos::Left, &INK, false)?;
        let values = rows.iter().flat_map(|row| row.cells.iter().filter_map(crate::Cell::value));
        let top = values.fold(1.0_f64, f64::max);
        let height = |value: f64| floor - (value / top * f64::from(HEIGHT)) as i32;
        for line in [0.0, 1.0, top] {
            let across = [(MARGIN, height(line)), (MARGIN + LOCK * rows.len() as i32, height(line))];
            area.draw(&PathElement::new(across, FAINT))?;
            write(&area, format!("{line:.1}"), (MARGIN - 6, height(line)), HPos::Right, &INK, false)?;
        }
        for (index, row) in (0..).zip(rows) {
            let left = MARGIN + LOCK * index + 3;
            let wide = if dots { LOCK - 6 } else { (LOCK - 6) / 2 };
            if let Some(value) = row.cells[0].value() {
                area.draw(&Rectangle::new([(left, height(value)), (left + wide, floor)], FIRST.filled()))?;
            }
            if let Some(value) = row.cells[1].value() {
                match dots {
                    true => area.draw(&Circle::new((left + wide / 2, height(value)), 4, SECOND.filled()))?,
                    false => {
                        let second = [(left + wide, height(value)), (left + 2 * wide, floor)];
                        area.draw(&Rectangle::new(second, SECOND.filled()))?;
                    }
                }
            }
            write(&area, &row.labels[1], (left + LOCK / 2 - 3, floor + 6), HPos::Right, &INK, true)?;
        }
    }
    area.present()?;
    Ok(())
}
