// lockwork.hpp with the standard library's guards and conditions.
#include <lockwork.hpp>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#define CHECK(condition)                                                      \
    do {                                                                      \
        if (!(condition)) {                                                   \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            std::exit(1);                                                     \
        }                                                                     \
    } while (0)

using namespace std::chrono_literals;

static lockwork::mutex standing;  // initialised before main, without code

int main(int argc, char **argv) {
    CHECK(argc == 3);
    lockwork::mutex mutex(argv[1]);
    lockwork::shared_mutex lock(argv[2]);
    long count = 0, written = 0;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; thread++) {
        threads.emplace_back([&] {
            for (int round = 0; round < 2000; round++) {
                {
                    std::scoped_lock both(mutex, standing);
                    count++;
                }
                {
                    std::unique_lock writer(lock);
                    written++;
                }
                std::shared_lock reader(lock);
                CHECK(written > 0);
            }
        });
    }
    for (auto &thread : threads) thread.join();
    CHECK(count == 8000 && written == 8000);

    std::unique_lock held(mutex);
    std::unique_lock writer(lock);
    std::thread([&] {
        CHECK(!mutex.try_lock() && !mutex.try_lock_for(1ms));
        CHECK(!mutex.try_lock_until(std::chrono::system_clock::now() + 1ms));
        CHECK(!lock.try_lock_shared_for(1ms) && !lock.try_lock_for(1ms));
        const std::chrono::duration<double> fraction(0.001);
        CHECK(!mutex.try_lock_for(fraction) && !mutex.try_lock_until(std::chrono::steady_clock::now() + fraction));
        CHECK(!lock.try_lock_for(fraction) && !lock.try_lock_shared_for(fraction));
        CHECK(!mutex.try_lock_for(std::chrono::hours::min()));
    }).join();
    writer.unlock();

    std::condition_variable_any condition;
    bool ready = false;
    std::thread signaller([&] {
        std::lock_guard guard(mutex);
        ready = true;
        condition.notify_one();
    });
    condition.wait(held, [&] { return ready; });
    held.unlock();
    signaller.join();

    // Times that nanoseconds cannot hold are far away, not past.
    std::unique_lock once_more(mutex);
    std::thread patient([&] {
        CHECK(mutex.try_lock_for(std::chrono::hours::max()));
        mutex.unlock();
        CHECK(mutex.try_lock_until(std::chrono::time_point<std::chrono::system_clock, std::chrono::hours>::max()));
        mutex.unlock();
    });
    std::this_thread::sleep_for(5ms);
    once_more.unlock();
    patient.join();

    try {
        lockwork::mutex wrong("tiket");
        CHECK(!"a lock of that name");
    } catch (const std::invalid_argument &error) {
        CHECK(std::string(error.what()).find("did you mean `ticket`") != std::string::npos);
    }
    std::puts("ok");
}
