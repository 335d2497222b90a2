// The condition variables of the C++ standard library, stop tokens, and objects with static storage.
#include "suite.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <stop_token>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Wall = std::chrono::system_clock;

namespace {

template <class Cond, class Mutex> void waits_and_timeouts() {
    Mutex m;
    Cond cv;
    std::unique_lock<Mutex> lock(m);
    yes("wait_for times out", cv.wait_for(lock, 15ms) == std::cv_status::timeout);
    yes("owned", lock.owns_lock());
    yes("wait_until steady times out", cv.wait_until(lock, Clock::now() + 15ms) == std::cv_status::timeout);
    yes("wait_until system times out", cv.wait_until(lock, Wall::now() + 15ms) == std::cv_status::timeout);
    yes("wait_until the past", cv.wait_until(lock, Clock::time_point{}) == std::cv_status::timeout);
    yes("wait_for a negative time", cv.wait_for(lock, -1s) == std::cv_status::timeout);
    yes("predicate stays false", !cv.wait_for(lock, 15ms, [] { return false; }));
    yes("predicate true at once", cv.wait_for(lock, -1s, [] { return true; }));
    auto before = Clock::now();
    cv.wait_for(lock, 30ms, [] { return false; });
    yes("not early", Clock::now() - before >= 30ms);
}

template <class Cond, class Mutex> void ping_pong(int full_rounds) {
    Mutex m;
    Cond there, back;
    int rounds = iterations(full_rounds);
    bool mine = true;
    std::thread other([&] {
        for (int i = 0; i < rounds; i++) {
            std::unique_lock<Mutex> lock(m);
            there.wait(lock, [&] { return !mine; });
            mine = true;
            back.notify_one();
        }
    });
    bool timely = true;
    for (int i = 0; i < rounds; i++) {
        std::unique_lock<Mutex> lock(m);
        mine = false;
        there.notify_one();
        timely &= back.wait_for(lock, 60s, [&] { return mine; });
    }
    other.join();
    yes("every round", timely && mine);
}

template <class Cond, class Mutex> void notify_all(int members) {
    Mutex m;
    Cond cv;
    int ready = 0, woken = 0;
    bool go = false;
    std::vector<std::thread> pool;
    for (int i = 0; i < members; i++)
        pool.emplace_back([&] {
            std::unique_lock<Mutex> lock(m);
            ready++;
            cv.wait(lock, [&] { return go; });
            woken++;
        });
    for (int seen = 0; seen < members;) {
        std::lock_guard<Mutex> guard(m);
        seen = ready;
    }
    {
        std::lock_guard<Mutex> guard(m);
        go = true;
    }
    cv.notify_all();
    for (auto &t : pool)
        t.join();
    yes("all woke", woken == members);
}

template <class Cond, class Mutex> void all() {
    waits_and_timeouts<Cond, Mutex>();
    ping_pong<Cond, Mutex>(1000);
    notify_all<Cond, Mutex>(waiters_spin() ? 4 : 16);
}

} // namespace

CASE(cxx_condition_variable, 60) { all<std::condition_variable, std::mutex>(); }
CASE(cxx_any_mutex, 60) { all<std::condition_variable_any, std::mutex>(); }
CASE(cxx_any_recursive_mutex, 60) { all<std::condition_variable_any, std::recursive_mutex>(); }
CASE(cxx_any_timed_mutex, 60) { all<std::condition_variable_any, std::timed_mutex>(); }
CASE(cxx_any_shared_mutex, 60) { all<std::condition_variable_any, std::shared_mutex>(); }

CASE(cxx_any_shared_lock, 30) {
    std::shared_mutex m;
    std::condition_variable_any cv;
    bool go = false;
    std::thread waiter([&] {
        std::shared_lock<std::shared_mutex> lock(m);
        cv.wait(lock, [&] { return go; });
    });
    {
        std::unique_lock<std::shared_mutex> lock(m);
        go = true;
    }
    cv.notify_all();
    waiter.join();
    yes("woke", true);
}

CASE(cxx_producer_consumer, 60) {
    std::mutex m;
    std::condition_variable cv;
    std::deque<int> queue;
    int items = iterations(5000);
    long sum = 0;
    std::vector<std::thread> pool;
    for (int p = 0; p < 2; p++)
        pool.emplace_back([&] {
            for (int i = 1; i <= items; i++) {
                {
                    std::lock_guard<std::mutex> guard(m);
                    queue.push_back(i);
                }
                cv.notify_one();
            }
        });
    for (int c = 0; c < 2; c++)
        pool.emplace_back([&] {
            for (int i = 0; i < items; i++) {
                std::unique_lock<std::mutex> lock(m);
                cv.wait(lock, [&] { return !queue.empty(); });
                sum += queue.front();
                queue.pop_front();
            }
        });
    for (auto &t : pool)
        t.join();
    yes("every item arrived", sum == long(items) * (items + 1) && queue.empty());
}

