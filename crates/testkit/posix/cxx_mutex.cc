// The mutexes of the C++ standard library, which call the POSIX functions (timed ones by clocklock).
#include "suite.h"

#include <barrier>
#include <chrono>
#include <functional>
#include <future>
#include <latch>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <system_error>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Wall = std::chrono::system_clock;

namespace {

template <class F> bool elsewhere(F &&f) {
    bool value = false;
    std::thread([&] { value = f(); }).join();
    return value;
}

template <class M> bool free_for_others(M &m) {
    return elsewhere([&] {
        bool got = m.try_lock();
        if (got)
            m.unlock();
        return got;
    });
}

template <class M> void contest(M &m, int full_rounds) {
    int rounds = iterations(full_rounds), count = threads(4);
    long counter = 0;
    std::vector<std::thread> pool;
    for (int i = 0; i < count; i++)
        pool.emplace_back([&] {
            for (int k = 0; k < rounds; k++) {
                std::lock_guard<M> guard(m);
                counter++;
            }
        });
    for (auto &t : pool)
        t.join();
    yes("no increment lost", counter == long(rounds) * count);
}

template <class M> void basic(M &m) {
    m.lock();
    yes("held", !free_for_others(m));
    m.unlock();
    yes("free", free_for_others(m));
    yes("try_lock", m.try_lock());
    yes("held after try_lock", !free_for_others(m));
    m.unlock();
    {
        std::unique_lock<M> lock(m, std::try_to_lock);
        yes("unique_lock owns", lock.owns_lock());
        yes("held", !free_for_others(m));
        lock.unlock();
        yes("free", free_for_others(m));
        lock.lock();
    }
    yes("free at the end", free_for_others(m));
}

template <class M> void timed(M &m) {
    yes("try_lock_for on a free one", m.try_lock_for(10ms));
    yes("try_lock_for times out", !elsewhere([&] { return m.try_lock_for(15ms); }));
    yes("try_lock_until steady times out", !elsewhere([&] { return m.try_lock_until(Clock::now() + 15ms); }));
    yes("try_lock_until system times out", !elsewhere([&] { return m.try_lock_until(Wall::now() + 15ms); }));
    yes("try_lock_until the past", !elsewhere([&] { return m.try_lock_until(Clock::time_point{}); }));
    yes("try_lock_for a negative time", !elsewhere([&] { return m.try_lock_for(-1s); }));
    std::latch started(1);
    auto waiter = std::async(std::launch::async, [&] {
        started.count_down();
        bool got = m.try_lock_for(60s);
        if (got)
            m.unlock();
        return got;
    });
    started.wait();
    sleep_ms(5);
    m.unlock();
    yes("waiter got it", waiter.get());
    yes("try_lock_until the past on a free one", m.try_lock_until(Wall::time_point{}));
    m.unlock();
}

template <class M> void recursion(M &m) {
    m.lock();
    yes("try_lock again", m.try_lock());
    m.lock();
    m.unlock();
    m.unlock();
    yes("held", !free_for_others(m));
    m.unlock();
    yes("free", free_for_others(m));
}

template <class M> void sharing(M &m) {
    m.lock_shared();
    yes("others share", elsewhere([&] {
            bool got = m.try_lock_shared();
            if (got)
                m.unlock_shared();
            return got;
        }));
    yes("no writer", !free_for_others(m));
    m.unlock_shared();
    m.lock();
    yes("no reader", !elsewhere([&] { return m.try_lock_shared(); }));
    m.unlock();
    yes("free", free_for_others(m));

    int rounds = iterations(5000), count = threads(4);
    long a = 0, b = 0;
    int torn = 0;
    std::vector<std::thread> pool;
    for (int i = 0; i < count; i++)
        pool.emplace_back([&, i] {
            for (int k = 0; k < rounds; k++)
                if ((k + i) % 5 == 0) {
                    std::unique_lock<M> lock(m);
                    a++, b++;
                } else {
                    std::shared_lock<M> lock(m);
                    if (a != b)
                        add(&torn, 1);
                }
        });
    for (auto &t : pool)
        t.join();
    yes("no torn read", torn == 0);
    yes("all written", a == b && a > 0);
}

} // namespace

CASE(cxx_mutex, 60) {
    std::mutex m;
    basic(m);
    contest(m, 20000);
}

CASE(cxx_recursive_mutex, 60) {
    std::recursive_mutex m;
    recursion(m);
    contest(m, 10000);
}

