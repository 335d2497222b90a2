//! `lockwork_delegate_*`.

use core::cell::Cell;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use core::sync::atomic::{AtomicPtr, AtomicU32};
use core::time::Duration;
use std::time::Instant;

use lockwork::delegates::{Attempt, Delegate as _, DynDelegate, Section};
use lockwork::pace;
use lockwork_config as config;
use lockwork_locks::api::Held;
use lockwork_locks::delegation::condition::{Condition, Seen};
use lockwork_locks::delegation::posts::Posts;
use lockwork_platform::{AtomicCell, Deadline, FutexCell, Native, NativeFutex, Sched, environment};

use crate::time::{self, REALTIME, Timespec};
use crate::users::{self, Inside, Others};
use crate::{EBUSY, EDEADLK, EINVAL, ENOTSUP, EPERM, ETIMEDOUT, error, specs, tsan};

/// A function of the program that runs as a section.
pub type Function = Option<unsafe extern "C" fn(*mut c_void) -> *mut c_void>;

/// What a `lockwork_delegate_t` points to.
#[derive(Debug)]
struct Inner {
    delegate: DynDelegate,
    posts: Posts<Native>,
    /// Whether requesters give way to each other: not where they wait for a server.
    gives_way: bool,
    /// Threads inside that are in no row.
    others: Others,
}

/// `lockwork_delegate_t`.
#[repr(C, align(8))]
#[derive(Debug)]
pub struct Delegate {
    /// Null = the default delegate, at its first use.
    inner: AtomicPtr<Inner>,
    /// The word of the acquisition, while it is held.
    held: Cell<usize>,
    /// The number of the thread that holds it by an acquisition; 0 = none. Written by that thread.
    holder: AtomicU32,
    spare: [usize; 5],
}

/// `lockwork_posted_t`: a section on its way.
#[repr(C, align(8))]
#[derive(Debug)]
pub struct Posted {
    word: NativeFutex,
    section: Cell<Function>,
    argument: Cell<*mut c_void>,
    inner: Cell<*const Inner>,
    /// The program's object.
    delegate: Cell<*const Delegate>,
    spare: [usize; 3],
}

/// `lockwork_delegate_cond_t`.
#[repr(C, align(8))]
#[derive(Debug)]
pub struct DelegateCondition(Condition<Native>, [u8; 60]);

const _: () = assert!(size_of::<Delegate>() == 64);
const _: () = assert!(size_of::<Posted>() == 64);
const _: () = assert!(size_of::<DelegateCondition>() == 64);

const POSTED: u32 = 0;
const DONE: u32 = 1;

/// A section that this thread runs, and the one around it.
struct Running {
    inner: *const Inner,
    outer: *const Running,
}

thread_local! {
    /// The innermost section that this thread runs; null = none.
    static RUNNING: Cell<*const Running> = const { Cell::new(ptr::null()) };
}

/// The number that stands for all threads without one: in their last destructors, or without memory.
const NUMBERLESS: u32 = u32::MAX;

/// The calling thread's number, as a delegate's holder.
fn number() -> u32 {
    match Native::thread_id() {
        0 => NUMBERLESS,
        number => number,
    }
}

fn runs_on(inner: *const Inner) -> bool {
    let mut next = RUNNING.get();
    // SAFETY: each points to a frame further up this thread's stack, which ends after it has taken itself off the list.
    while let Some(running) = unsafe { next.as_ref() } {
        if running.inner == inner {
            return true;
        }
        next = running.outer;
    }
    false
}

/// Calls the program's function as a section of `inner`, for the request at this address.
unsafe fn call<R>(
    inner: *const Inner,
    request: *const R,
    section: Function,
    argument: *mut c_void,
) -> *mut c_void {
    let Some(section) = section else { return ptr::null_mut() };
    tsan::acquire(request);
    tsan::acquire(inner);
    let running = Running { inner, outer: RUNNING.get() };
    RUNNING.set(&raw const running);
    // SAFETY: the program's: its contract is the header's.
    let result = unsafe { section(argument) };
    RUNNING.set(running.outer);
    tsan::release(inner);
    tsan::release(request);
    result
}

