//! The program that answers a waiter's call of the probe: whether one thread of its process is on a CPU.
//!
//! ```text
//! asked = the first argument;  place = HEADER + ENTRIES + the second % ANSWERS;  number = the second / ANSWERS;
//! board = boards[task_storage(current->group_leader)];     // as at a context switch; without one there is no answer
//! ids = current->thread_pid;
//! namespace = ids->numbers[ids->level].ns;
//! pid = look up asked in namespace->idr;                   // a tree of nodes with 64 slots each
//! task = pid->tasks[PIDTYPE_PID].first;
//! if (pid->numbers[ids->level].nr == asked && task->group_leader == current->group_leader)
//!     state = task->on_cpu ? RUNNING : task->__state == 0 ? PREEMPTED : SLEEPING;
//! board[place] = number, state, asked;                     // no state if there is no such thread
//! ```
//!
//! The kernel has functions that find a thread by its id, but not for programs of this kind. The thread may be ending
//! meanwhile: RCU protects what is followed from being freed, as for the kernel's own readers of the tree, and it is
//! read by a function that survives any address.

use lockwork_platform::monitor::{ANSWERS, ENTRIES, HEADER, PREEMPTED, RUNNING, SLEEPING, STATE_BITS};

use super::{DEEPEST, KEY, Maps, find_board, in_place, look_up, read};
use crate::assembler::Register::{Arg1, Arg2, Arg3, Board, Context, Entry, Frame, Result, Task};
use crate::assembler::{Assembler, Function, Instruction, Label, Width};
use crate::kernel::{Kernel, Paths};

/// Where the registers of the caller keep its first arguments.
#[cfg(target_arch = "x86_64")]
const ARGUMENTS: [i16; 2] = [112, 104];
#[cfg(target_arch = "aarch64")]
const ARGUMENTS: [i16; 2] = [0, 8];

/// Where in the stack the place of the answer lies.
const PLACE: i16 = -8;
/// The process.
const LEADER: i16 = -24;
/// The number of the answer, in its place.
const NUMBER: i16 = -32;
/// The greatest height of a tree of ids, which have 22 bits, by slots of the smallest nodes.
const HEIGHT: usize = 6;
/// The last bits of what a slot holds if that is another node.
const IS_NODE: i32 = 2;

/// The program for the probe, called with a thread's id and a number of the caller's choice.
pub(crate) fn answer(kernel: &Kernel, paths: &Paths, maps: &Maps) -> Vec<Instruction> {
    let mut a = Assembler::default();
    let (unknown, done) = (a.label(), a.label());
    a.load(Width::Double, Arg2, Arg1, ARGUMENTS[1]);
    a.copy(Arg3, Arg2);
    a.shift_left(Arg3, 32);
    a.shift_right(Arg3, 32 + ANSWERS.ilog2() as i32);
    a.shift_left(Arg3, 32 + STATE_BITS as i32);
    a.store(Width::Double, Frame, NUMBER, Arg3);
    a.and(Arg2, ANSWERS as i32 - 1);
    a.add(Arg2, (HEADER + ENTRIES) as i32);
    a.store(Width::Word, Frame, PLACE, Arg2);
    a.load(Width::Double, Entry, Arg1, ARGUMENTS[0]);
    a.shift_left(Entry, 32);
    a.shift_right(Entry, 32);
    a.call(Function::CurrentTaskTyped);
    a.copy(Task, Result);
    find_board(&mut a, kernel, maps, done);
    find_tree(&mut a, kernel, paths, unknown);
    find_ids(&mut a, paths, unknown);
    find_task(&mut a, kernel, paths, unknown);
    judge(&mut a, kernel, paths);
    a.place(unknown);
    a.load(Width::Double, Arg1, Frame, NUMBER);
    a.or(Entry, Arg1);
    a.load(Width::Word, Arg1, Frame, PLACE);
    a.store(Width::Word, Frame, KEY, Arg1);
    a.copy(Arg1, Board);
    look_up(&mut a, done);
    a.store(Width::Double, Result, 0, Entry);
    a.place(done);
    a.set(Result, 0);
    a.exit();
    a.finish()
}

