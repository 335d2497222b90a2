// Closures under the delegate that the first argument names.
#include <lockwork.hpp>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#define CHECK(what)                                                          \
    do {                                                                     \
        if (!(what)) {                                                       \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
            std::exit(1);                                                    \
        }                                                                    \
    } while (0)

int main(int, char **arguments) {
    const char *spec = arguments[1];
    lockwork::delegated<std::map<int, std::string>> map(spec);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 6; thread++) {
        threads.emplace_back([&map, thread] {
            for (int round = 0; round < 500; round++) {
                int key = thread * 500 + round;
                std::string text = std::to_string(key);
                bool inserted = map.run([&](auto &map) { return map.emplace(key, text).second; });
                CHECK(inserted);
                std::unique_ptr<std::string> found =
                    map.run([&](auto &map) { return std::make_unique<std::string>(map.at(key)); });
                CHECK(*found == text);
                try {
                    map.run([&](auto &map) { map.at(-1 - key); });
                    CHECK(false);
                } catch (const std::out_of_range &) {
                }
            }
        });
    }
    for (auto &thread : threads) thread.join();
    CHECK(map.run([](auto &map) { return map.size(); }) == 3000);
    std::string &first = map.run([](auto &map) -> std::string & { return map.at(0); });
    CHECK(first == "0");

    bool refused = false;
    map.run([&](auto &) {
        try {
            map.run([](auto &) {});
        } catch (const std::system_error &error) {
            refused = error.code().value() == EDEADLK;
        }
    });
    CHECK(refused);
    try {
        lockwork::delegated<int> none("tiket", 1);
        CHECK(false);
    } catch (const std::invalid_argument &error) {
        CHECK(std::string(error.what()).find("unknown delegate") != std::string::npos);
    }
    lockwork::delegated<int> count(spec, 41);
    CHECK(count.run([](int &count) { return ++count; }) == 42);
    std::puts("ok");
}
