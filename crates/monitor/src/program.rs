//! The program that the kernel runs at every context switch while it watches, and smaller ones for threads that end and for
//! processes that execute another program.
//!
//! For the task that leaves the CPU, and then for the one that gets it, which has the same board if it has the same leader:
//!
//! ```text
//! leader = task->group_leader;
//! if (!leader || !leader->bpf_storage) next task;          // nearly all: no program keeps anything about them
//! index = task_storage(leader);                            // which board is the process's
//! board = boards[index];
//! ids = task->thread_pid;
//! tid = ids->numbers[ids->level].nr;                       // as gettid() says in its own namespace
//! state = RUNNING | PREEMPTED | SLEEPING, marked as this watch's | 0 (it is ending);
//! before = exchange(&board[HEADER + tid % ENTRIES], state << 32 | tid);
//! board[0] += (state is PREEMPTED) - (before was PREEMPTED, in this watch);
//! ```
//!
//! A thread that is ending has no id any more at its last switch, so its entry is emptied when it begins to, and stays
//! empty.
//!
//! A process that executes another program loses its board: a process that kept the former program's board
//! learns nothing of the new one, which may have more rights.
//!
//! They read the kernel's memory, by typed pointers that the verifier checks wherever possible, and no memory of any
//! process. They are assembled here, with the offsets of the running kernel, which is shorter than a build that compiles
//! them: neither building nor running the monitor needs a compiler for BPF.

mod answer;

use lockwork_platform::monitor::{ENTRIES, HEADER, PREEMPTED, RUNNING, SLEEPING, STATE_BITS};

use crate::assembler::Register::{Arg1, Arg2, Arg3, Arg4, Board, Context, Entry, Frame, Result, Task};
use crate::assembler::{Assembler, Function, Instruction, Label, Register, Width};
use crate::kernel::Kernel;

pub(crate) use answer::answer;

/// The longest nesting of PID namespaces that is followed. Threads in deeper ones are not watched.
const DEEPEST: i32 = 3;
/// `PF_EXITING`
const EXITING: i32 = 0x4;
/// A number that no board has.
const NO_BOARD: i32 = -1;
/// Where in the stack a key lies.
const KEY: i16 = -4;
/// And what was read last.
const READ: i16 = -16;

/// What the program uses: maps, by their descriptors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Maps {
    /// Which board a process has, at its first thread's task.
    pub(crate) storage: i32,
    /// The boards.
    pub(crate) boards: i32,
    /// The number of the watch.
    pub(crate) watch: i32,
}

/// Leaves the address of the element of the map in [`Arg1`] whose key is at [`KEY`] in [`Result`], or goes to `none`.
fn look_up(a: &mut Assembler, none: Label) {
    a.copy(Arg2, Frame);
    a.add(Arg2, KEY.into());
    a.call(Function::LookUp);
    a.jump_if(Result, 0, none);
}

/// Leaves bytes of the kernel's memory in [`Arg1`]; zero if they cannot be read. For addresses whose content the
/// verifier does not know.
fn read(a: &mut Assembler, bytes: i32, base: Register, offset: i16) {
    a.copy(Arg3, base);
    a.add(Arg3, offset.into());
    a.set(Arg1, 0);
    a.store(Width::Double, Frame, READ, Arg1);
    a.copy(Arg1, Frame);
    a.add(Arg1, READ.into());
    a.set(Arg2, bytes);
    a.call(Function::ReadKernel);
    a.load(Width::Double, Arg1, Frame, READ);
}

/// Leaves the address of the number of the board of the process whose task is in [`Arg2`] in [`Result`], or goes to `none`.
fn find_number(a: &mut Assembler, maps: &Maps, none: Label) {
    a.set_map(Arg1, maps.storage);
    a.set(Arg3, 0);
    a.set(Arg4, 0);
    a.call(Function::TaskStorage);
    a.jump_if(Result, 0, none);
}

/// Sets [`Board`] to the board of [`Task`], or goes to `none`.
fn find_board(a: &mut Assembler, kernel: &Kernel, maps: &Maps, none: Label) {
    a.load(Width::Double, Arg2, Task, kernel.group_leader);
    a.jump_if(Arg2, 0, none);
    a.load(Width::Double, Arg1, Arg2, kernel.bpf_storage);
    a.jump_if(Arg1, 0, none);
    find_number(a, maps, none);
    a.load(Width::Word, Arg1, Result, 0);
    a.store(Width::Word, Frame, KEY, Arg1);
    a.set_map(Arg1, maps.boards);
    look_up(a, none);
    a.copy(Board, Result);
}

