//! `bpf(2)`: as much of it as the monitor needs.

use std::cell::Cell;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::assembler::Instruction;

/// Commands.
mod command {
    pub(super) const MAP_CREATE: u32 = 0;
    pub(super) const MAP_LOOKUP_ELEM: u32 = 1;
    pub(super) const MAP_UPDATE_ELEM: u32 = 2;
    pub(super) const MAP_DELETE_ELEM: u32 = 3;
    pub(super) const PROG_LOAD: u32 = 5;
    pub(super) const PROG_RUN: u32 = 10;
    pub(super) const RAW_TRACEPOINT_OPEN: u32 = 17;
    pub(super) const BTF_LOAD: u32 = 18;
    pub(super) const MAP_FREEZE: u32 = 22;
}

/// Kinds of maps.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MapKind {
    Array = 2,
    ArrayOfMaps = 12,
    TaskStorage = 29,
}

/// Not to be allocated beforehand; task storage insists.
pub(crate) const NO_PREALLOC: u32 = 1;
/// Can be mapped into memory.
pub(crate) const MMAPABLE: u32 = 1 << 10;

/// What a program is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// To be called at the tracepoint of this type.
    Tracepoint(u32),
    /// To be called at the probe.
    Probe,
    /// To be run by [`run`].
    Run,
}

/// Kernels let only programs under such a licence call most of their functions.
const LICENCE: &CStr = c"Dual MIT/GPL";

/// Calls `bpf(2)` with the fields that a command reads; all others are zero.
///
/// # Safety
///
/// Addresses in `attributes` are of memory as the command expects it.
unsafe fn call<T>(command: u32, attributes: &T) -> io::Result<i64> {
    // SAFETY: the attributes are readable, and as long as is said; the caller answers for what they point to.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// As [`call`], for commands that return a descriptor.
///
/// # Safety
///
/// As [`call`].
unsafe fn open<T>(command: u32, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's contract.
    let descriptor = unsafe { call(command, attributes) }?;
    // SAFETY: just opened, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

/// What a map is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapShape {
    pub(crate) kind: MapKind,
    pub(crate) value_size: u32,
    pub(crate) entries: u32,
    pub(crate) flags: u32,
}

/// Creates a map whose keys are 32-bit integers. An array of maps is told what its maps are like by `inner`; task
/// storage is told its types by `types`, the first of which both key and value have.
pub(crate) fn create_map(
    shape: MapShape,
    inner: Option<BorrowedFd>,
    types: Option<BorrowedFd>,
) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        kind: u32,
        key_size: u32,
        value_size: u32,
        entries: u32,
        flags: u32,
        inner: u32,
        numa_node: u32,
        name: [u8; 16],
        ifindex: u32,
        types: u32,
        key_type: u32,
        value_type: u32,
    }
    let MapShape { kind, value_size, entries, flags } = shape;
    let descriptor = |of: Option<BorrowedFd>| of.map_or(0, |of| of.as_raw_fd() as u32);
    let type_id = u32::from(types.is_some());
    let attributes = Attributes {
        kind: kind as u32,
        key_size: 4,
        value_size,
        entries,
        flags,
        inner: descriptor(inner),
        numa_node: 0,
        name: *b"lockwork\0\0\0\0\0\0\0\0",
        ifindex: 0,
        types: descriptor(types),
        key_type: type_id,
        value_type: type_id,
    };
    // SAFETY: no addresses.
    unsafe { open(command::MAP_CREATE, &attributes) }
}

#[repr(C)]
struct Element {
    map: u64,
    key: *const u32,
    value: *const u32,
    flags: u64,
}

/// An element of a map whose values are 32-bit integers.
pub(crate) fn look_up(map: BorrowedFd, key: u32) -> io::Result<u32> {
    let mut value = 0;
    let attributes =
        Element { map: map.as_raw_fd() as u64, key: &raw const key, value: &raw mut value, flags: 0 };
    // SAFETY: key and value are as long as the map has them, and the value may be written to.
    unsafe { call(command::MAP_LOOKUP_ELEM, &attributes) }?;
    Ok(value)
}

/// Sets an element of a map whose values are 32-bit integers, or descriptors.
pub(crate) fn update(map: BorrowedFd, key: u32, value: u32) -> io::Result<()> {
    let attributes =
        Element { map: map.as_raw_fd() as u64, key: &raw const key, value: &raw const value, flags: 0 };
    // SAFETY: key and value are as long as the map has them.
    unsafe { call(command::MAP_UPDATE_ELEM, &attributes) }.map(drop)
}

/// Empties an element.
pub(crate) fn delete(map: BorrowedFd, key: u32) -> io::Result<()> {
    let attributes =
        Element { map: map.as_raw_fd() as u64, key: &raw const key, value: std::ptr::null(), flags: 0 };
    // SAFETY: the key is as long as the map has it.
    unsafe { call(command::MAP_DELETE_ELEM, &attributes) }.map(drop)
}

/// From now on only programs can write to the map: no process can, neither by this call nor through memory.
pub(crate) fn freeze(map: BorrowedFd) -> io::Result<()> {
    // SAFETY: no addresses.
    unsafe { call(command::MAP_FREEZE, &(map.as_raw_fd() as u32)) }.map(drop)
}

