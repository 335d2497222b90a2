//! Where the running kernel keeps what the program reads, by its own description of its types (BTF).

use std::fs;

use btf_rs::{Btf, BtfType, Type};

use crate::Obstacle;

const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// What the program has to know of this kernel: offsets are in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    /// The type that stands for the tracepoint `sched_switch`.
    pub(crate) sched_switch: u32,
    /// The same for `sched_process_exit`, which every thread comes by.
    pub(crate) sched_process_exit: u32,
    /// And for `sched_process_exec`, which a process comes by when it begins to run another program.
    pub(crate) sched_process_exec: u32,
    /// `task_struct.group_leader`: the process, as it were.
    pub(crate) group_leader: i16,
    /// `task_struct.bpf_storage`: null for a task about which no program keeps anything.
    pub(crate) bpf_storage: i16,
    /// `task_struct.__state`, before Linux 5.14 `state`: 0 is runnable.
    pub(crate) state: i16,
    /// `task_struct.flags`: among others whether it is ending.
    pub(crate) flags: i16,
    /// `task_struct.thread_pid`, the thread's ids.
    pub(crate) thread_pid: i16,
    /// `pid.level`: how deep its namespace is nested.
    pub(crate) level: i16,
    /// `pid.numbers`: an id for each level.
    pub(crate) numbers: i16,
    /// The size of one of them.
    pub(crate) upid_size: i16,
    /// `upid.nr`, the id.
    pub(crate) nr: i16,
    /// `bpf_map.refcnt`, how many use the map, in a map that is an array.
    pub(crate) users: i16,
}

/// What the program that answers single questions has to know beyond that. Offsets are in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paths {
    /// `task_struct.on_cpu`
    pub(crate) on_cpu: i16,
    /// `upid.ns`, the namespace that the id is of.
    pub(crate) namespace: i16,
    /// `pid_namespace.idr`: in it, where the tree of ids begins.
    pub(crate) tree: i16,
    /// `xa_node.shift`: how many last bits of an id the node does not look at.
    pub(crate) shift: i16,
    /// `xa_node.slots`
    pub(crate) slots: i16,
    /// How many there are, a power of two.
    pub(crate) slots_of_node: i16,
    /// `pid.tasks`, of which the first is the list of the thread itself.
    pub(crate) first: i16,
    /// `task_struct.pid_links`, of which the first is linked there.
    pub(crate) links: i16,
}

impl Kernel {
    pub(crate) fn read() -> Result<(Self, Result<Paths, Obstacle>), Obstacle> {
        let bytes = fs::read(TYPES).map_err(|error| Obstacle::NoTypes(error.to_string()))?;
        let types = Btf::from_bytes(&bytes).map_err(|error| Obstacle::NoTypes(error.to_string()))?;
        let missing = |what: &str| Obstacle::OtherTypes(what.to_owned());
        let offset = |structure: &str, member: &str| {
            let found = offset_of(&types, structure, member).and_then(|bits| i16::try_from(bits / 8).ok());
            found.ok_or_else(|| missing(&format!("{structure}.{member}")))
        };
        let tracepoint = |name: &str| {
            let is_typedef = |id: &u32| matches!(types.resolve_type_by_id(*id), Ok(Type::Typedef(_)));
            let ids = types.resolve_ids_by_name(name).unwrap_or_default();
            ids.into_iter().find(is_typedef).ok_or_else(|| missing(name))
        };
        let upid = structure(&types, "upid").ok_or_else(|| missing("upid"))?;
        let paths = || {
            let slots = offset("xa_node", "slots")?;
            Ok(Paths {
                on_cpu: offset("task_struct", "on_cpu")?,
                namespace: offset("upid", "ns")?,
                tree: offset("pid_namespace", "idr")?
                    + offset("idr", "idr_rt")?
                    + offset("xarray", "xa_head")?,
                shift: offset("xa_node", "shift")?,
                slots,
                // What comes next is a union of two names.
                slots_of_node: (offset("xa_node", "marks")? - slots) / size_of::<u64>() as i16,
                first: offset("pid", "tasks")?,
                links: offset("task_struct", "pid_links")?,
            })
        };
        let kernel = Self {
            sched_switch: tracepoint("btf_trace_sched_switch")?,
            sched_process_exit: tracepoint("btf_trace_sched_process_exit")?,
            sched_process_exec: tracepoint("btf_trace_sched_process_exec")?,
            group_leader: offset("task_struct", "group_leader")?,
            bpf_storage: offset("task_struct", "bpf_storage")?,
            state: offset("task_struct", "__state").or_else(|_| offset("task_struct", "state"))?,
            flags: offset("task_struct", "flags")?,
            thread_pid: offset("task_struct", "thread_pid")?,
            level: offset("pid", "level")?,
            numbers: offset("pid", "numbers")?,
            upid_size: upid.size() as i16,
            nr: offset("upid", "nr")?,
            users: offset("bpf_array", "map")? + offset("bpf_map", "refcnt")?,
        };
        Ok((kernel, paths()))
    }
}

fn structure(types: &Btf, name: &str) -> Option<btf_rs::Struct> {
    types.resolve_types_by_name(name).ok()?.into_iter().find_map(|found| match found {
        Type::Struct(found) => Some(found),
        _ => None,
    })
}

/// In bits, also through members without a name.
fn offset_of(types: &Btf, name: &str, member: &str) -> Option<u32> {
    within(types, &structure(types, name)?, member)
}

fn within(types: &Btf, outer: &btf_rs::Struct, member: &str) -> Option<u32> {
    outer.members.iter().find_map(|each| {
        let name = types.resolve_name(each).unwrap_or_default();
        if name == member {
            return Some(each.bit_offset());
        }
        if !name.is_empty() {
            return None;
        }
        match types.resolve_type_by_id(each.get_type_id()?) {
            Ok(Type::Struct(inner) | Type::Union(inner)) => {
                Some(each.bit_offset() + within(types, &inner, member)?)
            }
            _ => None,
        }
    })
}
