//! What threads do with the locks of this library, recorded for `lockwork profile` and `lockwork top`: the feature `profile`.
//! Without it everything here is a call of what it is given.
//!
//! With it, each operation looks at one word, the gate of a board (`lockwork_profile::board`), and does no more until the process is
//! recorded. Whether it is from the beginning is decided before `main`, or at the first operation, by the variables that the preload
//! library reads.

/// How a lock is acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// A mutex.
    Mutex,
    /// A reader-writer lock, to read.
    Read,
    /// A reader-writer lock, to write.
    Write,
}

/// A lock that is acquired or released.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    /// Its address.
    pub lock: usize,
    /// How it is.
    pub how: How,
    /// What serves it.
    pub name: &'a str,
}

#[cfg(not(feature = "profile"))]
mod off {
    use super::{How, Operation};

    /// The code that calls an operation.
    #[derive(Clone, Copy, Debug)]
    pub struct Place;

    impl Place {
        /// This code.
        #[inline(always)]
        #[must_use]
        pub fn here() -> Self {
            Self
        }
    }

    /// Acquires by `attempt`.
    #[inline(always)]
    pub fn acquire<R>(
        _: Operation<'_>,
        _: Place,
        attempt: impl FnOnce() -> R,
        _: impl FnOnce(&R) -> bool,
    ) -> R {
        attempt()
    }

    /// Releases by `release`.
    #[inline(always)]
    pub fn release<R>(_: Operation<'_>, _: Place, release: impl FnOnce() -> R) -> R {
        release()
    }

    /// A wait on a condition is about to begin.
    #[inline(always)]
    pub fn wait_begins(_: Place) {}

    /// Releases the mutex of a wait on the condition at `cond`.
    #[inline(always)]
    pub fn release_to_wait(_: usize, _: Operation<'_>, release: impl FnOnce()) {
        release();
    }

    /// Acquires it again.
    #[inline(always)]
    pub fn acquire_after_wait<R>(
        _: Operation<'_>,
        attempt: impl FnOnce() -> R,
        _: impl FnOnce(&R) -> bool,
    ) -> R {
        attempt()
    }

    /// A lock was initialised here.
    #[inline(always)]
    pub fn begins(_: usize, _: How, _: Place) {}

    /// A lock is no more.
    #[inline(always)]
    pub fn ends(_: usize, _: How) {}
}

#[cfg(feature = "profile")]
mod on {
    use std::cell::Cell;
    use std::ffi::c_int;
    use std::ptr;
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

    use lockwork_config as config;
    use lockwork_locks::wait::WAITING_ON_COND;
    use lockwork_platform::environment::variable;
    use lockwork_profile::board::Board;
    use lockwork_profile::format::{Kind, Mode, Thread};
    use lockwork_profile::process::{self, Host};
    use lockwork_profile::recorder::{Call, Target};

    use super::{How, Operation};

    const UNDECIDED: *mut () = ptr::without_provenance_mut(4);

    /// Where a command asks this process to record. The gate is null while nothing is to be done.
    static BOARD: Board = Board::undecided(
        ptr::null_mut(),
        ptr::without_provenance_mut(1),
        ptr::without_provenance_mut(2),
        UNDECIDED,
    );

    static HOST: Host = Host { board: &BOARD, target, enter: |_| {}, leave: || {} };

    /// 1 = a thread decides whether the process is recorded, 2 = that has been done.
    static DECIDED: AtomicU32 = AtomicU32::new(0);

    type Handler = unsafe extern "C" fn();

    unsafe extern "C" {
        fn pthread_atfork(prepare: Option<Handler>, parent: Option<Handler>, child: Option<Handler>)
        -> c_int;
        fn atexit(handler: extern "C" fn()) -> c_int;
    }

    extern "C" fn end() {
        process::end();
    }

    unsafe extern "C" fn child() {
        process::after_fork_in_child();
    }

    /// Decides before the program's threads come, of which all but the first would otherwise go unrecorded until it is decided.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static CONSTRUCTOR: extern "C" fn() = constructor;

    extern "C" fn constructor() {
        is_decided();
    }