/// Turns [`Task`], the caller's, into what the tree of the ids in its namespace begins with, and sets [`Context`] to where
/// an id of that namespace lies in a thread's ids.
fn find_tree(a: &mut Assembler, kernel: &Kernel, paths: &Paths, unknown: Label) {
    let found = a.label();
    a.load(Width::Double, Arg2, Task, kernel.thread_pid);
    a.jump_if(Arg2, 0, unknown);
    a.load(Width::Word, Arg1, Arg2, kernel.level);
    // As in `find_id`.
    for level in 0..=DEEPEST {
        let next = a.label();
        let number = kernel.numbers + kernel.upid_size * level as i16;
        a.jump_unless(Arg1, level, next);
        a.set(Context, (number + kernel.nr).into());
        read(a, 8, Arg2, number + paths.namespace);
        a.jump(found);
        a.place(next);
    }
    a.jump(unknown);
    a.place(found);
    a.jump_if(Arg1, 0, unknown);
    read(a, 8, Arg1, paths.tree);
    a.copy(Task, Arg1);
}

/// Turns [`Task`], the beginning of the tree, into the ids of the thread asked for, whose id [`Entry`] is.
fn find_ids(a: &mut Assembler, paths: &Paths, unknown: Label) {
    let leaf = a.label();
    for _ in 0..HEIGHT {
        a.copy(Arg1, Task);
        a.and(Arg1, 3);
        a.jump_unless(Arg1, IS_NODE, leaf);
        a.add(Task, -IS_NODE);
        read(a, 1, Task, paths.shift);
        a.and(Arg1, 63);
        a.copy(Arg2, Entry);
        a.shift_right_by(Arg2, Arg1);
        a.and(Arg2, i32::from(paths.slots_of_node) - 1);
        a.shift_left(Arg2, 3);
        a.add_register(Task, Arg2);
        read(a, 8, Task, paths.slots);
        a.copy(Task, Arg1);
    }
    a.place(leaf);
    a.jump_if(Task, 0, unknown);
    // What lies where the id would lie may be another's, or no id at all.
    a.add_register(Context, Task);
    read(a, 4, Context, 0);
    a.jump_if_differ(Arg1, Entry, unknown);
}

/// Turns [`Task`], the ids, into the thread, if it is one of the caller's process.
fn find_task(a: &mut Assembler, kernel: &Kernel, paths: &Paths, unknown: Label) {
    read(a, 8, Task, paths.first);
    a.jump_if(Arg1, 0, unknown);
    a.add(Arg1, -i32::from(paths.links));
    a.copy(Task, Arg1);
    read(a, 8, Task, kernel.group_leader);
    a.store(Width::Double, Frame, LEADER, Arg1);
    a.call(Function::CurrentTask);
    read(a, 8, Result, kernel.group_leader);
    a.load(Width::Double, Arg2, Frame, LEADER);
    a.jump_if_differ(Arg1, Arg2, unknown);
}

/// Adds the state of [`Task`] to [`Entry`].
fn judge(a: &mut Assembler, kernel: &Kernel, paths: &Paths) {
    let (judged, is_off, sleeps) = (a.label(), a.label(), a.label());
    read(a, 4, Task, paths.on_cpu);
    a.jump_if(Arg1, 0, is_off);
    a.set_wide(Arg2, in_place(RUNNING));
    a.jump(judged);
    a.place(is_off);
    read(a, 4, Task, kernel.state);
    a.jump_unless(Arg1, 0, sleeps);
    a.set_wide(Arg2, in_place(PREEMPTED));
    a.jump(judged);
    a.place(sleeps);
    a.set_wide(Arg2, in_place(SLEEPING));
    a.place(judged);
    a.or(Entry, Arg2);
}
