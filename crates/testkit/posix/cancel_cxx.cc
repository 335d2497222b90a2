// Cancellation unwinds C++ frames: destructors run, and catch (...) sees it and must let it pass.
#include "suite.h"

#include <chrono>
#include <condition_variable>
#include <cxxabi.h>
#include <mutex>

namespace {

std::mutex m;
std::condition_variable cv;
int entered, destroyed, caught;
bool held_in_destructor;

int probe(void *) {
    if (!m.try_lock())
        return EBUSY;
    m.unlock();
    return 0;
}

// Constructed after the lock, so destroyed before it is let go.
struct Witness {
    ~Witness() {
        add(&destroyed, 1);
        held_in_destructor = by_other_thread(probe, nullptr) == EBUSY;
    }
};

enum Way { WAIT, WAIT_FOR, WAIT_UNTIL };

void wait_in(std::unique_lock<std::mutex> &lock, Way way) {
    using namespace std::chrono;
    for (;;) {
        if (way == WAIT)
            cv.wait(lock);
        else if (way == WAIT_FOR)
            cv.wait_for(lock, minutes(1));
        else
            cv.wait_until(lock, system_clock::now() + minutes(1));
    }
}

void *wait_raii(void *arg) {
    std::unique_lock<std::mutex> lock(m);
    Witness witness;
    set(&entered, 1);
    wait_in(lock, static_cast<Way>(reinterpret_cast<intptr_t>(arg)));
    return nullptr;
}

void *wait_catch_all(void *arg) {
    std::unique_lock<std::mutex> lock(m);
    Witness witness;
    set(&entered, 1);
    try {
        wait_in(lock, static_cast<Way>(reinterpret_cast<intptr_t>(arg)));
    } catch (...) {
        add(&caught, 1);
        throw;
    }
    return nullptr;
}

void *wait_catch_forced(void *arg) {
    std::unique_lock<std::mutex> lock(m);
    Witness witness;
    set(&entered, 1);
    try {
        wait_in(lock, static_cast<Way>(reinterpret_cast<intptr_t>(arg)));
    } catch (abi::__forced_unwind &) {
        add(&caught, 1);
        throw;
    }
    return nullptr;
}

// std::condition_variable::wait is noexcept in newer libstdc++, where cancelling in it would terminate: call
// the POSIX function from C++ frames instead.
void *wait_posix(void *) {
    std::unique_lock<std::mutex> lock(m);
    Witness witness;
    set(&entered, 1);
    try {
        for (;;)
            pthread_cond_wait(cv.native_handle(), m.native_handle());
    } catch (...) {
        add(&caught, 1);
        throw;
    }
    return nullptr;
}

void cancel_many(void *(*run)(void *), Way way, bool catches) {
    int good = 0, rounds = iterations(60);
    for (int i = 0; i < rounds; i++) {
        set(&entered, 0);
        destroyed = caught = 0;
        held_in_destructor = false;
        pthread_t thread = start(run, reinterpret_cast<void *>(static_cast<intptr_t>(way)));
        await(&entered, 1);
        {
            std::lock_guard<std::mutex> guard(m); // the thread waits now
        }
        if (i % 2)
            usleep(200);
        must(pthread_cancel(thread) == 0);
        bool cancelled = join(thread) == PTHREAD_CANCELED;
        good += cancelled && destroyed == 1 && held_in_destructor && caught == catches;
        must(m.try_lock());
        m.unlock();
    }
    yes("unwound with the mutex held, every time", good == rounds);
}

} // namespace

CASE(unwind_posix_wait, 60) { cancel_many(wait_posix, WAIT, true); }
CASE(unwind_wait_for, 60) { cancel_many(wait_raii, WAIT_FOR, false); }
CASE(unwind_wait_for_catch_all, 60) { cancel_many(wait_catch_all, WAIT_FOR, true); }
CASE(unwind_wait_for_catch_forced, 60) { cancel_many(wait_catch_forced, WAIT_FOR, true); }
CASE(unwind_wait_until, 60) { cancel_many(wait_raii, WAIT_UNTIL, false); }
CASE(unwind_wait_until_catch_all, 60) { cancel_many(wait_catch_all, WAIT_UNTIL, true); }