/// One request, on its requester's stack.
struct Call<'a> {
    inner: *const Inner,
    section: Function,
    argument: *mut c_void,
    condition: Option<&'a Condition<Native>>,
    result: *mut c_void,
    seen: Option<Seen>,
}

unsafe fn run(data: *mut ()) {
    // SAFETY: the requester's, which waits.
    let request = unsafe { &mut *data.cast::<Call<'_>>() };
    // SAFETY: in a section.
    request.result =
        unsafe { call(request.inner, ptr::from_ref(request), request.section, request.argument) };
    request.seen = request.condition.map(Condition::seen);
}

unsafe fn run_posted(data: *mut ()) {
    // SAFETY: the program keeps it until it has waited for it.
    let posted = unsafe { &*data.cast::<Posted>() };
    // SAFETY: in a section.
    let result = unsafe { call(posted.inner.get(), posted, posted.section.get(), posted.argument.get()) };
    posted.argument.set(result);
    let word = &raw const posted.word;
    posted.word.swap(DONE, AcqRel); // ORDER: the result → `lockwork_delegate_wait`.
    // SAFETY: a wake needs the address only.
    unsafe { FutexCell::wake(word, u32::MAX) };
}

impl Delegate {
    /// Whether the calling thread holds it by an acquisition, or runs a section of it: the reason why another section would
    /// wait for itself.
    fn is_own(&self, inner: *const Inner) -> Option<&'static str> {
        // ORDER: a thread sees what it has written itself, and no other writes its number.
        let holder = self.holder.load(Relaxed);
        if holder != NUMBERLESS && holder == number() {
            return Some(
                "the calling thread holds the delegate: it can call the function itself, or release first",
            );
        }
        runs_on(inner)
            .then_some("a section requests another one of its own delegate, and would wait for itself")
    }

    /// Notes that the calling thread holds it.
    fn note_held(&self, Held(word): Held) -> c_int {
        tsan::acquire(self.inner());
        self.held.set(word);
        self.holder.store(number(), Relaxed); // ORDER: read by this thread.
        0
    }

    fn inner(&self) -> &Inner {
        // SAFETY: null, or a box that `lockwork_delegate_destroy` frees. ORDER: published below.
        match unsafe { self.inner.load(Acquire).as_ref() } {
            Some(inner) => inner,
            None => self.settle(),
        }
    }

    /// Gives a delegate that was initialised statically the default one. Threads that come at once agree on one.
    #[cold]
    fn settle(&self) -> &Inner {
        let fresh = Box::into_raw(made(standard()));
        let inner = match self.inner.compare_exchange(ptr::null_mut(), fresh, AcqRel, Acquire) {
            Ok(_) => fresh,
            Err(there) => {
                // SAFETY: made above, and nobody knows of it.
                drop(unsafe { Box::from_raw(fresh) });
                there
            }
        };
        // SAFETY: as in `inner`.
        unsafe { &*inner }
    }
}

/// A delegate of the kind that `LOCKWORK_DELEGATE` says, or of the default one. A value that names none ends the program: nothing
/// that a static initialiser is for could tell of it.
fn standard() -> DynDelegate {
    let value = environment::variable(&config::DELEGATE).map(CStr::to_string_lossy);
    match value.as_deref() {
        None => <DynDelegate as lockwork::delegates::Delegate<Native>>::new(),
        Some(spec) => DynDelegate::new(spec).unwrap_or_else(|error| {
            eprintln!("lockwork: {}: {error}", config::DELEGATE.name);
            std::process::exit(2)
        }),
    }
}

fn made(delegate: DynDelegate) -> Box<Inner> {
    delegate.settle();
    let gives_way = delegate.seat().is_none();
    Box::new(Inner { gives_way, delegate, posts: Posts::none(), others: Others::default() })
}

