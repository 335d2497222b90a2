extern crate std;

use std::boxed::Box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use lockwork_platform::{Cells, Native, PoolNode, Sched as _};

use super::super::Section;
use super::*;

/// A server for which no thread is to be had.
fn server(manner: Manner) -> &'static Server<Native> {
    Box::leak(Box::new(Server::new(manner, |_, _| false)))
}

/// Of a thread that has not looked at anything.
fn service() -> Service<Native> {
    <Service<Native> as PoolNode<Native>>::new()
}

/// The thread that has the turn falls asleep although the one before it says that it sleeps, and ends that one.
#[test]
fn the_thread_that_has_the_turn_sleeps_in_place_of_another_one() {
    let server = server(Manner::Rcl);
    server.open();
    let old = thread::spawn(|| server.serve(1));
    while server.state.load(Relaxed) != asleep(1) {
        thread::yield_now();
    }
    server.turn.store(2, Relaxed);
    let new = thread::spawn(|| server.serve(2));
    // A thread that spins instead never gets so far, and the test never ends.
    while server.state.load(Relaxed) != asleep(2) {
        thread::yield_now();
    }
    old.join().expect("it has been relieved");
    server.stop();
    new.join().expect("the server has stopped");
}

/// A thread that was relieved before it says that it sleeps does not, whoever is awake or asleep.
#[test]
fn a_relieved_thread_does_not_sleep() {
    let server = server(Manner::Rcl);
    server.open();
    server.turn.store(2, Relaxed);
    for state in [AWAKE, asleep(2)] {
        server.state.store(state, Relaxed);
        server.sleep(&service(), 1);
        assert_eq!(server.state.load(Relaxed), AWAKE);
    }
    server.stop();
    server.sleep(&service(), 1);
    assert!(!server.is_running());
}

type Word = <Native as Cells>::U32;

/// What a section waits for, and whether it did so in vain.
struct Awaited {
    is_there: Word,
    is_missed: Word,
}

unsafe fn no_section(_: *mut ()) {}

unsafe fn waiting_section(awaited: *mut ()) {
    // SAFETY: the test's.
    let awaited = unsafe { &*awaited.cast::<Awaited>() };
    let begun = Instant::now();
    while awaited.is_there.load(Relaxed) == 0 && awaited.is_missed.load(Relaxed) == 0 {
        awaited.is_missed.store((begun.elapsed() > Duration::from_secs(10)).into(), Relaxed);
        thread::yield_now();
    }
}

/// Of two requests that one scan finds, the second, of another delegate, waits for what the first one's requester does next.
#[test]
fn answers_do_not_wait_for_sections_of_another_delegate() {
    let server = server(Manner::Ffwd);
    let locks: [Lock<Native>; 2] = [Lock::new(), Lock::new()];
    let awaited = Awaited { is_there: Word::new(0), is_missed: Word::new(0) };
    let requested = Barrier::new(3);
    let requester = |number| {
        let is_first = number == 1;
        // Not its own, which may be in another page than the other's: nobody else uses the server.
        let line = server.lines.of(number).expect("a number");
        let run = if is_first { no_section } else { waiting_section };
        // SAFETY: what it is called with outlives the request.
        let section = unsafe { Section::new(run, (&raw const awaited).cast_mut().cast()) };
        let target = ptr::from_ref(&locks[usize::from(is_first)]).expose_provenance();
        // SAFETY: this thread's line, and it waits.
        unsafe { line.request_for(section, target) };
        requested.wait();
        while !line.is_done() {
            thread::yield_now();
        }
        if is_first {
            awaited.is_there.store(1, Relaxed);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| requester(1));
        scope.spawn(|| requester(2));
        requested.wait();
        assert!(server.scan(&service(), 0));
    });
    assert_eq!(awaited.is_missed.load(Relaxed), 0);
}

/// A request for the delegate with this lock, whose section marks `run`.
fn leave(line: &Line<Native>, lock: &Lock<Native>, run: &Word) {
    // SAFETY: called with a word that outlives the request.
    let section = unsafe { Section::new(mark, ptr::from_ref(run).cast_mut().cast()) };
    // SAFETY: nobody else uses the server's lines.
    unsafe { line.request_for(section, ptr::from_ref(lock).expose_provenance()) };
}

unsafe fn mark(run: *mut ()) {
    // SAFETY: the test's.
    unsafe { &*run.cast::<Word>() }.store(1, Relaxed);
}