CASE(cxx_timed_mutex, 60) {
    std::timed_mutex m;
    basic(m);
    timed(m);
    contest(m, 10000);
}

CASE(cxx_recursive_timed_mutex, 60) {
    std::recursive_timed_mutex m;
    recursion(m);
    timed(m);
    contest(m, 10000);
}

CASE(cxx_shared_mutex, 60) {
    std::shared_mutex m;
    basic(m);
    sharing(m);
    contest(m, 5000);
}

CASE(cxx_shared_timed_mutex, 60) {
    std::shared_timed_mutex m;
    basic(m);
    sharing(m);
    timed(m);
    m.lock();
    yes("try_lock_shared_for times out", !elsewhere([&] { return m.try_lock_shared_for(15ms); }));
    yes("try_lock_shared_until times out", !elsewhere([&] { return m.try_lock_shared_until(Wall::now() + 15ms); }));
    m.unlock();
}

// libstdc++ reports EDEADLK of the rwlock as an exception.
CASE(cxx_shared_mutex_deadlock, 20) {
    std::shared_mutex m;
    m.lock();
    try {
        m.lock();
        note("relock", "returned");
    } catch (const std::system_error &e) {
        note("relock", e.code() == std::errc::resource_deadlock_would_occur ? "deadlock reported" : "other error");
    }
    m.unlock();
}

CASE(cxx_unique_lock_errors, 10) {
    std::mutex m;
    std::unique_lock<std::mutex> lock(m);
    try {
        lock.lock();
    } catch (const std::system_error &e) {
        yes("relock reported", e.code() == std::errc::resource_deadlock_would_occur);
    }
    lock.unlock();
    try {
        lock.unlock();
    } catch (const std::system_error &e) {
        yes("unlock reported", e.code() == std::errc::operation_not_permitted);
    }
    yes("free", free_for_others(m));
}

// Three threads take the same three mutexes in different orders; std::lock avoids the deadlock.
CASE(cxx_scoped_lock, 60) {
    std::mutex a;
    std::recursive_mutex b;
    std::timed_mutex c;
    long counter = 0;
    int rounds = iterations(3000);
    auto run = [&](auto &x, auto &y, auto &z) {
        for (int i = 0; i < rounds; i++) {
            std::scoped_lock lock(x, y, z);
            counter++;
        }
    };
    std::thread one([&] { run(a, b, c); }), two([&] { run(c, a, b); }), three([&] { run(b, c, a); });
    one.join(), two.join(), three.join();
    yes("no increment lost", counter == 3L * rounds);
}

CASE(cxx_call_once, 30) {
    std::once_flag flag;
    int calls = 0, attempts = 0;
    std::vector<std::thread> pool;
    for (int i = 0; i < 8; i++)
        pool.emplace_back([&] {
            try {
                std::call_once(flag, [&] {
                    if (++attempts < 3)
                        throw 1;
                    calls++;
                });
            } catch (int) {
            }
        });
    for (auto &t : pool)
        t.join();
    yes("done once, after two failures", calls == 1 && attempts == 3);
}

// Futex-based in libstdc++, no POSIX lock inside: they must work beside ours.
CASE(cxx_latch_barrier_semaphore, 30) {
    std::latch done(4);
    std::barrier<> sync(4);
    std::counting_semaphore<2> two(2);
    std::mutex m;
    int inside = 0, most = 0;
    std::vector<std::thread> pool;
    for (int i = 0; i < 4; i++)
        pool.emplace_back([&] {
            for (int k = 0; k < 50; k++) {
                sync.arrive_and_wait();
                two.acquire();
                {
                    std::lock_guard<std::mutex> guard(m);
                    most = std::max(most, ++inside);
                }
                {
                    std::lock_guard<std::mutex> guard(m);
                    inside--;
                }
                two.release();
            }
            done.count_down();
        });
    done.wait();
    for (auto &t : pool)
        t.join();
    yes("never more than two", most >= 1 && most <= 2);
}

CASE(cxx_futures, 30) {
    std::vector<std::future<int>> futures;
    for (int i = 0; i < 20; i++)
        futures.push_back(std::async(std::launch::async, [i] { return i; }));
    int sum = 0;
    for (auto &f : futures)
        sum += f.get();
    yes("sum", sum == 190);
    std::promise<int> promise;
    auto future = promise.get_future();
    yes("not ready", future.wait_for(5ms) == std::future_status::timeout);
    std::thread([&] { promise.set_value_at_thread_exit(3); }).join();
    yes("ready", future.get() == 3);
}
