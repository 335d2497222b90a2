//! The same machine with one figure changed that nobody publishes, or that differs from one measurement to the next.

use super::{Arbitration, Machine, Os};

/// What wakes cost.
fn wakes(os: &mut Os) -> [&mut u64; 6] {
    [
        &mut os.wake,
        &mut os.wake_latency,
        &mut os.wake_polled,
        &mut os.wake_latency_polled,
        &mut os.wake_own,
        &mut os.preempt_latency,
    ]
}

impl Machine {
    /// The machine with one uncertain figure changed, each with a name. Those that would be the machine as it is are left out.
    #[must_use]
    pub fn variants(&self) -> Vec<(&'static str, Self)> {
        let with = |change: &dyn Fn(&mut Self)| {
            let mut variant = self.clone();
            change(&mut variant);
            variant
        };
        let times = |cycles: &mut u64, factor: f64| *cycles = (*cycles as f64 * factor) as u64;
        let memory = |machine: &mut Self, factor| {
            times(&mut machine.memory.dram, factor);
            times(&mut machine.memory.dram_remote, factor);
        };
        let kernel = |machine: &mut Self, factor| {
            let os = &mut machine.os;
            wakes(os).into_iter().for_each(|cost| times(cost, factor));
            for cost in [
                &mut os.context_switch,
                &mut os.process_switch,
                &mut os.syscall,
                &mut os.round_trip,
                &mut os.migration,
            ] {
                times(cost, factor);
            }
        };
        let mut all = vec![
            ("short requests", with(&|m| m.memory.request_share = 0.2)),
            ("long requests", with(&|m| m.memory.request_share = 0.6)),
            ("first come, first served", with(&|m| m.memory.arbitration = Arbitration::Fifo)),
            ("nearest first", with(&|m| m.memory.arbitration = Arbitration::Nearest)),
            ("served by chance", with(&|m| m.memory.arbitration = Arbitration::Random)),
            ("migratory lines", with(&|m| m.memory.migratory = true)),
            ("dear invalidations", with(&|m| m.memory.invalidate = m.memory.invalidate.max(1) * 5)),
            ("fast memory", with(&|m| memory(m, 0.5))),
            ("slow memory", with(&|m| memory(m, 2.0))),
            ("long pauses", with(&|m| m.core.pause *= 4)),
            ("fast atomics", with(&|m| times(&mut m.core.atomic, 0.5))),
            ("slow atomics", with(&|m| times(&mut m.core.atomic, 2.0))),
            ("one store at a time", with(&|m| m.core.store_buffer = 1)),
            ("one load at a time", with(&|m| m.core.loads = 1)),
            ("fast kernel", with(&|m| kernel(m, 0.5))),
            ("slow kernel", with(&|m| kernel(m, 2.0))),
            // What a wake-up takes in all is then some 25,000 cycles, within what CST's paper measured (section 3).
            ("slow wake-ups", with(&|m| wakes(&mut m.os).into_iter().for_each(|cost| times(cost, 5.0)))),
        ];
        if self.threads_per_core > 1 {
            all.push(("strong hyper-threads", with(&|m| m.core.smt_slowdown = 1.1)));
            all.push(("weak hyper-threads", with(&|m| m.core.smt_slowdown = 2.0)));
        }
        all.retain(|(_, variant)| variant != self);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::library;

    #[test]
    fn each_variant_is_another_machine_that_a_file_could_describe() {
        for machine in library() {
            let variants = machine.variants();
            for (index, (name, variant)) in variants.iter().enumerate() {
                assert_ne!(*variant, machine, "{name}");
                assert!(
                    variants[..index].iter().all(|(_, other)| other != variant),
                    "{name} of {}",
                    machine.name
                );
                variant
                    .check()
                    .unwrap_or_else(|(_, problem)| panic!("{name} of {}: {problem}", machine.name));
            }
            let of_threads = variants.iter().filter(|(name, _)| name.contains("hyper-threads")).count();
            assert_eq!(of_threads, if machine.threads_per_core > 1 { 2 } else { 0 }, "{}", machine.name);
        }
    }
}
