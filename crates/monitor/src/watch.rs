//! The programs in the kernel, and the boards they write.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use lockwork_platform::monitor::{ENTRIES, HEADER};

use crate::bpf::{self, MMAPABLE, MapKind, MapShape, NO_PREALLOC};
use crate::kernel::Kernel;
use crate::program::{self, Instruction, Maps};
use crate::{BOARDS, Obstacle};

/// A board: see `lockwork_platform::monitor`.
const BOARD: MapShape =
    MapShape { kind: MapKind::Array, value_size: 8, entries: (HEADER + ENTRIES) as u32, flags: MMAPABLE };

/// The programs, accepted by the kernel, and their maps.
#[derive(Debug)]
pub(crate) struct Loaded {
    programs: [OwnedFd; 2],
    storage: OwnedFd,
    boards: OwnedFd,
}

impl Loaded {
    pub(crate) fn new() -> Result<Self, Obstacle> {
        let kernel = Kernel::read()?;
        let refused = |what| move |error| Obstacle::Refused(what, error, String::new());
        let template = bpf::create_map(BOARD, None, None).map_err(first_refusal)?;
        let shape = MapShape { kind: MapKind::ArrayOfMaps, value_size: 4, entries: BOARDS, flags: 0 };
        let boards =
            bpf::create_map(shape, Some(template.as_fd()), None).map_err(refused("a map of maps"))?;
        let types = bpf::load_types().map_err(refused("a description of types"))?;
        let shape = MapShape { kind: MapKind::TaskStorage, value_size: 4, entries: 0, flags: NO_PREALLOC };
        let storage = bpf::create_map(shape, None, Some(types.as_fd()))
            .map_err(refused("storage that belongs to tasks"))?;
        let maps = Maps { storage: storage.as_raw_fd(), boards: boards.as_raw_fd() };
        let load = |program: Vec<Instruction>, tracepoint| {
            let refused = |(error, log)| Obstacle::Refused("the program", error, log);
            bpf::load_program(&program, tracepoint).map_err(refused)
        };
        let switch = load(program::sched_switch(&kernel, &maps), kernel.sched_switch)?;
        let exit = load(program::sched_process_exit(&kernel, &maps), kernel.sched_process_exit)?;
        Ok(Self { programs: [switch, exit], storage, boards })
    }
}

/// Without the privilege, or without BPF, the very first command fails.
fn first_refusal(error: io::Error) -> Obstacle {
    match error.raw_os_error() {
        Some(libc::EPERM) if !rustix::process::geteuid().is_root() => Obstacle::NoPrivilege,
        Some(libc::EPERM | libc::ENOSYS) => Obstacle::NoBpf(error),
        _ => Obstacle::Refused("a map", error, String::new()),
    }
}

/// The scheduler being watched, until this is dropped.
#[derive(Debug)]
pub struct Watch {
    loaded: Loaded,
    /// While they are open, the programs are called.
    _links: [OwnedFd; 2],
}

impl Watch {
    /// Loads the programs and has them called, at every context switch and at the end of every thread.
    ///
    /// # Errors
    ///
    /// Why that is not possible.
    pub fn start() -> Result<Self, Obstacle> {
        let loaded = Loaded::new()?;
        let attach = |program: &OwnedFd| {
            let refused = |error| Obstacle::Refused("to call the program", error, String::new());
            bpf::attach(program.as_fd()).map_err(refused)
        };
        let [switch, exit] = &loaded.programs;
        // First the end: nobody is shown who might stay.
        let links = [attach(exit)?, attach(switch)?];
        Ok(Self { loaded, _links: links })
    }

    /// Makes a fresh board, which only the program can write to. It belongs to nobody yet.
    pub(crate) fn make_board() -> io::Result<Board> {
        let map = bpf::create_map(BOARD, None, None)?;
        bpf::freeze(map.as_fd())?;
        Ok(Board(map))
    }

    /// Has the threads of a process shown on `board`, which is number `number` from now on.
    pub(crate) fn show(&self, process: BorrowedFd, number: u32, board: &Board) -> io::Result<()> {
        bpf::update(self.loaded.boards.as_fd(), number, board.0.as_raw_fd() as u32)?;
        bpf::update(self.loaded.storage.as_fd(), process.as_raw_fd() as u32, number)
    }

    /// Frees a number whose process has ended.
    pub(crate) fn free(&self, number: u32) -> io::Result<()> {
        bpf::delete(self.loaded.boards.as_fd(), number)
    }
}

/// A process's board. (By a descriptor opened for reading it could not be mapped: the kernel wants a shared mapping, and takes one of
/// such a file for a private one. It is the map itself that refuses to be written to.)
#[derive(Debug)]
pub(crate) struct Board(OwnedFd);

impl Board {
    /// The same board.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// For the client, who can only read.
    pub(crate) fn readable(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
