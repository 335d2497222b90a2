//! A table as data, before it becomes text, CSV or HTML.

/// What the numbers of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Shares of 1, shown as percentages, to the nearest whole one.
    Percent,
    /// Shares of 1, shown as percentages cut to whole ones, as the thesis prints Table 4.11.
    PercentCut,
    /// Whole numbers.
    Count,
    /// Numbers with two decimals.
    Number,
}

/// A column of numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// What stands above the headings of several columns.
    pub group: Option<String>,
    /// What its numbers are.
    pub unit: Unit,
    /// What its marks say, if its cells have marks: CSV has a column of its own for them.
    pub marks: Option<&'static str>,
}

impl Column {
    /// A column without a group or marks.
    #[must_use]
    pub fn new(name: impl Into<String>, unit: Unit) -> Self {
        Column { name: name.into(), group: None, unit, marks: None }
    }

    /// The same in a group.
    #[must_use]
    pub fn in_group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// The same with marks on its cells.
    #[must_use]
    pub fn with_marks(mut self, marks: &'static str) -> Self {
        self.marks = Some(marks);
        self
    }

    /// The heading with its group.
    #[must_use]
    pub fn full_name(&self) -> String {
        match &self.group {
            Some(group) => format!("{group} {}", self.name),
            None => self.name.clone(),
        }
    }
}

/// What stands in a cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nothing was measured.
    Missing,
    /// A number, perhaps marked, perhaps worth notice.
    Number {
        /// In the column's unit: 0.5 is 50%.
        value: f64,
        /// Beside it; what it says is the column's [`Column::marks`].
        mark: Option<String>,
        /// Whether the reader should see it first.
        notable: bool,
    },
}

impl Cell {
    /// A plain number.
    #[must_use]
    pub fn number(value: f64) -> Self {
        Cell::Number { value, mark: None, notable: false }
    }

    /// A plain number, if there is one.
    #[must_use]
    pub fn optional(value: Option<f64>) -> Self {
        value.map_or(Cell::Missing, Cell::number)
    }

    /// The same number, notable if `notable`.
    #[must_use]
    pub fn notable_if(self, notable: bool) -> Self {
        match self {
            Cell::Number { value, mark, .. } => Cell::Number { value, mark, notable },
            Cell::Missing => Cell::Missing,
        }
    }

    /// The number, if there is one.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        match self {
            Cell::Number { value, .. } => Some(*value),
            Cell::Missing => None,
        }
    }
}

/// A row: its labels, then a cell for every column.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// One for each of [`Table::labels`].
    pub labels: Vec<String>,
    /// One for each of [`Table::columns`].
    pub cells: Vec<Cell>,
}

/// Whether the thesis prints it as a table or draws it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A table.
    Table,
    /// What a figure draws.
    Figure,
}

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Tables and figures have the same numbers.
    pub kind: Kind,
    /// The thesis's number: `4.8`.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// The headings of the labels.
    pub labels: Vec<&'static str>,
    /// The headings of the cells.
    pub columns: Vec<Column>,
    /// The rows.
    pub rows: Vec<Row>,
    /// What a reader must know: definitions, what notable cells are, runs left out.
    pub notes: Vec<String>,
}

impl Table {
    /// Kind, number and title.
    #[must_use]
    pub fn heading(&self) -> String {
        let kind = match self.kind {
            Kind::Table => "Table",
            Kind::Figure => "Figure",
        };
        format!("{kind} {}. {}", self.id, self.title)
    }

    /// The cell at labels and a heading with its group.
    #[must_use]
    pub fn cell(&self, labels: &[&str], column: &str) -> Option<&Cell> {
        let place = self.columns.iter().position(|candidate| candidate.full_name() == column)?;
        let row =
            self.rows.iter().find(|row| row.labels.iter().map(String::as_str).eq(labels.iter().copied()))?;
        row.cells.get(place)
    }
}
