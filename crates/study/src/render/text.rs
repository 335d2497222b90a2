//! Tables as text for a terminal.

use comfy_table::{CellAlignment, LineStyle, Table as Grid, TableStyle};

use crate::table::{Cell, Table, Unit};

/// Rules above, under the header and below.
const STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

pub(crate) fn text(tables: &[Table]) -> String {
    tables.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn one(table: &Table) -> String {
    if table.rows.is_empty() {
        let notes = table.notes.iter().map(|note| format!("{note}\n"));
        return format!("{}: none.\n{}", table.heading(), notes.collect::<String>());
    }
    let mut grid = Grid::new();
    grid.load_style(STYLE);
    grid.force_no_tty();
    let labels = table.labels.iter().map(|label| (*label).to_owned());
    grid.set_header(labels.chain(table.columns.iter().map(|column| match &column.group {
        Some(group) => format!("{group}\n{}", column.name),
        None => column.name.clone(),
    })));
    for row in &table.rows {
        let cells = table.columns.iter().zip(&row.cells).map(|(column, cell)| shown(column.unit, cell));
        grid.add_row(row.labels.iter().cloned().chain(cells));
    }
    for index in table.labels.len()..table.labels.len() + table.columns.len() {
        if let Some(column) = grid.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = format!("{}\n{}\n", table.heading(), grid.trim_fmt());
    for note in &table.notes {
        text.push_str(note);
        text.push('\n');
    }
    text
}

/// A cell as readers see it: percentages without decimals, as the thesis prints them, and a star on what is notable.
pub(crate) fn shown(unit: Unit, cell: &Cell) -> String {
    let Cell::Number { value, mark, notable } = cell else { return "–".to_owned() };
    let mut text = match unit {
        Unit::Percent => format!("{:.0}%", 100.0 * value),
        Unit::PercentCut => format!("{:.0}%", (100.0 * value).trunc()),
        Unit::Count => format!("{value:.0}"),
        Unit::Number => format!("{value:.2}"),
    };
    if let Some(mark) = mark {
        text.push_str(&format!(" ({mark})"));
    }
    if *notable {
        text.push('*');
    }
    text
}
