//! The machine, as every published figure must name it.

use std::ffi::CStr;
use std::fs;

use serde::Serialize;

/// Where something was measured.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) kernel: String,
    pub(crate) architecture: &'static str,
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
            kernel: format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy()),
            architecture: std::env::consts::ARCH,
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

/// The version of the glibc this process runs with.
pub(crate) fn glibc_version() -> String {
    // SAFETY: the function has no preconditions and returns a static, NUL-terminated string.
    let version = unsafe { libc::gnu_get_libc_version() };
    // SAFETY: as above.
    unsafe { CStr::from_ptr(version) }.to_string_lossy().into_owned()
}

/// The first `model name` of /proc/cpuinfo; absent on some architectures.
fn cpu_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    cpuinfo_field(&text, "model name").unwrap_or(std::env::consts::ARCH).to_owned()
}

/// The value of the first line `NAME : VALUE`.
pub(crate) fn cpuinfo_field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}
