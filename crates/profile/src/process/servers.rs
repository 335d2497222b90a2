//! Names of what serves locks, by their numbers. A library that chooses among a few locks gives each its number
//! ([`name_server`]); one whose locks are types asks for the number of a name ([`server_called`]).

use core::fmt::{self, Write as _};
use core::sync::atomic::Ordering::Relaxed;

use super::text::Text;
use crate::format::{NAME, Region, SERVERS};
use crate::locks::write_name;

/// Of what has no number of its own.
const LAST_SERVER: u32 = SERVERS as u32 - 1;

/// The name of what serves locks with this number, of mutexes (0) or reader-writer locks (1).
pub fn name_server(region: &Region, kind: usize, number: u32, what: &dyn fmt::Display) {
    let mut text = Text::<NAME>::EMPTY;
    let _ = write!(text, "{what}");
    if let Some(place) = region.servers[kind].get(number as usize) {
        write_name(place, text.as_bytes());
    }
}

/// The number of what serves locks and is called so, which from now on is its name; of mutexes (0) or reader-writer locks (1).
#[must_use]
pub fn server_called(region: &Region, kind: usize, name: &[u8]) -> u32 {
    let name = &name[..name.len().min(NAME - 1)];
    let Some(&first) = name.first() else { return LAST_SERVER };
    for number in 1..LAST_SERVER {
        let place = &region.servers[kind][number as usize];
        if place[0].load(Relaxed) == 0 && place[0].compare_exchange(0, first, Relaxed, Relaxed).is_ok() {
            write_name(place, name);
            return number;
        }
        // One that is being written is taken for another: then the name has two numbers.
        let rest = name.iter().chain(core::iter::repeat(&0));
        if place.iter().zip(rest).all(|(there, byte)| there.load(Relaxed) == *byte) {
            return number;
        }
    }
    LAST_SERVER
}