// Signals without the mutex meet the first wait, by which it is decided who serves the condition: few rounds, whatever the lock, and
// many where that is glibc.
CASE(cxx_signals_at_first_wait, 60) {
    struct Round {
        std::mutex m;
        std::condition_variable cv;
        std::atomic<bool> waits{false}, done{false};
    };
    for (int i = 0; i < iterations(300); i++) {
        auto round = std::make_unique<Round>();
        std::thread waiter([&] {
            std::unique_lock<std::mutex> lock(round->m);
            round->waits = true;
            round->cv.wait(lock, [&] { return round->done.load(); });
        });
        while (!round->waits)
            round->cv.notify_one();
        for (int k = 0; k < 20; k++)
            round->cv.notify_all();
        {
            std::lock_guard<std::mutex> guard(round->m);
            round->done = true;
        }
        round->cv.notify_one();
        waiter.join();
    }
    yes("every thread woke", true);
}

CASE(cxx_stop_token, 60) {
    std::mutex m;
    std::condition_variable_any cv;
    for (int i = 0; i < iterations(100); i++) {
        bool stopped = false;
        std::jthread worker([&](std::stop_token token) {
            std::unique_lock<std::mutex> lock(m);
            stopped = !cv.wait(lock, token, [] { return false; });
        });
        if (i % 2)
            usleep(100);
        worker.request_stop();
        worker.join();
        must(stopped);
    }
    yes("every wait was stopped", true);
    std::stop_source source;
    std::unique_lock<std::mutex> lock(m);
    yes("timed wait with a token times out", !cv.wait_for(lock, source.get_token(), 10ms, [] { return false; }));
    source.request_stop();
    yes("stopped before the wait", !cv.wait(lock, source.get_token(), [] { return false; }));
}

CASE(cxx_notify_at_thread_exit, 30) {
    std::mutex m;
    std::condition_variable cv;
    for (int i = 0; i < iterations(50); i++) {
        bool ready = false;
        std::thread t([&] {
            std::unique_lock<std::mutex> lock(m);
            ready = true;
            std::notify_all_at_thread_exit(cv, std::move(lock));
        });
        {
            std::unique_lock<std::mutex> lock(m);
            cv.wait(lock, [&] { return ready; });
        }
        t.join();
    }
    yes("every round", true);
}

// A condition variable destroyed right after notify_all, as a request object on the stack would be.
CASE(cxx_destroyed_after_notify, 30) {
    for (int i = 0; i < iterations(200); i++) {
        std::mutex m;
        auto cv = std::make_unique<std::condition_variable>();
        bool go = false, waiting = false;
        std::thread waiter([&] {
            std::unique_lock<std::mutex> lock(m);
            waiting = true;
            while (!go)
                cv->wait(lock);
        });
        for (bool seen = false; !seen;) {
            std::lock_guard<std::mutex> guard(m);
            seen = waiting;
        }
        {
            std::lock_guard<std::mutex> guard(m);
            go = true;
            cv->notify_all();
            cv.reset(); // the waiter has yet to get the mutex back
        }
        waiter.join();
    }
    yes("every round", true);
}

// glibc's destructor of a condition variable with static storage waits for ever for a waiter nobody wakes, so
// the process never ends; ending is better.
namespace {
std::mutex static_mutex;
std::condition_variable static_cv;
} // namespace

CASE(cxx_static_destroyed_with_waiter, 20) {
    int *outcome = static_cast<int *>(shared_memory(sizeof(int)));
    pid_t child = fork_child();
    if (child == 0) {
        bool waiting = false;
        std::thread([&] {
            std::unique_lock<std::mutex> lock(static_mutex);
            waiting = true;
            for (;;)
                static_cv.wait(lock);
        }).detach();
        for (bool seen = false; !seen;) {
            std::lock_guard<std::mutex> guard(static_mutex);
            seen = waiting;
        }
        std::signal(SIGALRM, SIG_DFL);
        alarm(1);
        set(outcome, 1);
        std::exit(0);
    }
    bool ended = child_ok(child);
    yes("reached exit", get(outcome) == 1);
    note("process", ended ? "ends" : "never ends");
}