impl Inner {
    /// The calling thread is inside, and this is not freed, until it drops what it gets.
    #[inline(always)]
    fn enter(&self) -> Inside<'_> {
        users::enter(self, &self.others)
    }

    /// Whether threads are inside.
    fn is_used(&self) -> bool {
        users::are_inside(self, &self.others)
    }
}

/// Keeps the reason, and returns the number.
fn refuse(number: c_int, reason: &str) -> c_int {
    error::set(reason);
    number
}

/// Initialises a delegate as `spec` describes, with the default one where it is null.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_delegate_init(delegate: *mut Delegate, spec: *const c_char) -> c_int {
    // SAFETY: the caller's contract.
    let Ok(built) = (unsafe { specs::parse(spec, DynDelegate::new) }) else { return EINVAL };
    let built = built.unwrap_or_else(standard);
    let inner = AtomicPtr::new(Box::into_raw(made(built)));
    // SAFETY: the caller's contract.
    unsafe {
        delegate.write(Delegate { inner, held: Cell::new(0), holder: AtomicU32::new(0), spare: [0; 5] })
    };
    0
}

unsafe fn execute(
    delegate: *mut Delegate,
    section: Function,
    argument: *mut c_void,
    condition: Option<&Condition<Native>>,
) -> Result<(*mut c_void, Option<Seen>), c_int> {
    // SAFETY: the caller's contract.
    let delegate = unsafe { &*delegate };
    let inner = delegate.inner();
    if section.is_none() {
        return Err(refuse(EINVAL, "the section is null"));
    }
    if let Some(reason) = delegate.is_own(inner) {
        return Err(refuse(EDEADLK, reason));
    }
    let mut request = Call { inner, section, argument, condition, result: ptr::null_mut(), seen: None };
    // SAFETY: called once, with this request, which outlives it. The program's functions do not unwind (the header).
    let section = unsafe { Section::new(run, (&raw mut request).cast()) };
    tsan::release(&raw const request);
    // Once the section has run, another thread may be the last user, and wait to free what is `inner`.
    let inside = inner.enter();
    let is_outermost = RUNNING.get().is_null();
    if is_outermost {
        // SAFETY: as above.
        unsafe { inner.delegate.execute(section) };
    } else {
        // SAFETY: as above.
        unsafe { inner.delegate.execute_nested(section) };
    }
    inner.posts.settle(&inner.delegate);
    let gives_way = is_outermost && inner.gives_way;
    drop(inside);
    tsan::acquire(&raw const request);
    if gives_way {
        pace::give_way();
    }
    Ok((request.result, request.seen))
}

/// Runs a section, in this thread or another, and gives its result.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_delegate_execute(
    delegate: *mut Delegate,
    section: Function,
    argument: *mut c_void,
    result: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller's contract.
    match unsafe { execute(delegate, section, argument, None) } {
        Ok((value, _)) => {
            if !result.is_null() {
                // SAFETY: the caller's contract.
                unsafe { result.write(value) };
            }
            0
        }
        Err(number) => number,
    }
}

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
}

fn set_errno(number: c_int) {
    // SAFETY: this thread's.
    let errno = unsafe { __errno_location() };
    // SAFETY: as above.
    unsafe { errno.write(number) };
}

/// Runs a section, and returns what it returns; null and `errno` where it does not run.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_delegate_run(
    delegate: *mut Delegate,
    section: Function,
    argument: *mut c_void,
) -> *mut c_void {
    // SAFETY: the caller's contract.
    match unsafe { execute(delegate, section, argument, None) } {
        Ok((value, _)) => value,
        Err(number) => {
            set_errno(number);
            ptr::null_mut()
        }
    }
}

