//! A page that asks the network for nothing, needs no script, and can be read by a screen reader: every figure has its table.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::svg::{Shape, svg};
use super::text::shown;
use crate::cover::Cover;
use crate::error::Error;
use crate::table::{Cell, Table};

const STYLE: &str = include_str!("style.css");

/// Browsers enforce what the page promises.
const CONTENT_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The cover, if there is one, tables, then figures.
pub(crate) fn page(
    cover: Option<&Cover>,
    tables: &[Table],
    figures: &[(Table, Shape)],
) -> Result<String, Error> {
    let title = cover
        .map_or_else(|| "A study of locks".to_owned(), |cover| format!("A study of locks: {}", cover.name));
    let figures: Vec<Markup> =
        figures.iter().map(|(table, shape)| figure(table, *shape)).collect::<Result<_, _>>()?;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(CONTENT_POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#content" { "Skip to the tables" }
                h1 { (title) }
                @if let Some(cover) = cover { (facts(cover)) }
                p.note {
                    "The numbers of tables and figures are those of H. Guiroux's thesis (Grenoble 2018), whose definitions are used. "
                    "A dash was not measured."
                }
                main id="content" {
                    @for table in tables { section { (rows(table)) (notes(table)) } }
                    @for figure in &figures { section { (figure) } }
                    @if let Some(cover) = cover { (applications(cover)) }
                }
            }
        }
    };
    Ok(page.into_string())
}

fn facts(cover: &Cover) -> Markup {
    html! {
        @if !cover.description.is_empty() { p { (cover.description) "." } }
        dl.facts { @for (what, value) in &cover.facts { div { dt { (what) } dd { (value) } } } }
    }
}

/// What the applications are about.
fn applications(cover: &Cover) -> Markup {
    html! {
        @if !cover.applications.is_empty() {
            section {
                h2 { "The applications" }
                dl.taught { @for (name, taught) in &cover.applications { dt { (name) } dd { (taught) } } }
            }
        }
    }
}

fn figure(table: &Table, shape: Shape) -> Result<Markup, Error> {
    let drawing = svg(table, shape)?;
    Ok(html! {
        figure {
            figcaption { strong { (table.heading()) } }
            (PreEscaped(drawing))
        }
        (notes(table))
        details { summary { "The numbers of figure " (table.id) } (rows(table)) }
    })
}

fn notes(table: &Table) -> Markup {
    html! { @for note in &table.notes { p.note { (note) } } }
}

fn rows(table: &Table) -> Markup {
    if table.rows.is_empty() {
        return html! { p { strong { (table.heading()) ": none." } } };
    }
    // A wide table scrolls by itself, and by the keyboard.
    html! {
        div.scroll tabindex="0" role="region" aria-label=(table.heading()) {
            table {
                caption { (table.heading()) }
                thead {
                    tr {
                        @for label in &table.labels { th.label scope="col" { (label) } }
                        @for column in &table.columns { th scope="col" { (column.full_name()) } }
                    }
                }
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for label in &row.labels { th scope="row" { (label) } }
                            @for (column, cell) in table.columns.iter().zip(&row.cells) {
                                td.notable[matches!(cell, Cell::Number { notable: true, .. })] { (shown(column.unit, cell)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
