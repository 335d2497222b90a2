//! Output: colours only on a terminal that wants them, and no complaint when a pipe is closed.

use std::io::{self, ErrorKind, IsTerminal, Write};

use comfy_table::{ContentArrangement, LineStyle, Table, TableStyle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::Failure;

/// Whether stdout gets colours: a terminal, and `NO_COLOR` is not set.
pub(crate) fn colours() -> bool {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    wanted && io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Rules above, under the header and below.
const STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// A table that knows whether it may use colours.
pub(crate) fn table() -> Table {
    let mut table = Table::new();
    table.load_style(STYLE);
    if colours() {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table
}

/// The width of tables of sentences where there is no terminal: a book's.
const WIDTH_ELSEWHERE: u16 = 132;

/// A table for sentences, which wrap at the terminal's width or, where there is no terminal, at a book's.
pub(crate) fn wrapping_table() -> Table {
    let mut table = table();
    table.set_content_arrangement(ContentArrangement::Dynamic);
    if !io::stdout().is_terminal() {
        table.set_width(WIDTH_ELSEWHERE);
    }
    table
}

/// The same for a file, wherever stdout goes.
pub(crate) fn table_for_files() -> Table {
    let mut table = Table::new();
    table.load_style(STYLE);
    table.force_no_tty();
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(WIDTH_ELSEWHERE);
    table
}

/// Says something on stderr, a line of it. Where that cannot be written there is nobody to tell, and the work goes on; `eprintln!` would
/// end it.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr().lock(), $($text)*);
    }};
}
pub(crate) use say;

/// Writes to stdout; a reader that went away (`| head`) is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())?;
    if text.ends_with('\n') { Ok(()) } else { print_bytes(b"\n") }
}

/// The same for what is no text.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::with_status(1, format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Whether stdout is a pipe that nobody reads any more: then there is no point in waiting for more to say.
pub(crate) fn reader_left() -> bool {
    let stdout = io::stdout();
    // Asked for or not, poll tells of it.
    let mut events = [PollFd::new(&stdout, PollFlags::empty())];
    poll(&mut events, Some(&Timespec::default())).is_ok() && events[0].revents().contains(PollFlags::ERR)
}

/// Writes a value as JSON to stdout.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::with_status(1, format!("cannot be written as JSON: {error}")))?;
    print(&text)
}
