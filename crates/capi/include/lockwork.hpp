// Lockwork for C++17: mutexes, reader-writer locks and delegates whose algorithm is named at run time, over lockwork.h.
//
//     lockwork::mutex mutex("gcr(mcs-stp)");
//     std::lock_guard guard(mutex);
#ifndef LOCKWORK_HPP
#define LOCKWORK_HPP

#include <lockwork.h>

#include <cerrno>
#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

namespace lockwork {

namespace detail {

// Throws what an error number stands for: std::invalid_argument with the reason of an EINVAL, else std::system_error.
inline void check(int error, const char *what) {
    if (error == EINVAL) {
        throw std::invalid_argument(std::string("lockwork: ") + lockwork_error());
    }
    if (error != 0) {
        throw std::system_error(error, std::generic_category(), what);
    }
}

// A time on a clock that the C functions know.
struct deadline {
    clockid_t clock;
    timespec time;
};

inline timespec to_timespec(std::chrono::nanoseconds since_origin) {
    using std::chrono::seconds;
    auto whole = std::chrono::duration_cast<seconds>(since_origin);
    if (whole > since_origin) {
        whole -= seconds(1);
    }
    return {static_cast<time_t>(whole.count()), static_cast<long>((since_origin - whole).count())};
}

// In nanoseconds, rounded up; what they cannot hold, 292 years, is for ever.
template <class Rep, class Period>
std::chrono::nanoseconds in_nanoseconds(const std::chrono::duration<Rep, Period> &time) {
    using std::chrono::nanoseconds;
    constexpr long double most = 9.2e9L;
    const auto seconds = std::chrono::duration<long double>(time).count();
    if (seconds > most) {
        return nanoseconds::max();
    }
    if (!(seconds >= -most)) {
        return nanoseconds::min();
    }
    return std::chrono::ceil<nanoseconds>(time);
}

// The sum, or the farthest time there is.
inline std::chrono::nanoseconds sum(std::chrono::nanoseconds one, std::chrono::nanoseconds other) {
    using std::chrono::nanoseconds;
    if (other > nanoseconds::zero() && one > nanoseconds::max() - other) {
        return nanoseconds::max();
    }
    if (other < nanoseconds::zero() && one < nanoseconds::min() - other) {
        return nanoseconds::min();
    }
    return one + other;
}

inline deadline after(std::chrono::nanoseconds time) {
    const auto now = in_nanoseconds(std::chrono::steady_clock::now().time_since_epoch());
    return {CLOCK_MONOTONIC, to_timespec(sum(now, time))};
}

template <class Duration>
deadline at(const std::chrono::time_point<std::chrono::system_clock, Duration> &time) {
    return {CLOCK_REALTIME, to_timespec(in_nanoseconds(time.time_since_epoch()))};
}

template <class Duration>
deadline at(const std::chrono::time_point<std::chrono::steady_clock, Duration> &time) {
    return {CLOCK_MONOTONIC, to_timespec(in_nanoseconds(time.time_since_epoch()))};
}

// Any other clock is read now, and the rest of the time measured on the steady one.
template <class Clock, class Duration>
deadline at(const std::chrono::time_point<Clock, Duration> &time) {
    const auto now = in_nanoseconds(Clock::now().time_since_epoch());
    return after(sum(in_nanoseconds(time.time_since_epoch()), -now));
}

// Whether a timed operation succeeded; throws on other errors than the end of the time.
inline bool in_time(int error, const char *what) {
    if (error == ETIMEDOUT || error == EBUSY) {
        return false;
    }
    check(error, what);
    return true;
}

}  // namespace detail

// A mutex: Lockable and TimedLockable, for std::lock_guard, std::unique_lock and std::condition_variable_any.
class mutex {
public:
    using native_handle_type = lockwork_mutex_t *;

    // The default lock.
    constexpr mutex() noexcept = default;

    // The lock that `spec` describes. Throws std::invalid_argument, which says what is wrong with it.
    explicit mutex(const char *spec) { detail::check(lockwork_mutex_init(&native_, spec), "lockwork_mutex_init"); }
    explicit mutex(const std::string &spec) : mutex(spec.c_str()) {}

    mutex(const mutex &) = delete;
    mutex &operator=(const mutex &) = delete;
    ~mutex() { lockwork_mutex_destroy(&native_); }

    void lock() { detail::check(lockwork_mutex_lock(&native_), "lockwork_mutex_lock"); }
    bool try_lock() { return lockwork_mutex_trylock(&native_) == 0; }
    void unlock() { lockwork_mutex_unlock(&native_); }

    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &time) {
        return lock_by(detail::after(detail::in_nanoseconds(time)));
    }

    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &time) {
        return lock_by(detail::at(time));
    }

    native_handle_type native_handle() noexcept { return &native_; }

private:
    bool lock_by(const detail::deadline &deadline) {
        return detail::in_time(lockwork_mutex_clocklock(&native_, deadline.clock, &deadline.time), "lockwork_mutex_clocklock");
    }

    lockwork_mutex_t native_ = LOCKWORK_MUTEX_INITIALIZER;
};