/// Leaves a section to be run, which `posted` stands for until it has been waited for.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_delegate_post(
    delegate: *mut Delegate,
    section: Function,
    argument: *mut c_void,
    posted: *mut Posted,
) -> c_int {
    // SAFETY: the caller's contract.
    let inner = unsafe { &*delegate }.inner();
    if section.is_none() {
        return refuse(EINVAL, "the section is null");
    }
    let fresh = Posted {
        word: NativeFutex::new(POSTED),
        section: Cell::new(section),
        argument: Cell::new(argument),
        inner: Cell::new(inner),
        delegate: Cell::new(delegate),
        spare: [0; 3],
    };
    // SAFETY: the caller's contract.
    unsafe { posted.write(fresh) };
    tsan::release(posted);
    // SAFETY: called once, and the program keeps `posted` meanwhile.
    let section = unsafe { Section::new(run_posted, posted.cast()) };
    let inside = inner.enter();
    // SAFETY: as above; these posts are the delegate's.
    unsafe { inner.posts.post(section, &inner.delegate) };
    drop(inside);
    0
}

/// Waits for a section that was posted, and returns its result.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_delegate_wait(posted: *mut Posted) -> *mut c_void {
    // SAFETY: the caller's contract.
    let posted = unsafe { &*posted };
    // ORDER: with the swap of `run_posted`.
    while posted.word.load(Acquire) != DONE {
        // SAFETY: the delegate is in use until its sections have run.
        if unsafe { &*posted.delegate.get() }.is_own(posted.inner.get()).is_some() {
            set_errno(refuse(
                EDEADLK,
                "the calling thread holds the delegate, or runs a section of it, and the posted one runs after it",
            ));
            return ptr::null_mut();
        }
        let _ = posted.word.wait(POSTED, None);
    }
    tsan::acquire(posted);
    posted.argument.get()
}

/// Excludes all sections until the release, if the delegate can be held.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_delegate_acquire(delegate: *mut Delegate) -> c_int {
    // SAFETY: the caller's contract.
    let delegate = unsafe { &*delegate };
    let inner = delegate.inner();
    if let Some(reason) = delegate.is_own(inner) {
        return refuse(EDEADLK, reason);
    }
    match inner.delegate.acquire() {
        Some(held) => delegate.note_held(held),
        None => cannot_be_held(inner),
    }
}

/// The same without waiting.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_delegate_try_acquire(delegate: *mut Delegate) -> c_int {
    // SAFETY: the caller's contract.
    let delegate = unsafe { &*delegate };
    let inner = delegate.inner();
    match inner.delegate.try_acquire() {
        Attempt::Held(held) => delegate.note_held(held),
        Attempt::Busy => EBUSY,
        Attempt::Never => cannot_be_held(inner),
    }
}

/// Ends a program that does not look at the outcome of a call, where it would go on without the lock, or with a section that has
/// not run. Says why.
fn end(function: &str) -> ! {
    // SAFETY: a C string, which is valid until this thread's next error.
    let reason = unsafe { CStr::from_ptr(error::lockwork_error()) };
    eprintln!("lockwork: {function}: {}", reason.to_string_lossy());
    std::process::abort()
}

/// The outcome of such a call, if it is 0.
fn expect(function: &str, outcome: c_int) -> c_int {
    if outcome == 0 { outcome } else { end(function) }
}

/// As [`lockwork_delegate_acquire`], for programs that do not look at the outcome.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_delegate_acquire_or_abort(delegate: *mut Delegate) -> c_int {
    // SAFETY: the caller's contract.
    expect("lockwork_delegate_acquire_or_abort", unsafe { lockwork_delegate_acquire(delegate) })
}

/// As [`lockwork_delegate_try_acquire`], for programs that only distinguish success from failure.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_delegate_try_acquire_or_abort(delegate: *mut Delegate) -> c_int {
    // SAFETY: the caller's contract.
    match unsafe { lockwork_delegate_try_acquire(delegate) } {
        EBUSY => EBUSY,
        outcome => expect("lockwork_delegate_try_acquire_or_abort", outcome),
    }
}