/// In a child, requests of other threads are forgotten. The forking thread, whose handler forks while it waits, or while it asks for
/// its request back, keeps its own.
#[test]
fn a_child_keeps_the_request_of_the_thread_that_forked() {
    let server = server(Manner::Rcl);
    let (lock, run) = (Lock::new(), Word::new(0));
    let own = Native::thread_id();
    let line = |number| server.lines.of(number).expect("a number");
    for is_wanted_back in [false, true] {
        server.open();
        leave(line(own), &lock, &run);
        leave(line(own + 1), &lock, &run);
        line(own).wants_back(is_wanted_back);
        // SAFETY: nobody else uses the server, as if there were no other thread.
        unsafe { server.after_fork() };
        assert!(line(own + 1).is_done());
        assert!(!line(own).is_done() && !server.is_running());
        assert!(server.withdraws(line(own)), "it can be taken back, and run in place");
    }
    assert_eq!(run.load(Relaxed), 0);
}

/// What a server had done with the forking thread's request: it runs the section, or has run it and not answered.
#[test]
fn a_child_does_not_run_again_what_a_server_had_begun() {
    let server = server(Manner::Ffwd);
    let (lock, run) = (Lock::new(), Word::new(0));
    let own = Native::thread_id();
    let line = server.lines.of(own).expect("a thread with a number");
    let service = service();
    let forks = |service: Option<&Service<Native>>| {
        server.open();
        server
            .service
            .store(service.map_or(ptr::null_mut(), |service| ptr::from_ref(service).cast_mut()), Relaxed);
        // SAFETY: as above.
        unsafe { server.after_fork() };
    };
    let token = lock.try_lock().expect("it is free");
    leave(line, &lock, &run);
    service.runs(line);
    forks(Some(&service));
    assert!(!line.is_done() && !server.withdraws(line), "the section may be half done");
    // A child of the child.
    forks(None);
    assert!(!line.is_done() && !server.withdraws(line));
    // SAFETY: acquired above.
    unsafe { lock.unlock(token) };
    forks(None);
    assert!(line.is_done(), "nobody is inside");
    for has_left in [false, true] {
        leave(line, &lock, &run);
        service.runs(line);
        if has_left {
            service.has_run(line);
        }
        forks(Some(&service));
        assert!(line.is_done(), "it has run");
    }
    leave(line, &lock, &run);
    service.rests();
    server.lines.each_page(|lines| {
        if let Some(index) = lines.iter().position(|other| ptr::eq(other, line)) {
            service.answers_later(lines, index);
        }
    });
    forks(Some(&service));
    assert!(line.is_done(), "it was to be answered together with others");
    // It has been answered, which the thread has not noted yet.
    leave(line, &lock, &run);
    service.has_run(line);
    leave(line, &lock, &run);
    forks(Some(&service));
    assert!(!line.is_done() && server.withdraws(line), "this is another request");
    assert_eq!(run.load(Relaxed), 0);
}

/// A thread that runs a section is relieved: the request in its hands is not run again, and those that it has not answered are not
/// taken back. One that is about to look waits for nothing, and looks no more.
#[test]
fn what_a_relieved_thread_has_in_its_hands_is_marked() {
    let server = server(Manner::Ffwd);
    let (lock, run) = (Lock::new(), Word::new(0));
    let line = |number| server.lines.of(number).expect("a number");
    let (before, after) = (service(), service());
    server.open();
    assert!(server.begins(&before, 1) && before.looks(|| true));
    for number in 1..=3 {
        leave(line(number), &lock, &run);
    }
    server.lines.each_page(|lines| before.answers_later(lines, 0));
    before.runs(line(2));
    server.turn.store(2, Relaxed);
    assert!(server.begins(&after, 2));
    let is_done = || [1, 2, 3].map(|number| line(number).is_done());
    assert!([1, 2, 3].map(|number| line(number).is_open()) == [false, false, true]);
    assert!(!server.withdraws(line(1)) && !server.withdraws(line(2)));
    assert!(server.scan(&after, 2));
    assert_eq!(is_done(), [false, false, true]);
    before.has_run(line(2));
    line(2).answer();
    assert!(!before.looks(|| false));
    assert_eq!(is_done(), [false, true, true]);
    // Its next request is not the one that was marked.
    leave(line(2), &lock, &run);
    assert!(line(2).is_open());
}