// A reader-writer lock, for std::shared_lock and std::unique_lock.
class shared_mutex {
public:
    using native_handle_type = lockwork_rwlock_t *;

    // The default lock.
    constexpr shared_mutex() noexcept = default;

    // The lock that `spec` describes. Throws std::invalid_argument, which says what is wrong with it.
    explicit shared_mutex(const char *spec) { detail::check(lockwork_rwlock_init(&native_, spec), "lockwork_rwlock_init"); }
    explicit shared_mutex(const std::string &spec) : shared_mutex(spec.c_str()) {}

    shared_mutex(const shared_mutex &) = delete;
    shared_mutex &operator=(const shared_mutex &) = delete;
    ~shared_mutex() { lockwork_rwlock_destroy(&native_); }

    void lock() { detail::check(lockwork_rwlock_wrlock(&native_), "lockwork_rwlock_wrlock"); }
    bool try_lock() { return lockwork_rwlock_trywrlock(&native_) == 0; }
    void unlock() { lockwork_rwlock_unlock(&native_); }

    void lock_shared() { detail::check(lockwork_rwlock_rdlock(&native_), "lockwork_rwlock_rdlock"); }
    bool try_lock_shared() { return lockwork_rwlock_tryrdlock(&native_) == 0; }
    void unlock_shared() { lockwork_rwlock_unlock(&native_); }

    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &time) {
        return lock_by(detail::after(detail::in_nanoseconds(time)));
    }

    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &time) {
        return lock_by(detail::at(time));
    }

    template <class Rep, class Period>
    bool try_lock_shared_for(const std::chrono::duration<Rep, Period> &time) {
        return lock_shared_by(detail::after(detail::in_nanoseconds(time)));
    }

    template <class Clock, class Duration>
    bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration> &time) {
        return lock_shared_by(detail::at(time));
    }

    native_handle_type native_handle() noexcept { return &native_; }

private:
    bool lock_by(const detail::deadline &deadline) {
        return detail::in_time(lockwork_rwlock_clockwrlock(&native_, deadline.clock, &deadline.time),
                               "lockwork_rwlock_clockwrlock");
    }

    bool lock_shared_by(const detail::deadline &deadline) {
        return detail::in_time(lockwork_rwlock_clockrdlock(&native_, deadline.clock, &deadline.time),
                               "lockwork_rwlock_clockrdlock");
    }

    lockwork_rwlock_t native_ = LOCKWORK_RWLOCK_INITIALIZER;
};

// A value behind a delegate: closures run on it one at a time, in the calling thread or in another.
template <class T>
class delegated {
public:
    // The default delegate.
    delegated() : delegated(static_cast<const char *>(nullptr)) {}

    // The delegate that `spec` describes, and a value made of the rest. Throws std::invalid_argument, which says what is wrong.
    template <class... Arguments>
    explicit delegated(const char *spec, Arguments &&...arguments) : value_(std::forward<Arguments>(arguments)...) {
        detail::check(lockwork_delegate_init(&native_, spec), "lockwork_delegate_init");
    }

    delegated(const delegated &) = delete;
    delegated &operator=(const delegated &) = delete;
    ~delegated() { lockwork_delegate_destroy(&native_); }

    // Runs section(value), and returns what it returns. An exception of the section is thrown here. Throws std::system_error
    // with EDEADLK inside a section on the same value.
    template <class Section>
    auto run(Section &&section) -> std::invoke_result_t<Section, T &> {
        using result = std::invoke_result_t<Section, T &>;
        call<Section, result> request{value_, section, {}, {}};
        detail::check(lockwork_delegate_execute(&native_, &call<Section, result>::run, &request, nullptr),
                      "lockwork_delegate_execute");
        if (request.thrown) {
            std::rethrow_exception(request.thrown);
        }
        if constexpr (!std::is_void_v<result>) {
            return static_cast<result>(std::move(*request.returned));
        }
    }

    lockwork_delegate_t *native_handle() noexcept { return &native_; }

private:
    struct nothing {};

    template <class Section, class Result>
    struct call {
        using kept = std::conditional_t<
            std::is_void_v<Result>, nothing,
            std::conditional_t<std::is_reference_v<Result>, std::reference_wrapper<std::remove_reference_t<Result>>, Result>>;

        T &value;
        Section &section;
        std::optional<kept> returned;
        std::exception_ptr thrown;

        static void *run(void *self) {
            auto &request = *static_cast<call *>(self);
            try {
                if constexpr (std::is_void_v<Result>) {
                    std::invoke(std::forward<Section>(request.section), request.value);
                } else {
                    request.returned.emplace(std::invoke(std::forward<Section>(request.section), request.value));
                }
            } catch (...) {
                request.thrown = std::current_exception();
            }
            return nullptr;
        }
    };

    T value_{};
    lockwork_delegate_t native_ = LOCKWORK_DELEGATE_INITIALIZER;
};

}  // namespace lockwork

#endif