    /// Decides whether the process is recorded from the beginning. `false`: another thread does, or this one, further up.
    fn is_decided() -> bool {
        if DECIDED.load(Acquire) == 2 {
            return true;
        }
        if DECIDED.compare_exchange(0, 1, Relaxed, Relaxed).is_err() {
            return false;
        }
        // SAFETY: handlers of the right types, which the C library forgets when this library is unloaded.
        unsafe { pthread_atfork(None, None, Some(child)) };
        // SAFETY: as above.
        unsafe { atexit(end) };
        if let Some(path) = variable(&config::PROFILE) {
            let begins_off = variable(&config::PROFILE_OFF).map(|value| value.to_str().unwrap_or("on"));
            process::start(path, config::switch(begins_off));
        }
        process::serve(&HOST);
        BOARD.decided(UNDECIDED);
        DECIDED.store(2, Release);
        true
    }

    /// Whether there is nothing to do.
    #[inline(always)]
    fn is_closed() -> bool {
        BOARD.gate.load(Relaxed).is_null()
    }

    /// What the thread is about to wait for: the lock that it is about to acquire, whatever part of that it waits for.
    fn target(waiting_on: usize, thread: &Thread) -> Option<Target> {
        // Delegates have that bit, too.
        if waiting_on & WAITING_ON_COND != 0 {
            return None;
        }
        let (address, mode) = thread.wants()?;
        Some(Target { address, mode, server: server(SERVED_BY.get(), mode) })
    }

    thread_local! {
        /// The name of what serves the lock that the thread is about to acquire.
        static SERVED_BY: Cell<*const str> = const { Cell::new(ptr::from_ref("")) };
        /// What was looked up last, and its number.
        static LAST: Cell<(LookedUp, u32)> = const { Cell::new((LookedUp::NOTHING, 0)) };
    }

    /// What serves a lock: the name, by its address, and the kind; and for which process, as a child of `fork` has a file of its own.
    #[derive(Clone, Copy)]
    struct LookedUp {
        name: *const str,
        kind: usize,
        process: u32,
    }

    impl LookedUp {
        const NOTHING: Self = Self { name: ptr::from_ref(""), kind: 0, process: 0 };

        fn is(&self, other: &Self) -> bool {
            ptr::eq(self.name, other.name) && self.kind == other.kind && self.process == other.process
        }
    }

    /// The number of what serves a lock.
    fn server(name: *const str, mode: Mode) -> u32 {
        let Some(region) = process::region() else { return 0 };
        let kind = usize::from(mode.kind() == Kind::RwLock);
        let wanted = LookedUp { name, kind, process: region.header.pid.load(Relaxed) };
        let (last, number) = LAST.get();
        if last.is(&wanted) {
            return number;
        }
        // SAFETY: of the lock that the caller operates on, or of its type.
        let short = Short::of(unsafe { &*name });
        let number = process::server_called(region, kind, short.as_bytes());
        LAST.set((wanted, number));
        number
    }

    /// A name without the paths of types, and without the machine, which is always the same.
    struct Short {
        bytes: [u8; 63],
        length: usize,
    }

    impl Short {
        fn of(name: &str) -> Self {
            let mut short = Self { bytes: [0; 63], length: 0 };
            let mut word = 0;
            for byte in name.bytes() {
                match byte {
                    b':' if short.bytes[..short.length].ends_with(b":") => short.length = word,
                    b'<' | b'>' | b',' | b'(' | b')' | b' ' => {
                        let is_machine = &short.bytes[word..short.length] == b"Native";
                        match byte {
                            b',' if is_machine => short.length = word,
                            // What a machine that was left out had behind it.
                            b' ' if short.bytes[..short.length].ends_with(b"<") => {}
                            b'>' if is_machine && word > 0 => short.length = word - 1,
                            _ => short.push(byte),
                        }
                        word = short.length;
                    }
                    _ => short.push(byte),
                }
            }
            short
        }

        fn push(&mut self, byte: u8) {
            if let Some(place) = self.bytes.get_mut(self.length) {
                *place = byte;
                self.length += 1;
            }
        }

        fn as_bytes(&self) -> &[u8] {
            &self.bytes[..self.length]
        }
    }

    fn mode(how: How) -> Mode {
        match how {
            How::Mutex => Mode::Mutex,
            How::Read => Mode::Read,
            How::Write => Mode::Write,
        }
    }

    impl Operation<'_> {
        /// Addresses of locks are even to the recorder.
        fn address(&self) -> usize {
            self.lock & !1
        }

        fn server(&self) -> u32 {
            server(self.name, mode(self.how))
        }