/// Sets [`Task`], which is a task, to its id in its own namespace, or goes to `none`.
fn find_id(a: &mut Assembler, kernel: &Kernel, none: Label) {
    let found = a.label();
    a.load(Width::Double, Arg2, Task, kernel.thread_pid);
    a.jump_if(Arg2, 0, none);
    a.load(Width::Word, Arg1, Arg2, kernel.level);
    // A typed pointer takes only constant offsets, and before Linux 6.5 only that of the first id.
    for level in 0..=DEEPEST {
        let next = a.label();
        let number = kernel.numbers + kernel.upid_size * level as i16 + kernel.nr;
        a.jump_unless(Arg1, level, next);
        if level == 0 {
            a.load(Width::Word, Task, Arg2, number);
        } else {
            read(a, 4, Arg2, number);
            a.copy(Task, Arg1);
        }
        a.jump(found);
        a.place(next);
    }
    a.jump(none);
    a.place(found);
    a.jump_if(Task, 0, none);
}

/// Sets `to` to the number of the watch, in its place in an entry.
fn find_watch(a: &mut Assembler, maps: &Maps, to: Register) {
    a.set_first_value(to, maps.watch);
    a.load(Width::Word, to, to, 0);
    a.shift_left(to, 32 + STATE_BITS as i32);
}

/// Puts [`Entry`], a state, with the id of [`Task`], on the process's board.
fn publish(a: &mut Assembler, kernel: &Kernel, maps: &Maps, done: Label) {
    find_id(a, kernel, done);
    let ending = a.label();
    a.jump_if(Entry, 0, ending);
    find_watch(a, maps, Arg1);
    a.or(Entry, Arg1);
    a.or(Entry, Task);
    a.place(ending);
    a.and(Task, ENTRIES as i32 - 1);
    a.add(Task, HEADER as i32);
    a.store(Width::Word, Frame, KEY, Task);
    a.copy(Arg1, Board);
    look_up(a, done);
    // Task: the change of the number of preempted threads.
    let (is_not, was_not) = (a.label(), a.label());
    a.set(Task, 0);
    find_watch(a, maps, Arg2);
    a.shift_right(Arg2, 32);
    a.add(Arg2, PREEMPTED as i32);
    a.copy(Arg1, Entry);
    a.shift_right(Arg1, 32);
    a.jump_if_differ(Arg1, Arg2, is_not);
    a.add(Task, 1);
    a.place(is_not);
    a.exchange(Result, Entry);
    a.shift_right(Entry, 32);
    a.jump_if_differ(Entry, Arg2, was_not);
    a.add(Task, -1);
    a.place(was_not);
    a.jump_if(Task, 0, done);
    a.set(Arg1, 0);
    a.store(Width::Word, Frame, KEY, Arg1);
    a.copy(Arg1, Board);
    look_up(a, done);
    a.add_to(Result, Task);
}

/// The state of an entry, in its place.
fn in_place(state: u32) -> u64 {
    u64::from(state) << 32
}

/// Sets [`Entry`] to nothing if [`Task`] is ending, and goes to `judged`.
fn judge_ending(a: &mut Assembler, kernel: &Kernel, judged: Label) {
    a.set_wide(Entry, 0);
    a.load(Width::Word, Arg1, Task, kernel.flags);
    a.and(Arg1, EXITING);
    a.jump_unless(Arg1, 0, judged);
}

/// Sets [`Entry`] to what the task that leaves the CPU becomes.
fn judge(a: &mut Assembler, kernel: &Kernel) {
    let judged = a.label();
    judge_ending(a, kernel, judged);
    a.set_wide(Entry, in_place(PREEMPTED));
    a.load(Width::Double, Arg1, Context, 0); // whether the kernel itself was preempted
    a.jump_unless(Arg1, 0, judged);
    a.load(Width::Word, Arg1, Task, kernel.state);
    a.jump_if(Arg1, 0, judged);
    a.set_wide(Entry, in_place(SLEEPING));
    a.place(judged);
}

