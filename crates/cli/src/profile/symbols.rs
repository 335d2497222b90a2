//! From addresses of a process that has ended to names: by the files that it had mapped.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use addr2line::Loader;
use lockwork_policy::SymbolPattern;
use object::read::elf::ElfFile64;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

/// A function in a stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    /// Its name, or `module+0x1234` where it has none.
    pub(crate) function: String,
    /// `file.c:12`, where the file says so.
    pub(crate) line: Option<String>,
    /// The same as the compiler was told the file, with the directory that it ran in.
    pub(crate) source: Option<(PathBuf, u32)>,
    /// The file's name.
    pub(crate) module: String,
}

/// A mapped file.
#[derive(Debug, Clone)]
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    path: PathBuf,
}

/// A symbol of a file.
#[derive(Debug, Clone)]
struct Symbol {
    start: u64,
    size: u64,
    name: String,
    is_variable: bool,
}

/// A static variable.
#[derive(Debug)]
pub(crate) struct Variable {
    /// As the linker calls it.
    symbol: String,
    /// The name of the file that it is in.
    pub(crate) module: String,
}

impl Variable {
    /// The name as a programmer wrote it.
    pub(crate) fn name(&self) -> String {
        demangle(&self.symbol)
    }

    /// The name by which a rule of a policy finds it: the programmer's if that does, else the linker's.
    pub(crate) fn pattern(&self) -> String {
        let name = self.name();
        // Of a variable within a function, that is the function's name.
        let is_path = !name.contains('(');
        let finds_it =
            is_path && SymbolPattern::new(&name).is_ok_and(|pattern| pattern.matches(&self.symbol));
        if finds_it { name } else { self.symbol.clone() }
    }
}

/// A file of code or data.
struct Module {
    /// What is added to the file's addresses.
    bias: u64,
    name: String,
    /// Ordered by address.
    symbols: Vec<Symbol>,
    /// Where its segments lie, by the file's addresses.
    segments: Vec<(u64, u64)>,
    /// Those of them that hold variables.
    data: Vec<(u64, u64)>,
    loader: Option<Loader>,
}

/// Names for the addresses of one process.
pub(crate) struct Symbols {
    mappings: Vec<Mapping>,
    modules: RefCell<HashMap<PathBuf, Option<Module>>>,
    frames: RefCell<HashMap<u64, Vec<Frame>>>,
}

impl Symbols {
    /// For a process with these maps.
    pub(crate) fn new(maps: &str) -> Self {
        let mappings = maps.lines().filter_map(mapping).collect();
        Self { mappings, modules: RefCell::default(), frames: RefCell::default() }
    }

    fn with_module<R>(&self, path: &Path, then: impl FnOnce(&Module) -> R) -> Option<R> {
        let mut modules = self.modules.borrow_mut();
        let module = modules.entry(path.to_owned()).or_insert_with(|| {
            let first = self
                .mappings
                .iter()
                .filter(|mapping| mapping.path == path)
                .min_by_key(|mapping| mapping.start)?;
            Module::read(first)
        });
        module.as_ref().map(then)
    }

