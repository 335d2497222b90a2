// Objects with static storage in C++: locks in their constructors and destructors, and in thread_local destructors.
#include "suite.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>

namespace {

std::mutex registry_mutex;
std::recursive_mutex recursive;
std::shared_mutex shared;
std::condition_variable cv;
int registered;

struct Registrar {
    bool locked_in_constructor;
    Registrar() {
        std::lock_guard<std::mutex> guard(registry_mutex);
        std::lock_guard<std::recursive_mutex> once(recursive), twice(recursive);
        std::unique_lock<std::shared_mutex> writer(shared);
        registered++;
        locked_in_constructor = true;
    }
    ~Registrar() {
        std::lock_guard<std::mutex> guard(registry_mutex);
        std::shared_lock<std::shared_mutex> reader(shared);
        cv.notify_all();
        registered--;
    }
};

Registrar one, two;

struct Singleton {
    std::mutex m;
    std::map<int, std::string> names;
    static Singleton &get() {
        static Singleton instance;
        return instance;
    }
};

struct PerThread {
    int value = 1;
    ~PerThread() {
        std::lock_guard<std::mutex> guard(Singleton::get().m);
        Singleton::get().names[value] = "gone";
    }
};

thread_local PerThread per_thread;

int threads_made = [] {
    int n = 0;
    std::thread([&] { per_thread.value = 100, n = 1; }).join(); // a thread before main
    return n;
}();

} // namespace

CASE(cxx_static_constructors, 10) {
    yes("constructors locked", one.locked_in_constructor && two.locked_in_constructor && registered == 2);
    yes("thread before main", threads_made == 1);
    std::lock_guard<std::mutex> guard(Singleton::get().m);
    yes("its thread_local destructor locked", Singleton::get().names[100] == "gone");
}

CASE(cxx_thread_local_destructors, 30) {
    for (int i = 0; i < 20; i++)
        std::thread([i] { per_thread.value = i; }).join();
    std::lock_guard<std::mutex> guard(Singleton::get().m);
    int gone = 0;
    for (int i = 0; i < 20; i++)
        gone += Singleton::get().names[i] == "gone";
    yes("every destructor locked", gone == 20);
}

// The destructors of static objects run in exit(): a child goes through them.
CASE(cxx_static_destructors, 20) {
    pid_t child = fork_child();
    if (child == 0) {
        per_thread.value = 5;
        std::exit(registered == 2 ? 0 : 1);
    }
    yes("process ends well", child_ok(child));
}

CASE(cxx_exit_with_threads, 20) {
    pid_t child = fork_child();
    if (child == 0) {
        for (int i = 0; i < 2; i++)
            std::thread([] {
                for (;;) {
                    std::lock_guard<std::recursive_mutex> guard(recursive);
                    registered += 0;
                }
            }).detach();
        sleep_ms(2);
        std::exit(0);
    }
    yes("process ends well", child_ok(child));
}
