// Locks of C++ code, under its names.
#include "policy.h"

#include <mutex>

namespace {
std::mutex guard;
}

namespace store {

class Cache {
  public:
    Cache() {
        must(pthread_mutex_init(&mutex_, nullptr) == 0);
        KEEP_FRAME;
    }
    int get(int key);
    template <typename T> static int count(T value);
    static std::mutex shared;

  private:
    pthread_mutex_t mutex_;
    int last_ = 0;
};

std::mutex Cache::shared;

__attribute__((noinline)) int Cache::get(int key) {
    pthread_mutex_lock(&mutex_);
    last_ += key;
    pthread_mutex_unlock(&mutex_);
    static std::mutex local;
    std::lock_guard<std::mutex> hold(local);
    return last_;
}

template <typename T> __attribute__((noinline)) int Cache::count(T value) {
    static std::mutex local;
    std::lock_guard<std::mutex> hold(local);
    return static_cast<int>(value);
}

} // namespace store

__attribute__((noinline)) static store::Cache *make() {
    return new store::Cache;
}

int main() {
    store::Cache *one = make(), *two = make();
    {
        std::lock_guard<std::mutex> hold(guard);
        std::lock_guard<std::mutex> more(store::Cache::shared);
        must(one->get(1) + two->get(2) == 3);
        must(store::Cache::count(1) + store::Cache::count(1.5) == 2);
    }
    puts("done");
}