    fn mapping(&self, address: u64) -> Option<&Mapping> {
        self.mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))
    }

    /// The functions around the call that returns to `address`, inlined ones first.
    pub(crate) fn frames(&self, address: u64) -> Vec<Frame> {
        if let Some(known) = self.frames.borrow().get(&address) {
            return known.clone();
        }
        let frames = self.look_up(address);
        self.frames.borrow_mut().insert(address, frames.clone());
        frames
    }

    fn look_up(&self, address: u64) -> Vec<Frame> {
        // The return address may be the first one of the next function.
        let call = address.wrapping_sub(1);
        let unknown = |module: &str, offset: u64| {
            let function = format!("{module}+{offset:#x}");
            vec![Frame { function, module: module.to_owned(), ..Frame::default() }]
        };
        let Some(mapping) = self.mapping(call) else {
            return unknown("[unmapped]", address);
        };
        let found = self.with_module(&mapping.path, |module| {
            let place = call.wrapping_sub(module.bias);
            let frames = module.inlined(place);
            if !frames.is_empty() {
                return frames;
            }
            match module.symbol(place, false) {
                Some(symbol) => {
                    let function = demangle(&symbol.name);
                    vec![Frame { function, module: module.name.clone(), ..Frame::default() }]
                }
                None => unknown(&module.name, address.wrapping_sub(module.bias)),
            }
        });
        found.unwrap_or_else(|| unknown(&file_name(&mapping.path), address - mapping.start + mapping.offset))
    }

    /// The file that the call that returns to `address` is in.
    pub(crate) fn file(&self, address: u64) -> Option<&Path> {
        self.mapping(address.wrapping_sub(1)).map(|mapping| mapping.path.as_path())
    }

    /// `module+0x1234` for a return address, as policies name calls.
    pub(crate) fn place(&self, address: u64) -> String {
        let Some(mapping) = self.mapping(address.wrapping_sub(1)) else { return format!("{address:#x}") };
        let offset = self.with_module(&mapping.path, |module| address.wrapping_sub(module.bias));
        let offset = offset.unwrap_or(address - mapping.start + mapping.offset);
        format!("{}+{offset:#x}", file_name(&mapping.path))
    }

    /// `module+0x1234` for a variable, as policies name static locks: the file's own address of it, whatever its name.
    pub(crate) fn static_place(&self, address: u64) -> Option<String> {
        self.in_modules(|module| {
            let place = address.wrapping_sub(module.bias);
            let is_inside = module.data.iter().any(|&(start, end)| (start..end).contains(&place));
            is_inside.then(|| format!("{}+{place:#x}", module.name))
        })
    }

    /// What is found in the first file that has it.
    fn in_modules<R>(&self, find: impl Fn(&Module) -> Option<R>) -> Option<R> {
        let mut paths: Vec<&PathBuf> = self.mappings.iter().map(|mapping| &mapping.path).collect();
        paths.dedup();
        paths.into_iter().find_map(|path| self.with_module(path, &find).flatten())
    }

    /// The static variable that an address lies in.
    pub(crate) fn variable(&self, address: u64) -> Option<Variable> {
        // What is not in the file (`.bss`) lies behind it, in memory without a name.
        self.in_modules(|module| {
            let place = address.wrapping_sub(module.bias);
            let is_inside = module.segments.iter().any(|&(start, end)| (start..end).contains(&place));
            let symbol = is_inside.then(|| module.symbol(place, true)).flatten()?;
            Some(Variable { symbol: symbol.name.clone(), module: module.name.clone() })
        })
    }
}

impl Module {
    fn read(first: &Mapping) -> Option<Self> {
        let data = std::fs::read(&first.path).ok()?;
        let file = ElfFile64::<object::Endianness>::parse(data.as_slice()).ok()?;
        let segments: Vec<_> = file.segments().collect();
        // The file's address of the first byte that is mapped.
        let own = segments.iter().find_map(|segment| {
            let (offset, size) = segment.file_range();
            let start = offset & !0xfff;
            (start..offset + size.max(1))
                .contains(&first.offset)
                .then(|| segment.address().wrapping_sub(offset).wrapping_add(first.offset))
        })?;
        let mut symbols: Vec<Symbol> = file
            .symbols()
            .chain(file.dynamic_symbols())
            .filter(|symbol| {
                symbol.is_definition() && matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Data)
            })
            .filter_map(|symbol| {
                let is_variable = symbol.kind() == SymbolKind::Data;
                let name = symbol.name().ok()?.to_owned();
                Some(Symbol { start: symbol.address(), size: symbol.size(), name, is_variable })
            })
            .collect();
        symbols.sort_by(|a, b| (a.start, &a.name).cmp(&(b.start, &b.name)));
        symbols.dedup_by(|a, b| a.start == b.start && a.name == b.name);
        Some(Self {
            bias: first.start.wrapping_sub(own),
            name: file_name(&first.path),
            symbols,
            segments: segments.iter().map(range).collect(),
            data: segments.iter().filter(|segment| segment.permissions().writable()).map(range).collect(),
            loader: Loader::new(&first.path).ok(),
        })
    }

    /// The smallest symbol around an address.
    fn symbol(&self, address: u64, is_variable: bool) -> Option<&Symbol> {
        const NESTED: usize = 64;
        let end = self.symbols.partition_point(|symbol| symbol.start <= address);
        self.symbols[..end]
            .iter()
            .rev()
            .take(NESTED)
            .find(|symbol| symbol.is_variable == is_variable && address - symbol.start < symbol.size)
    }

    /// By the debug information, if there is some.
    fn inlined(&self, address: u64) -> Vec<Frame> {
        let Some(Ok(mut found)) = self.loader.as_ref().map(|loader| loader.find_frames(address)) else {
            return Vec::new();
        };
        let mut frames = Vec::new();
        while let Ok(Some(frame)) = found.next() {
            let Some(function) = frame.function else { continue };
            let source = frame
                .location
                .and_then(|location| Some((PathBuf::from(location.file?), location.line.unwrap_or(0))));
            let line = source.as_ref().map(|(file, line)| format!("{}:{line}", file_name(file)));
            let name = function.raw_name().map(|name| demangle(&name)).unwrap_or_default();
            frames.push(Frame { function: name, line, source, module: self.name.clone() });
        }
        frames
    }
}