/// Loads a description of types with one type in it, the first: `int`.
pub(crate) fn load_types() -> io::Result<OwnedFd> {
    const HEADER_BYTES: u32 = 24;
    const TYPE_BYTES: u32 = 16;
    const KIND_INTEGER: u32 = 1 << 24;
    const SIGNED: u32 = 1 << 24;
    let strings = b"\0int\0";
    let words = [
        0x0001_eb9f, // the magic number, the version, flags
        HEADER_BYTES,
        0,
        TYPE_BYTES,
        TYPE_BYTES,
        strings.len() as u32,
        1, // the name's place in the strings
        KIND_INTEGER,
        4,
        SIGNED | 32,
    ];
    let mut blob: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_ne_bytes()).collect();
    blob.extend(strings);
    #[repr(C)]
    struct Attributes {
        types: *const u8,
        log: *mut u8,
        length: u32,
        log_length: u32,
    }
    let attributes = Attributes {
        types: blob.as_ptr(),
        log: std::ptr::null_mut(),
        length: blob.len() as u32,
        log_length: 0,
    };
    // SAFETY: the blob is readable for the length given.
    unsafe { open(command::BTF_LOAD, &attributes) }
}

/// Loads a program; what the kernel has to say against it, with the error.
pub(crate) fn load_program(
    program: &[Instruction],
    purpose: Purpose,
) -> Result<OwnedFd, (io::Error, String)> {
    const PROBE: u32 = 2;
    const RAW_TRACEPOINT: u32 = 17;
    const TRACING: u32 = 26;
    const ATTACH_RAW_TRACEPOINT: u32 = 23;
    #[repr(C)]
    struct Attributes {
        kind: u32,
        count: u32,
        instructions: *const Instruction,
        licence: *const libc::c_char,
        log_level: u32,
        log_length: u32,
        log: *mut u8,
        kernel_version: u32,
        flags: u32,
        name: [u8; 16],
        ifindex: u32,
        attach_kind: u32,
        types: u32,
        function_info_size: u32,
        function_info: u64,
        function_info_count: u32,
        line_info_size: u32,
        line_info: u64,
        line_info_count: u32,
        attach_type: u32,
    }
    let (kind, attach_kind, attach_type) = match purpose {
        Purpose::Tracepoint(tracepoint) => (TRACING, ATTACH_RAW_TRACEPOINT, tracepoint),
        Purpose::Probe => (PROBE, 0, 0),
        Purpose::Run => (RAW_TRACEPOINT, 0, 0),
    };
    let attempt = |log: &mut [u8]| {
        let attributes = Attributes {
            kind,
            count: program.len() as u32,
            instructions: program.as_ptr(),
            licence: LICENCE.as_ptr(),
            log_level: u32::from(!log.is_empty()),
            log_length: log.len() as u32,
            log: if log.is_empty() { std::ptr::null_mut() } else { log.as_mut_ptr() },
            kernel_version: 0,
            flags: 0,
            name: *b"lockwork\0\0\0\0\0\0\0\0",
            ifindex: 0,
            attach_kind,
            types: 0,
            function_info_size: 0,
            function_info: 0,
            function_info_count: 0,
            line_info_size: 0,
            line_info: 0,
            line_info_count: 0,
            attach_type,
        };
        // SAFETY: the instructions, the licence and the log are as long as is said, or terminated.
        unsafe { open(command::PROG_LOAD, &attributes) }
    };
    attempt(&mut []).map_err(|error| {
        // Again, for the reasons, of which the last lines matter.
        let mut log = vec![0; 1 << 20];
        let _ = attempt(&mut log);
        let text: Vec<u8> = log.into_iter().take_while(|byte| *byte != 0).collect();
        (error, String::from_utf8_lossy(&text).into_owned())
    })
}

/// Has the program called from now on, for as long as the descriptor lives.
pub(crate) fn attach(program: BorrowedFd) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        name: u64,
        program: u32,
        padding: u32,
    }
    let attributes = Attributes { name: 0, program: program.as_fd().as_raw_fd() as u32, padding: 0 };
    // SAFETY: no addresses: the program has said when it was loaded where it belongs.
    unsafe { open(command::RAW_TRACEPOINT_OPEN, &attributes) }
}

/// Runs a program that was loaded for this with one argument; the lower half of its result.
pub(crate) fn run(program: BorrowedFd, argument: u64) -> io::Result<u32> {
    #[repr(C)]
    struct Attributes {
        program: u32,
        result: Cell<u32>,
        data: [u64; 3],
        repeat: u32,
        duration: u32,
        context_length: u32,
        context_out_length: u32,
        context: *const u64,
        context_out: u64,
        flags: u32,
        cpu: u32,
    }
    let attributes = Attributes {
        program: program.as_raw_fd() as u32,
        result: Cell::new(0),
        data: [0; 3],
        repeat: 0,
        duration: 0,
        context_length: size_of_val(&argument) as u32,
        context_out_length: 0,
        context: &raw const argument,
        context_out: 0,
        flags: 0,
        cpu: 0,
    };
    // SAFETY: the context is as long as is said; the result may be written to.
    unsafe { call(command::PROG_RUN, &attributes) }?;
    Ok(attributes.result.get())
}
