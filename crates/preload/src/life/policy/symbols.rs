//! The functions and variables of a file of code, by address.
//!
//! `.symtab` names everything, static functions and variables included; of a stripped file only the exported names in
//! `.dynsym` are known.

use core::mem::size_of;

use elf::ElfBytes;
use elf::abi::{SHN_ABS, STT_FUNC, STT_GNU_IFUNC, STT_OBJECT};
use elf::endian::NativeEndian;
use elf::string_table::StringTable;
use elf::symbol::{Symbol, SymbolTable};
use lockwork_platform::sys;

/// A named stretch of the file's address space.
struct Range {
    start: u64,
    /// In bytes; the longest that fits where it is longer.
    length: u32,
    /// Where the name is in the string table.
    name: u32,
}

/// Functions and variables, ordered by address.
pub(super) struct Symbols {
    ranges: &'static [Range],
    names: StringTable<'static>,
}

impl Symbols {
    /// The symbols of an ELF file. Sorts them, which takes a few milliseconds for 10,000.
    pub(super) fn read(file: &'static [u8]) -> Option<Self> {
        let file = ElfBytes::<NativeEndian>::minimal_parse(file).ok()?;
        let all = file.symbol_table().ok().flatten();
        let (table, names) = match all {
            Some(all) => all,
            None => file.dynamic_symbol_table().ok().flatten()?,
        };
        let ranges = ranges(&table)?;
        ranges.sort_unstable_by_key(|range| range.start);
        Some(Self { ranges, names })
    }

    /// The names of the smallest function or variable around an address of the file.
    pub(super) fn at(&self, address: u64) -> impl Iterator<Item = &'static str> + Clone {
        /// How many symbols that ended before the address may lie between it and the beginning of the one around it.
        const NESTED: usize = 16;
        let end = self.ranges.partition_point(|range| range.start <= address);
        let contains = move |range: &Range| address - range.start < u64::from(range.length);
        let start = self.ranges[..end]
            .iter()
            .rev()
            .take(NESTED)
            .find(|range| contains(range))
            .map(|range| range.start);
        let same = self.ranges[..end].iter().rev().skip_while(move |range| Some(range.start) != start);
        let names = self.names;
        same.take_while(move |range| Some(range.start) == start)
            .filter(move |range| contains(range))
            .filter_map(move |range| names.get(range.name as usize).ok())
    }
}

fn is_wanted(symbol: &Symbol) -> bool {
    matches!(symbol.st_symtype(), STT_FUNC | STT_OBJECT | STT_GNU_IFUNC)
        && !symbol.is_undefined()
        && symbol.st_shndx != SHN_ABS
        && symbol.st_size != 0
}

/// What matters of a symbol table, in pages of our own, unordered.
fn ranges(table: &SymbolTable<'_, NativeEndian>) -> Option<&'static mut [Range]> {
    let count = table.iter().filter(is_wanted).count();
    if count == 0 {
        return None;
    }
    let pages = sys::map_pages(count * size_of::<Range>())?.cast::<Range>();
    // SAFETY: fresh zeroed pages of that size, for which all-zero is a valid value, never unmapped while in use.
    let ranges = unsafe { core::slice::from_raw_parts_mut(pages.as_ptr(), count) };
    for (range, symbol) in ranges.iter_mut().zip(table.iter().filter(is_wanted)) {
        *range = Range {
            start: symbol.st_value,
            length: u32::try_from(symbol.st_size).unwrap_or(u32::MAX),
            name: symbol.st_name,
        };
    }
    Some(ranges)
}