/// The program for the tracepoint `sched_switch(bool preempt, struct task_struct *prev, struct task_struct *next, …)`.
pub(crate) fn sched_switch(kernel: &Kernel, maps: &Maps) -> Vec<Instruction> {
    let mut a = Assembler::default();
    let (told, next, found, judged, done) = (a.label(), a.label(), a.label(), a.label(), a.label());
    a.copy(Context, Arg1);
    a.load(Width::Double, Task, Context, 8);
    find_board(&mut a, kernel, maps, next);
    judge(&mut a, kernel);
    publish(&mut a, kernel, maps, told);
    a.place(told);
    // To find a board is most of the work, and the other thread is often of the same process.
    a.load(Width::Double, Arg1, Context, 8);
    a.load(Width::Double, Arg1, Arg1, kernel.group_leader);
    a.load(Width::Double, Task, Context, 16);
    a.load(Width::Double, Arg2, Task, kernel.group_leader);
    a.jump_if_same(Arg1, Arg2, found);
    a.place(next);
    a.load(Width::Double, Task, Context, 16);
    find_board(&mut a, kernel, maps, done);
    a.place(found);
    judge_ending(&mut a, kernel, judged);
    a.set_wide(Entry, in_place(RUNNING));
    a.place(judged);
    publish(&mut a, kernel, maps, done);
    a.place(done);
    a.set(Result, 0);
    a.exit();
    a.finish()
}

/// The program for the tracepoint `sched_process_exit(struct task_struct *task, …)`.
pub(crate) fn sched_process_exit(kernel: &Kernel, maps: &Maps) -> Vec<Instruction> {
    let mut a = Assembler::default();
    let done = a.label();
    a.load(Width::Double, Task, Arg1, 0);
    find_board(&mut a, kernel, maps, done);
    a.set_wide(Entry, 0);
    publish(&mut a, kernel, maps, done);
    a.place(done);
    a.set(Result, 0);
    a.exit();
    a.finish()
}

/// The program for the tracepoint `sched_process_exec(struct task_struct *task, …)`, where the process has one thread,
/// its first.
pub(crate) fn sched_process_exec(kernel: &Kernel, maps: &Maps) -> Vec<Instruction> {
    let mut a = Assembler::default();
    let (forget, done) = (a.label(), a.label());
    a.copy(Context, Arg1);
    a.load(Width::Double, Task, Context, 0);
    find_board(&mut a, kernel, maps, forget);
    a.set_wide(Entry, 0);
    publish(&mut a, kernel, maps, forget);
    a.place(forget);
    a.load(Width::Double, Arg2, Context, 0);
    find_number(&mut a, maps, done);
    // The storage cannot be deleted while something else on this CPU is busy with it, but it can be written to.
    a.set(Arg1, NO_BOARD);
    a.store(Width::Word, Result, 0, Arg1);
    a.set_map(Arg1, maps.storage);
    a.load(Width::Double, Arg2, Context, 0);
    a.call(Function::DeleteTaskStorage);
    a.place(done);
    a.set(Result, 0);
    a.exit();
    a.finish()
}

/// Leaves the board whose number is the program's first argument in [`Result`], or goes to `none`.
fn find_board_of_number(a: &mut Assembler, maps: &Maps, none: Label) {
    a.load(Width::Double, Arg1, Arg1, 0);
    a.store(Width::Word, Frame, KEY, Arg1);
    a.set_map(Arg1, maps.boards);
    look_up(a, none);
}

/// The program that is run to know how many use the board whose number is its first argument; 0 if there is no such board.
pub(crate) fn users_of_board(kernel: &Kernel, maps: &Maps) -> Vec<Instruction> {
    let mut a = Assembler::default();
    let none = a.label();
    find_board_of_number(&mut a, maps, none);
    a.load(Width::Double, Result, Result, kernel.users);
    a.place(none);
    a.exit();
    a.finish()
}

/// The program that is run to have no thread count as preempted on the board whose number is its first argument.
pub(crate) fn clear_count(maps: &Maps) -> Vec<Instruction> {
    let mut a = Assembler::default();
    let none = a.label();
    find_board_of_number(&mut a, maps, none);
    a.set(Arg1, 0);
    a.store(Width::Word, Frame, KEY, Arg1);
    a.copy(Arg1, Result);
    look_up(&mut a, none);
    a.set(Arg1, 0);
    a.exchange(Result, Arg1);
    a.place(none);
    a.set(Result, 0);
    a.exit();
    a.finish()
}
