//! The files of a matrix.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{Matrix, html, table};
use crate::error::Failure;
use crate::program::describe;
use crate::terminal;

impl Matrix {
    /// All of it: a row for each lock, and every cell with each lock's figures.
    pub(crate) fn json(&self) -> Value {
        let cell = |cell: &super::Cell| {
            let entries: Map<String, Value> = (0..self.locks.len())
                .filter_map(|lock| {
                    let mut value = serde_json::to_value(cell.entries[lock].as_ref()?).ok()?;
                    value["ratio"] = json!(cell.ratio(lock));
                    Some((self.locks[lock].clone(), value))
                })
                .collect();
            let mut value = serde_json::to_value(cell).unwrap_or_default();
            value["locks"] = Value::Object(entries);
            value
        };
        json!({
            "title": self.title,
            "notes": self.notes,
            "locks": self.rows(),
            "cells": self.cells.iter().map(cell).collect::<Vec<Value>>(),
        })
    }

    /// A row for each cell and lock.
    fn csv(&self) -> io::Result<Vec<u8>> {
        fn text<T: ToString>(value: Option<T>) -> String {
            value.map(|value| value.to_string()).unwrap_or_default()
        }
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record([
            "group",
            "workload",
            "threads",
            "placement",
            "lock",
            "value",
            "ratio",
            "jain",
            "p99",
            "fair",
            "trouble",
        ])?;
        for cell in &self.cells {
            for (lock, entry) in cell.entries.iter().enumerate() {
                let Some(entry) = entry else { continue };
                writer.write_record([
                    cell.group.clone(),
                    cell.workload.clone(),
                    text(cell.threads),
                    text(cell.placement),
                    self.locks[lock].clone(),
                    entry.value.to_string(),
                    text(cell.ratio(lock)),
                    text(entry.jain),
                    text(entry.p99),
                    text(entry.fair),
                    text(entry.trouble.as_ref()),
                ])?;
            }
        }
        writer.into_inner().map_err(|error| io::Error::other(error.to_string()))
    }
}

/// Writes coverage.txt, coverage.csv, coverage.json and coverage.html; returns the path of the last.
pub(crate) fn write(matrix: &Matrix, directory: &Path) -> Result<PathBuf, Failure> {
    let page = directory.join("coverage.html");
    let result = matrix
        .csv()
        .and_then(|csv| fs::write(directory.join("coverage.csv"), csv))
        .and_then(|()| {
            let text = table::render(matrix, terminal::table_for_files());
            fs::write(directory.join("coverage.txt"), text + "\n")
        })
        .and_then(|()| {
            fs::write(directory.join("coverage.json"), serde_json::to_string_pretty(&matrix.json())? + "\n")
        })
        .and_then(|()| fs::write(&page, html::page(matrix)));
    result.map_err(|error| {
        Failure::with_status(1, format!("cannot write to `{}`: {}", directory.display(), describe(&error)))
    })?;
    Ok(page.canonicalize().unwrap_or(page))
}