/// As [`lockwork_delegate_run`], for programs that rely on the section having run.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_delegate_run_or_abort(
    delegate: *mut Delegate,
    section: Function,
    argument: *mut c_void,
) -> *mut c_void {
    // SAFETY: the caller's contract.
    match unsafe { execute(delegate, section, argument, None) } {
        Ok((value, _)) => value,
        Err(_) => end("lockwork_delegate_run_or_abort"),
    }
}

/// As [`lockwork_delegate_cond_wait`], for programs that rely on the section having run.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_delegate_cond_wait_or_abort(
    delegate: *mut Delegate,
    condition: *mut DelegateCondition,
    section: Function,
    argument: *mut c_void,
    result: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller's contract.
    let outcome = unsafe { wait_until(delegate, condition, None, section, argument, result) };
    expect("lockwork_delegate_cond_wait_or_abort", outcome)
}

fn cannot_be_held(inner: &Inner) -> c_int {
    refuse(
        ENOTSUP,
        &format!(
            "`{}` cannot be held: hand it sections by lockwork_delegate_run, or use locked(…), fc, sanl, rcl or ffwd",
            inner.delegate
        ),
    )
}

/// Ends an acquisition.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_delegate_release(delegate: *mut Delegate) -> c_int {
    // SAFETY: the caller's contract.
    let delegate = unsafe { &*delegate };
    let inner = delegate.inner();
    // ORDER: the thread that holds it has written it, or has handed the release to this one.
    if delegate.holder.load(Relaxed) == 0 {
        return refuse(EPERM, "nobody holds the delegate");
    }
    delegate.holder.store(0, Relaxed); // ORDER: as above.
    tsan::release(inner);
    let inside = inner.enter();
    // SAFETY: it is held, and released once.
    unsafe { inner.delegate.release(Held(delegate.held.get())) };
    inner.posts.settle(&inner.delegate);
    drop(inside);
    0
}

unsafe fn wait_until(
    delegate: *mut Delegate,
    condition: *mut DelegateCondition,
    deadline: Option<Deadline>,
    section: Function,
    argument: *mut c_void,
    result: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller's contract.
    let condition = unsafe { &(*condition).0 };
    let mut is_late = false;
    loop {
        // SAFETY: the caller's contract.
        let (value, seen) = match unsafe { execute(delegate, section, argument, Some(condition)) } {
            Ok(outcome) => outcome,
            Err(number) => return number,
        };
        if !value.is_null() {
            if !result.is_null() {
                // SAFETY: the caller's contract.
                unsafe { result.write(value) };
            }
            return 0;
        }
        if is_late {
            return ETIMEDOUT;
        }
        if let Some(seen) = seen {
            is_late = condition.wait(seen, deadline).is_err();
        }
    }
}

/// Runs a section until it returns something other than null, and waits for the condition in between.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_delegate_cond_wait(
    delegate: *mut Delegate,
    condition: *mut DelegateCondition,
    section: Function,
    argument: *mut c_void,
    result: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { wait_until(delegate, condition, None, section, argument, result) }
}

/// The same until a time on `CLOCK_REALTIME` at most.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_delegate_cond_timedwait(
    delegate: *mut Delegate,
    condition: *mut DelegateCondition,
    time: *const Timespec,
    section: Function,
    argument: *mut c_void,
    result: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller's contract.
    let Some(deadline) = (unsafe { time::deadline(REALTIME, time) }) else { return EINVAL };
    // SAFETY: the caller's contract.
    unsafe { wait_until(delegate, condition, Some(deadline), section, argument, result) }
}

