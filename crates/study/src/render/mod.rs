//! Tables as text, CSV and HTML, figures as SVG.

mod csv;
mod html;
mod svg;
mod text;

pub(crate) use csv::csv;
pub(crate) use html::page;
pub(crate) use svg::{Shape, svg};
pub(crate) use text::text;