/// Where a segment lies in memory, by the file's addresses.
fn range<'a>(segment: &impl ObjectSegment<'a>) -> (u64, u64) {
    (segment.address(), segment.address() + segment.size())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// A line of `/proc/self/maps` that is of a file.
fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let _ = words.next()?;
    let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let offset = number(words.next()?)?;
    let path = &line[line.find('/')?..];
    let path = PathBuf::from(path.trim_end_matches(" (deleted)"));
    Some(Mapping { start: number(start)?, end: number(end)?, offset, path })
}

/// The name as a programmer wrote it.
pub(crate) fn demangle(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
    {
        let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
        if let Ok(text) = symbol.demangle(&options) {
            return text;
        }
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_functions_and_variables_are_found() {
        static VARIABLE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(7);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let symbols = Symbols::new(&maps);
        let function = own_functions_and_variables_are_found as *const () as u64;
        let frames = symbols.frames(function + 1);
        let names: Vec<&str> = frames.iter().map(|frame| frame.function.as_str()).collect();
        assert!(names.iter().any(|name| name.contains("own_functions_and_variables_are_found")), "{names:?}");
        let variable = symbols.variable((&raw const VARIABLE) as u64).expect("a static has a symbol");
        assert!(variable.name().contains("VARIABLE"), "{variable:?}");
        assert!(symbols.place(function + 1).contains("+0x"));
    }

    /// Symbols as gcc, clang, link-time optimisation, g++ and rustc make them.
    #[test]
    fn rules_find_the_variables_that_they_are_made_for() {
        for (symbol, expected) in [
            ("hot", "hot"),
            ("hot.0", "hot.0"),
            ("work.hot", "work.hot"),
            ("hot.lto_priv.0", "hot.lto_priv.0"),
            ("_ZN2ns3hotE", "ns::hot"),
            ("_ZN12_GLOBAL__N_13hotE", "_GLOBAL__N_1::hot"),
            ("_ZN5CacheIiE3hotE", "_ZN5CacheIiE3hotE"),
            ("_ZZ4workvE3hot", "_ZZ4workvE3hot"),
        ] {
            let variable = Variable { symbol: symbol.to_owned(), module: "server".to_owned() };
            let pattern = variable.pattern();
            assert_eq!(pattern, expected);
            assert!(SymbolPattern::new(&pattern).unwrap().matches(symbol), "{pattern} {symbol}");
        }
    }

    #[test]
    fn names_are_demangled() {
        assert_eq!(demangle("_ZN7rocksdb8LRUCache6InsertEv"), "rocksdb::LRUCache::Insert");
        assert_eq!(demangle("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE"), "core::fmt::Formatter::pad");
        assert_eq!(demangle("main"), "main");
    }
}