/// Waits for a condition with the delegate held, which is free meanwhile.
unsafe fn wait_held(
    condition: *mut DelegateCondition,
    delegate: *mut Delegate,
    deadline: Option<Deadline>,
) -> c_int {
    // SAFETY: the caller's contract.
    let holder = unsafe { &(*delegate).holder };
    // ORDER: a thread sees what it has written itself.
    if holder.load(Relaxed) != number() {
        return refuse(EPERM, "the calling thread does not hold the delegate");
    }
    // SAFETY: the caller's contract.
    let condition = unsafe { &(*condition).0 };
    // Holding excludes all sections, so that what they signal from now on is not missed.
    let seen = condition.seen();
    // SAFETY: the caller's contract; it is held.
    unsafe { lockwork_delegate_release(delegate) };
    let is_late = condition.wait(seen, deadline).is_err();
    // SAFETY: the caller's contract.
    match unsafe { lockwork_delegate_acquire(delegate) } {
        0 if is_late => ETIMEDOUT,
        outcome => outcome,
    }
}

/// Waits for a condition with the delegate held. A wake-up may be meant for another thread.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_delegate_cond_wait_held(
    condition: *mut DelegateCondition,
    delegate: *mut Delegate,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { wait_held(condition, delegate, None) }
}

/// The same until a time on `CLOCK_REALTIME` at most.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_delegate_cond_timedwait_held(
    condition: *mut DelegateCondition,
    delegate: *mut Delegate,
    time: *const Timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    let Some(deadline) = (unsafe { time::deadline(REALTIME, time) }) else { return EINVAL };
    // SAFETY: the caller's contract.
    unsafe { wait_held(condition, delegate, Some(deadline)) }
}

/// Initialises a condition.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_delegate_cond_init(condition: *mut DelegateCondition) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { condition.write(DelegateCondition(Condition::new(), [0; 60])) };
    0
}

/// Ends a condition: it has nothing to give back.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_delegate_cond_destroy(condition: *mut DelegateCondition) -> c_int {
    let _ = condition;
    0
}

/// Wakes a thread that waits.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_delegate_cond_signal(condition: *mut DelegateCondition) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { &*condition }.0.signal();
    0
}

/// Wakes all threads that wait.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_delegate_cond_broadcast(condition: *mut DelegateCondition) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { &*condition }.0.broadcast();
    0
}

/// For how long a delegate that is to be ended may have threads inside: those on their way out need a few steps, and a CPU.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the thread that ends it offers its CPU before it sleeps, and for how long it does.
const ATTEMPTS: u32 = 1000;
const PAUSE: Duration = Duration::from_micros(200);

/// Waits until no thread is inside. `false`: there is one that does not leave.
fn is_left(inner: &Inner) -> bool {
    let begun = Instant::now();
    let mut attempts = 0;
    while inner.is_used() {
        if begun.elapsed() > PATIENCE {
            return false;
        }
        // One that is to leave may have lost its CPU to this thread, or to others.
        if attempts < ATTEMPTS {
            attempts += 1;
            std::thread::yield_now();
        } else {
            std::thread::sleep(PAUSE);
        }
    }
    true
}

/// Ends a delegate that nobody uses any more: its last users may be on their way out.
///
/// # Safety
///
/// As the crate says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockwork_delegate_destroy(delegate: *mut Delegate) -> c_int {
    // SAFETY: the caller's contract.
    let delegate = unsafe { &*delegate };
    let at = delegate.inner.load(Acquire);
    // SAFETY: as in `Delegate::inner`.
    let Some(inner) = (unsafe { at.as_ref() }) else { return 0 };
    // ORDER: the thread that holds it has written that, before or after this one uses it for the last time.
    let is_held = delegate.holder.load(Relaxed) != 0;
    if is_held || runs_on(inner) || !is_left(inner) || inner.delegate.is_busy() {
        return refuse(EBUSY, "a section of the delegate runs, or a thread holds it");
    }
    delegate.inner.store(ptr::null_mut(), Relaxed); // ORDER: nobody else uses it.
    // SAFETY: made by `Box::into_raw`, and nobody uses it.
    let inner = unsafe { Box::from_raw(at) };
    // SAFETY: as above.
    unsafe { inner.delegate.dispose() };
    0
}
