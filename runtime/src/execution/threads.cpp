#include "execution/threads.hpp"

#include "base/cpu_quota.hpp"
#include "base/text.hpp"

#include <attune/runtime/error.hpp>
#include <attune/runtime/threads.hpp>

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>

namespace attune {
namespace {

constexpr int most_threads = 4096;  // beyond it is a mistake, not a machine
std::atomic<int> chosen{0};

int cpus_of_affinity() {
#if defined(__linux__)
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// With more threads than its quota has CPUs, a container would run for a part of each period and wait for the rest.
int usable_cpus() {
    const int cpus = cpus_of_affinity(), granted = detail::cpus_of_quota();
    return granted > 0 ? std::min(cpus, granted) : cpus;
}

int checked(int count, std::string_view from) {
    if (count < 0 || count > most_threads)
        detail::fail(detail::say("a number of threads from 0 (the default) to ", most_threads, " in ", from),
                     std::to_string(count), "0 or the number of CPUs");
    return count;
}

}  // namespace

void set_threads(int count) { chosen = checked(count, "attune::set_threads"); }

int threads() {
    if (const int count = chosen) return count;
    if (const char* const text = std::getenv("ATTUNE_THREADS"); text && *text) {
        const std::string_view given = text;
        int count = 0;
        const auto end = std::from_chars(given.data(), given.data() + given.size(), count).ptr;
        if (end != given.data() + given.size() || count < 1 || count > most_threads)  // 0 of what is no int
            detail::fail(detail::say("a number of threads from 1 to ", most_threads, " in ATTUNE_THREADS"),
                         std::string(given), "the number of CPUs, or leaving it unset");
        return count;
    }
    static const int cpus = usable_cpus();
    return cpus;
}

namespace detail {
namespace {
thread_local constinit led_team led{};
}  // namespace

const led_team& team_of_this_thread() { return led; }
leading::leading(led_team team) : before_(std::exchange(led, team)) {}
leading::~leading() { led = before_; }

int threads_of(int asked) {
    if (checked(asked, "attune::options") > 0) return asked;
    return led.workers > 0 ? led.workers : threads();
}

namespace {

bool is_set(const char* variable) {
    const char* const text = std::getenv(variable);
    const std::string_view given = text ? text : "";
    if (!given.empty() && given != "0" && given != "1")
        fail(say("0 or 1 in ", variable), given, "1, or leaving it unset");
    return given == "1";
}

}  // namespace

bool is_deterministic(const options& how) { return is_set("ATTUNE_DETERMINISTIC") || how.deterministic; }
bool is_checked(const options& how) { return is_set("ATTUNE_CHECKED") || how.checked; }

#if defined(__linux__)
int current_cpu() { return sched_getcpu(); }

void leave_cpu(int cpu) {
    cpu_set_t usable;
    CPU_ZERO(&usable);
    if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof usable, &usable) != 0 ||
        !CPU_ISSET(cpu, &usable) || CPU_COUNT(&usable) < 2)
        return;
    cpu_set_t others = usable;
    CPU_CLR(cpu, &others);
    if (sched_setaffinity(0, sizeof others, &others) == 0) sched_setaffinity(0, sizeof usable, &usable);
}
#else
int current_cpu() { return -1; }
void leave_cpu(int) {}
#endif
}  // namespace detail

}  // namespace attune
