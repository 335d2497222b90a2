//! The program and its libraries: which of them an address belongs to, and what is known of it.
//!
//! glibc's `_dl_find_object` answers the first question without a lock, as is needed inside lock calls. The second
//! needs the file, which is read when the first lock is decided for the module, and remembered. No thread ever
//! waits for another here: two that read the same file at once both do the work, and one result is forgotten.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::hash::Hasher;
use core::ops::Range;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use lockwork_platform::published::Published;
use lockwork_platform::{Native, sys};

use super::file::File;
use super::symbols::Symbols;
use crate::abi::real;

/// glibc's `struct dl_find_object` on x86_64 and aarch64, as of 2.35.
#[repr(C)]
struct Object {
    flags: u64,
    start: usize,
    end: usize,
    map: *const LinkMap,
    eh_frame: *const c_void,
    reserved: [u64; 7],
}

/// The public part of glibc's `struct link_map`.
#[repr(C)]
struct LinkMap {
    /// What the loader added to the addresses in the file.
    bias: usize,
    /// A path; empty for the program itself.
    name: *const c_char,
}

type Find = unsafe extern "C" fn(*const c_void, *mut Object) -> c_int;

/// `_dl_find_object`, once [`prepare`] has found it.
static FIND: AtomicUsize = AtomicUsize::new(0);

/// Looks up what [`find`] needs; false if this glibc lacks it.
pub(crate) fn prepare() -> bool {
    let address = real::find_optional(c"_dl_find_object").unwrap_or(0);
    FIND.store(address, Ordering::Relaxed);
    address != 0
}

unsafe extern "C" {
    fn getauxval(kind: u64) -> usize;
}

/// A module that an address lies in, as long as it is loaded.
pub(super) struct Loaded {
    bias: usize,
    name: &'static CStr,
    /// Differs for modules of different names or places.
    pub(super) identity: u64,
}

/// The module around an address; `None` for the heap, stacks and generated code.
pub(super) fn find(address: usize) -> Option<Loaded> {
    let object = object(address)?;
    // SAFETY: a loaded module's, which stays loaded while a thread executes it or uses a lock in it.
    let map = unsafe { object.map.as_ref() }?;
    // SAFETY: terminated; as above.
    let name = unsafe { CStr::from_ptr(map.name) };
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    hash.write_usize(map.bias);
    hash.write(name.to_bytes());
    Some(Loaded { bias: map.bias, name, identity: hash.finish() })
}

/// The addresses of the module around an address.
pub(crate) fn range(address: usize) -> Option<Range<usize>> {
    object(address).map(|object| object.start..object.end)
}

fn object(address: usize) -> Option<Object> {
    let find = FIND.load(Ordering::Relaxed);
    if find == 0 {
        return None;
    }
    // SAFETY: the address of glibc's function, which has had this type since it appeared.
    let find: Find = unsafe { core::mem::transmute(find) };
    let mut object = core::mem::MaybeUninit::<Object>::uninit();
    // SAFETY: any address may be asked about; the room for the answer is ours.
    if unsafe { find(address as *const c_void, object.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the function said that it filled it in.
    Some(unsafe { object.assume_init() })
}

impl Loaded {
    /// The address as the file has it, which is what `nm`, `objdump` and `addr2line` show: less the bias of loading,
    /// whether the module is position-independent or not.
    pub(super) fn offset(&self, address: usize) -> usize {
        address.wrapping_sub(self.bias)
    }

    /// What is known of it.
    pub(super) fn module(&self, with_symbols: bool) -> Option<&'static Module> {
        self.known().or_else(|| self.learn(with_symbols))
    }

    fn known(&self) -> Option<&'static Module> {
        let mut next = MODULES.pointer();
        // SAFETY: null, or a module that was published by `learn` and stays for ever.
        while let Some(module) = unsafe { next.as_ref() } {
            if module.identity == self.identity {
                return Some(module);
            }
            next = module.next.load(Ordering::Relaxed);
        }
        None
    }

    #[cold]
    fn learn(&self, with_symbols: bool) -> Option<&'static Module> {
        /// Linux has no longer path.
        const LONGEST_PATH: usize = 4096;
        let is_program = self.name.is_empty();
        let (loaded, path) =
            if is_program { (program_name(), c"/proc/self/exe") } else { (self.name, self.name) };
        let file = File::open(path).ok();

        let bytes = size_of::<Module>() + loaded.count_bytes() + LONGEST_PATH;
        let pages = sys::map_pages(bytes)?;
        // SAFETY: within the pages.
        let behind = unsafe { pages.add(size_of::<Module>()) };
        // SAFETY: up to the end of the pages, which are zeroed and ours alone.
        let room = unsafe { core::slice::from_raw_parts_mut(behind.as_ptr(), bytes - size_of::<Module>()) };
        let (copy, room) = room.split_at_mut(loaded.count_bytes());
        // The loader frees its own copy when it unloads the module.
        copy.copy_from_slice(loaded.to_bytes());
        let as_loaded = core::str::from_utf8(copy).unwrap_or_default();
        let module = Module {
            next: AtomicPtr::new(ptr::null_mut()),
            identity: self.identity,
            names: [as_loaded, file.as_ref().and_then(|file| file.path(room)).unwrap_or(as_loaded)],
            symbols: file.filter(|_| with_symbols).and_then(|file| Symbols::read(file.map()?)),
        };
        let place = pages.cast::<Module>();
        // SAFETY: page-aligned, large enough, ours alone.
        unsafe { place.write(module) };
        Some(publish(place))
    }
}

/// How the program was called, as far as the kernel knows: `/usr/bin/python3` where the file is `/usr/bin/python3.11`.
fn program_name() -> &'static CStr {
    const AT_EXECFN: u64 = 31;
    // SAFETY: no memory is involved.
    let name = unsafe { getauxval(AT_EXECFN) };
    if name == 0 {
        return c"";
    }
    // SAFETY: a terminated string that the kernel put on the first stack.
    unsafe { CStr::from_ptr(name as *const c_char) }
}

/// What is known of a module.
pub(super) struct Module {
    next: AtomicPtr<Module>,
    identity: u64,
    /// Its path as the loader knows it, and without symbolic links.
    pub(super) names: [&'static str; 2],
    pub(super) symbols: Option<Symbols>,
}

/// The newest module; each has the next older one.
static MODULES: Published<Native, Module> = Published::nothing();

fn publish(module: NonNull<Module>) -> &'static Module {
    // SAFETY: ours until it is published.
    let link = |before| unsafe { module.as_ref() }.next.store(before, Ordering::Relaxed);
    // SAFETY: written, and never unmapped.
    unsafe { MODULES.push(module, link) }
}

/// The hash of Fowler, Noll and Vo (FNV-1a), for short names.
struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
