//! The machine, as every published figure must name it.

use std::ffi::CStr;
#[cfg(not(target_arch = "x86_64"))]
use std::fs;

use serde::{Deserialize, Serialize};

/// Where something was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) kernel: String,
    pub(crate) architecture: String,
    pub(crate) cpu: String,
    /// CPUs this process may use: its affinity and control group considered.
    pub(crate) cpus: usize,
    pub(crate) memory_mib: u64,
    pub(crate) glibc: String,
}

impl Host {
    /// This machine.
    pub(crate) fn read() -> Self {
        let uname = rustix::system::uname();
        let memory = rustix::system::sysinfo();
        Host {
            name: uname.nodename().to_string_lossy().into_owned(),
            kernel: kernel(),
            architecture: std::env::consts::ARCH.to_owned(),
            cpu: cpu_model(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: (memory.totalram * u64::from(memory.mem_unit)) >> 20,
            glibc: glibc_version(),
        }
    }

    /// In one line.
    pub(crate) fn line(&self) -> String {
        format!(
            "{}, {}, {} CPUs, {} GiB, {}, glibc {}",
            self.name,
            self.cpu,
            self.cpus,
            (self.memory_mib + 512) / 1024,
            self.kernel,
            self.glibc
        )
    }
}

/// The kernel's name and release.
pub(crate) fn kernel() -> String {
    let uname = rustix::system::uname();
    format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy())
}

/// The version of the glibc this process runs with.
pub(crate) fn glibc_version() -> String {
    // SAFETY: the function has no preconditions and returns a static, NUL-terminated string.
    let version = unsafe { libc::gnu_get_libc_version() };
    // SAFETY: as above.
    unsafe { CStr::from_ptr(version) }.to_string_lossy().into_owned()
}

/// The processor's name: its own word for itself, which costs less than /proc/cpuinfo, a page for each CPU.
#[cfg(target_arch = "x86_64")]
pub(crate) fn cpu_model() -> String {
    use core::arch::x86_64::__cpuid;
    const LAST: u32 = 0x8000_0000;
    const NAME: std::ops::RangeInclusive<u32> = 0x8000_0002..=0x8000_0004;
    if __cpuid(LAST).eax < *NAME.end() {
        return std::env::consts::ARCH.to_owned();
    }
    let words = NAME.map(__cpuid).flat_map(|part| [part.eax, part.ebx, part.ecx, part.edx]);
    let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// The architecture and, where the kernel gives it, the processor's identification.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn cpu_model() -> String {
    let identification = "/sys/devices/system/cpu/cpu0/regs/identification/midr_el1";
    match fs::read_to_string(identification) {
        Ok(number) => format!("{} {}", std::env::consts::ARCH, number.trim()),
        Err(_) => std::env::consts::ARCH.to_owned(),
    }
}

/// The value of the first line `NAME : VALUE`.
pub(crate) fn cpuinfo_field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_processor_has_the_name_that_the_kernel_gives_it() {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        if let Some(name) = cpuinfo_field(&text, "model name") {
            assert_eq!(cpu_model(), name);
        }
    }
}
