//! The programs in the kernel, and the boards they write.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use lockwork_platform::monitor::{ANSWERS, ENTRIES, HEADER};

use crate::assembler::Instruction;
use crate::bpf::{self, MMAPABLE, MapKind, MapShape, NO_PREALLOC, Purpose};
use crate::kernel::Kernel;
use crate::probe::{Answers, Probe};
use crate::program::{self, Maps};
use crate::{BOARDS, Obstacle};

/// A board: see `lockwork_platform::monitor`.
const BOARD: MapShape = MapShape {
    kind: MapKind::Array,
    value_size: 8,
    entries: (HEADER + ENTRIES + ANSWERS) as u32,
    flags: MMAPABLE,
};

/// The programs, accepted by the kernel, and their maps.
#[derive(Debug)]
pub(crate) struct Loaded {
    switch: OwnedFd,
    exit: OwnedFd,
    exec: OwnedFd,
    /// Or why the probe cannot be answered.
    answer: Result<OwnedFd, Obstacle>,
    /// Where the kernel refuses it, it is not known which boards of ended processes are kept.
    users: Option<OwnedFd>,
    clear: OwnedFd,
    storage: OwnedFd,
    boards: OwnedFd,
    watch: OwnedFd,
}

impl Loaded {
    pub(crate) fn new() -> Result<Self, Obstacle> {
        let (kernel, paths) = Kernel::read()?;
        let refused = |what| move |error| Obstacle::Refused(what, error, String::new());
        let template = bpf::create_map(BOARD, None, None).map_err(first_refusal)?;
        let shape = MapShape { kind: MapKind::ArrayOfMaps, value_size: 4, entries: BOARDS, flags: 0 };
        let boards =
            bpf::create_map(shape, Some(template.as_fd()), None).map_err(refused("a map of maps"))?;
        let types = bpf::load_types().map_err(refused("a description of types"))?;
        let shape = MapShape { kind: MapKind::TaskStorage, value_size: 4, entries: 0, flags: NO_PREALLOC };
        let storage = bpf::create_map(shape, None, Some(types.as_fd()))
            .map_err(refused("storage that belongs to tasks"))?;
        let shape = MapShape { kind: MapKind::Array, value_size: 4, entries: 1, flags: 0 };
        let watch = bpf::create_map(shape, None, None).map_err(refused("a map"))?;
        let maps =
            Maps { storage: storage.as_raw_fd(), boards: boards.as_raw_fd(), watch: watch.as_raw_fd() };
        let load = |program: Vec<Instruction>, purpose| {
            let refused = |(error, log)| Obstacle::Refused("the program", error, log);
            bpf::load_program(&program, purpose).map_err(refused)
        };
        let at = Purpose::Tracepoint;
        let switch = load(program::sched_switch(&kernel, &maps), at(kernel.sched_switch))?;
        let exit = load(program::sched_process_exit(&kernel, &maps), at(kernel.sched_process_exit))?;
        let exec = load(program::sched_process_exec(&kernel, &maps), at(kernel.sched_process_exec))?;
        let answer = paths.and_then(|paths| load(program::answer(&kernel, &paths, &maps), Purpose::Probe));
        let users = load(program::users_of_board(&kernel, &maps), Purpose::Run).ok();
        let clear = load(program::clear_count(&maps), Purpose::Run)?;
        Ok(Self { switch, exit, exec, answer, users, clear, storage, boards, watch })
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

/// What the kernel keeps until this is dropped. It forgets by itself a process that ends or executes another program.
#[derive(Debug)]
pub(crate) struct Watch {
    loaded: Loaded,
    /// While they are open, the programs are called.
    _links: [OwnedFd; 2],
}

/// The program being called at every context switch, until this is dropped.
#[derive(Debug)]
pub(crate) struct Switches {
    _link: OwnedFd,
}

impl Watch {
    /// Loads the programs and has those called that forget: at the end of every thread, and whenever a process executes
    /// another program.
    ///
    /// # Errors
    ///
    /// Why that is not possible.
    pub(crate) fn start() -> Result<Self, Obstacle> {
        let loaded = Loaded::new()?;
        let attach = |program: &OwnedFd| {
            let refused = |error| Obstacle::Refused("to call the program", error, String::new());
            bpf::attach(program.as_fd()).map_err(refused)
        };
        let links = [attach(&loaded.exit)?, attach(&loaded.exec)?];
        // To find out that it can be done.
        drop(attach(&loaded.switch)?);
        Ok(Self { loaded, _links: links })
    }

    /// Has calls of the probe answered.
    ///
    /// # Errors
    ///
    /// Why that is not possible, in words.
    pub(crate) fn answer(&self, probe: &Probe) -> Result<Answers, String> {
        let program = self.loaded.answer.as_ref().map_err(Obstacle::to_string)?;
        probe.answer(program.as_fd()).map_err(|error| format!("the kernel refuses a uprobe ({error})"))
    }

    /// Has boards written to from now on, in the name of the watch `number`: those that are already shown have these
    /// numbers. Takes some milliseconds.
    pub(crate) fn switches(&self, number: u32, boards: impl Iterator<Item = u32>) -> io::Result<Switches> {
        bpf::update(self.loaded.watch.as_fd(), 0, number)?;
        for board in boards {
            bpf::run(self.loaded.clear.as_fd(), board.into())?;
        }
        Ok(Switches { _link: bpf::attach(self.loaded.switch.as_fd())? })
    }

    /// Makes a fresh board, which only the program can write to. It belongs to nobody yet.
    pub(crate) fn make_board() -> io::Result<Board> {
        let map = bpf::create_map(BOARD, None, None)?;
        bpf::freeze(map.as_fd())?;
        Ok(Board(map))
    }

    /// Gives a process the number `number`, until it ends or executes another program. Its threads are shown on the
    /// board of that number, as soon as there is one.
    pub(crate) fn assign(&self, process: BorrowedFd, number: u32) -> io::Result<()> {
        bpf::update(self.loaded.storage.as_fd(), process.as_raw_fd() as u32, number)
    }

    /// The number that a process has.
    pub(crate) fn number_of(&self, process: BorrowedFd) -> Option<u32> {
        bpf::look_up(self.loaded.storage.as_fd(), process.as_raw_fd() as u32).ok()
    }

    /// Takes the number from a process, if it has one.
    pub(crate) fn take_from(&self, process: BorrowedFd) {
        // It fails where there is nothing to take.
        let _ = bpf::delete(self.loaded.storage.as_fd(), process.as_raw_fd() as u32);
    }

    /// Has what is known of processes with this number written to `board` from now on. Takes some milliseconds.
    pub(crate) fn show(&self, number: u32, board: &Board) -> io::Result<()> {
        bpf::update(self.loaded.boards.as_fd(), number, board.0.as_raw_fd() as u32)
    }

    /// Whether somebody has a descriptor of the board of this number, or has it mapped.
    pub(crate) fn is_kept(&self, number: u32) -> bool {
        /// The kernel itself, which has it by the number.
        const NOBODY_ELSE: u32 = 1;
        let Some(program) = &self.loaded.users else { return false };
        bpf::run(program.as_fd(), number.into()).is_ok_and(|users| users > NOBODY_ELSE)
    }

    /// Has it written nowhere any more. Takes some milliseconds, after which no program is at work on the board.
    pub(crate) fn hide(&self, number: u32) {
        // It fails where there is nothing to hide.
        let _ = bpf::delete(self.loaded.boards.as_fd(), number);
    }
}

/// A process's board. (By a descriptor opened for reading it could not be mapped: the kernel wants a shared mapping,
/// and takes one of such a file for a private one. It is the map itself that refuses to be written to.)
#[derive(Debug)]
pub(crate) struct Board(OwnedFd);

impl Board {
    /// The same board.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// The client's descriptor, for reading only.
    pub(crate) fn readable(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
