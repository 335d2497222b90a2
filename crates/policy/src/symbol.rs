//! Patterns for symbols: a C name, a mangled C++ name, or a C++ name as one writes it.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;

use crate::mangled::{self, Component};

/// A function or a variable by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolPattern {
    /// As in the file.
    text: String,
    /// Without parameters, unnamed namespaces as the linker calls them.
    path: String,
}

impl SymbolPattern {
    /// A pattern from `foo`, `_ZN2ns3fooEv`, `ns::Class::method` or `ns::Class::method(int)`; parameters are
    /// ignored.
    ///
    /// # Errors
    ///
    /// A sentence, when the text cannot be the name of anything.
    pub fn new(text: &str) -> Result<Self, &'static str> {
        let path = text.trim().replace("(anonymous namespace)", mangled::UNNAMED);
        let path = path.split('(').next().unwrap_or_default().trim_end().to_owned();
        if path.is_empty() {
            return Err("the name of a symbol is missing");
        }
        if path.contains(['<', '>']) || path.split("::").any(|part| part.starts_with("operator")) {
            return Err("template arguments and operators have to be left out, or the mangled name used");
        }
        if path.contains(char::is_whitespace) {
            return Err("a name without its return type is expected, such as `ns::function`");
        }
        if path.split("::").any(str::is_empty) {
            return Err("a part of the name is empty");
        }
        Ok(SymbolPattern { text: text.to_owned(), path })
    }

    /// Whether `symbol`, as the linker sees it, is meant; parameters, template arguments, versions and the suffixes
    /// of clones (`.part.0`, `.cold`) are ignored unless the pattern has them, as it does for a variable that is local to a C
    /// function (`lock.0`, `work.lock`), and what is local to a function belongs to it. Does not allocate.
    #[must_use]
    pub fn matches(&self, symbol: &str) -> bool {
        let symbol = symbol.split('@').next().unwrap_or(symbol);
        if symbol == self.path {
            return true;
        }
        let symbol = symbol.split('.').next().unwrap_or(symbol);
        if symbol == self.path {
            return true;
        }
        mangled::components(symbol).is_some_and(|components| self.is_path(components))
    }

    fn is_path<'a>(&self, mut components: impl Iterator<Item = Component<'a>>) -> bool {
        let mut previous = "";
        for wanted in self.path.split("::") {
            let matches = match components.next() {
                Some(Component::Name(name)) => name == wanted,
                Some(Component::Constructor) => wanted == previous,
                Some(Component::Destructor) => wanted.strip_prefix('~') == Some(previous),
                Some(Component::Other) | None => false,
            };
            if !matches {
                return false;
            }
            previous = wanted;
        }
        match components.next() {
            None => true,
            Some(Component::Name(name)) => mangled::is_rust_hash(name) && components.next().is_none(),
            Some(_) => false,
        }
    }
}

impl fmt::Display for SymbolPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, symbol: &str) -> bool {
        SymbolPattern::new(pattern).unwrap().matches(symbol)
    }

    /// Symbols as g++, and for the last one rustc, makes them.
    #[test]
    fn names_match_their_symbols() {
        for (pattern, symbol) in [
            ("main", "main"),
            ("work", "work.part.0"),
            ("work", "work.constprop.0.cold"),
            ("pthread_create", "pthread_create@@GLIBC_2.34"),
            ("lock.0", "lock.0"),
            ("work.lock", "work.lock"),
            ("lock.lto_priv.0", "lock.lto_priv.0"),
            ("_ZN3BoxIiE4lockE", "_ZN3BoxIiE4lockE"),
            ("work", "_Z4worki"),
            ("work", "_ZL4worki"),
            ("work(int)", "_Z4worki"),
            ("_Z4worki", "_Z4worki"),
            ("rocksdb::LRUCache::Insert", "_ZN7rocksdb8LRUCache6InsertERKNS_5SliceEPvm"),
            ("rocksdb::LRUCache::Get", "_ZNK7rocksdb8LRUCache3GetEv"),
            ("ns::Class::Class", "_ZN2ns5ClassC2Ev"),
            ("ns::Class::~Class", "_ZN2ns5ClassD1Ev"),
            ("ns::mutex", "_ZN2ns5mutexE"),
            ("(anonymous namespace)::mutex", "_ZN12_GLOBAL__N_15mutexE"),
            ("ns::hidden", "_ZN2nsL6hiddenE"),
            ("Box::put", "_ZN3BoxIiLi42EE3putEi"),
            ("Box::put", "_ZN3BoxISt6vectorIiSaIiEEE3putES2_"),
            ("Box::put", "_ZN3BoxIN2ns5ClassEE3putES1_"),
            ("Box::put", "_ZN3BoxIA4_iE3putEPS0_"),
            ("Box::put", "_ZN3BoxILN2ns4RoleE2EE3putEv"),
            ("swap", "_Z4swapIN2ns5ClassEEvRT_S3_"),
            ("std::mutex::lock", "_ZNSt5mutex4lockEv"),
            ("std::terminate", "_ZSt9terminatev"),
            ("outer", "_ZZ5outervE5local"),
            ("ns::outer", "_ZZN2ns5outerEvENKUlvE_clEv"),
            ("tagged::name", "_ZN6taggedB5cxx114nameB5cxx11Ev"),
            ("core::fmt::write", "_ZN4core3fmt5write17h0123456789abcdefE"),
        ] {
            assert!(matches(pattern, symbol), "{pattern} {symbol}");
        }
    }

    #[test]
    fn other_names_do_not() {
        for (pattern, symbol) in [
            ("work", "worker"),
            ("lock.0", "lock.1"),
            ("lock.0", "lock"),
            ("work", "_Z6workeri"),
            ("Insert", "_ZN7rocksdb8LRUCache6InsertEv"),
            ("rocksdb::LRUCache", "_ZN7rocksdb8LRUCache6InsertEv"),
            ("rocksdb::LRUCache::Insert::x", "_ZN7rocksdb8LRUCache6InsertEv"),
            ("ns::Class::Class", "_ZN2ns5ClassD2Ev"),
            ("ns::Class::~Class", "_ZN2ns5ClassC2Ev"),
            ("ns::Class", "_ZTVN2ns5ClassE"),
            ("ns::outer::x", "_ZN2ns5outerplERKS0_"),
        ] {
            assert!(!matches(pattern, symbol), "{pattern} {symbol}");
        }
    }

    #[test]
    fn impossible_patterns() {
        for text in
            ["", " ", "(", "a::", "::a", "Box<int>::put", "operator<<", "ns::operator()", "void work(int)"]
        {
            assert!(SymbolPattern::new(text).is_err(), "{text}");
        }
    }
}