        fn target(&self) -> Target {
            Target { address: self.address(), mode: mode(self.how), server: self.server() }
        }
    }

    /// The code that calls an operation.
    #[derive(Clone, Copy, Debug)]
    pub struct Place {
        /// An address there.
        pub caller: usize,
        /// The frame pointer there.
        pub frame: usize,
    }

    impl Place {
        /// This code.
        #[inline(always)]
        #[must_use]
        pub fn here() -> Self {
            let (caller, frame): (usize, usize);
            // SAFETY: reads registers.
            #[cfg(target_arch = "x86_64")]
            unsafe {
                core::arch::asm!("lea {}, [rip]", "mov {}, rbp", out(reg) caller, out(reg) frame,
                    options(nomem, nostack, preserves_flags));
            }
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            unsafe {
                core::arch::asm!("adr {}, #4", "mov {}, x29", out(reg) caller, out(reg) frame,
                    options(nomem, nostack, preserves_flags));
            }
            Self { caller, frame }
        }

        fn call(self) -> Call {
            process::call(self.caller, self.frame)
        }
    }

    /// Acquires by `attempt`.
    #[inline(always)]
    pub fn acquire<R>(
        operation: Operation<'_>,
        place: Place,
        attempt: impl FnOnce() -> R,
        is_success: impl FnOnce(&R) -> bool,
    ) -> R {
        if is_closed() { attempt() } else { follow(operation, place, attempt, is_success) }
    }

    #[cold]
    #[inline(never)]
    fn follow<R>(
        operation: Operation<'_>,
        place: Place,
        attempt: impl FnOnce() -> R,
        is_success: impl FnOnce(&R) -> bool,
    ) -> R {
        if !is_decided() {
            return attempt();
        }
        SERVED_BY.set(operation.name);
        let what = (operation.address(), mode(operation.how));
        process::acquire(what, place.call(), || operation.target(), attempt, is_success)
    }

    /// Releases by `release`.
    #[inline(always)]
    pub fn release<R>(operation: Operation<'_>, place: Place, release: impl FnOnce() -> R) -> R {
        if is_closed() { release() } else { follow_release(operation, place, release) }
    }

    #[cold]
    #[inline(never)]
    fn follow_release<R>(operation: Operation<'_>, place: Place, release: impl FnOnce() -> R) -> R {
        if !is_decided() {
            return release();
        }
        process::release(operation.address(), place.call(), || operation.server(), release)
    }

    /// A wait on a condition is about to begin.
    pub fn wait_begins(place: Place) {
        if !is_closed() && is_decided() {
            process::keep_call_of_wait(place.call());
        }
    }

    /// Releases the mutex of a wait on the condition at `cond`.
    pub fn release_to_wait(cond: usize, operation: Operation<'_>, release: impl FnOnce()) {
        if is_closed() || !is_decided() {
            return release();
        }
        process::release_to_wait(cond & !1, operation.address(), || operation.server(), release);
    }

    /// Acquires it again.
    pub fn acquire_after_wait<R>(
        operation: Operation<'_>,
        attempt: impl FnOnce() -> R,
        is_success: impl FnOnce(&R) -> bool,
    ) -> R {
        if is_closed() || !is_decided() {
            return attempt();
        }
        SERVED_BY.set(operation.name);
        process::acquire_after_wait(operation.address(), || operation.target(), attempt, is_success)
    }

    /// A lock was initialised here.
    pub fn begins(lock: usize, how: How, place: Place) {
        if !is_closed() && is_decided() {
            process::renewed(mode(how).kind(), lock & !1, place.caller);
        }
    }

    /// A lock is no more.
    #[inline(always)]
    pub fn ends(lock: usize, how: How) {
        if !is_closed() {
            process::renewed(mode(how).kind(), lock & !1, 0);
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn names_are_short() {
            let short = |name| String::from_utf8(Short::of(name).as_bytes().to_vec()).unwrap();
            assert_eq!(short("gcr(mcs-stp, active=2)"), "gcr(mcs-stp, active=2)");
            assert_eq!(short("locks::queue::Ticket<platform::Native>"), "Ticket");
            assert_eq!(short("a::Mcs<b::Native, c::d::SpinThenPark>"), "Mcs<SpinThenPark>");
            assert_eq!(short("a::Gcr<a::Mcs<b::Native, c::Park>, 4>"), "Gcr<Mcs<Park>, 4>");
            assert_eq!(short(&"x".repeat(100)), "x".repeat(63));
        }
    }
}

#[cfg(not(feature = "profile"))]
pub use off::*;
#[cfg(feature = "profile")]
pub use on::*;
