//! Tables as CSV.

use crate::error::Error;
use crate::table::{Cell, Column, Table, Unit};

pub(crate) fn csv(tables: &[Table]) -> Result<String, Error> {
    let texts: Result<Vec<String>, Error> = tables.iter().map(one).collect();
    Ok(texts?.join("\n"))
}

fn one(table: &Table) -> Result<String, Error> {
    let fail = |error: &dyn std::fmt::Display| Error::Draw(error.to_string());
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let mut header: Vec<String> = table.labels.iter().map(|label| (*label).to_owned()).collect();
    for column in &table.columns {
        header.push(column.full_name());
        header.extend(column.marks.map(|marks| format!("{} {marks}", column.full_name())));
    }
    writer.write_record(&header).map_err(|error| fail(&error))?;
    for row in &table.rows {
        let mut record = row.labels.clone();
        for (column, cell) in table.columns.iter().zip(&row.cells) {
            fields(column, cell, &mut record);
        }
        writer.write_record(&record).map_err(|error| fail(&error))?;
    }
    let bytes = writer.into_inner().map_err(|error| fail(&error))?;
    String::from_utf8(bytes).map_err(|error| fail(&error))
}

fn fields(column: &Column, cell: &Cell, record: &mut Vec<String>) {
    let (number, mark) = match cell {
        Cell::Missing => (String::new(), None),
        Cell::Number { value, mark, .. } => (number(column.unit, *value), mark.clone()),
    };
    record.push(number);
    if column.marks.is_some() {
        record.push(mark.unwrap_or_default());
    }
}

fn number(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Percent | Unit::PercentCut => format!("{:.2}", 100.0 * value),
        Unit::Count => format!("{value:.0}"),
        Unit::Number => format!("{value:.4}"),
    }
}
