#pragma once
#include <sched.h>

#include <stop_token>
#include <thread>
#include <vector>

namespace bench {

/// Takes CPUs from the calls, the last ones, as another program would: a thread on each that never waits.
class neighbours {
public:
    explicit neighbours(int count) {
        for (int i = 0; i < count; ++i)
            threads_.emplace_back([i](const std::stop_token& end) {
                cpu_set_t one;
                CPU_ZERO(&one);
                CPU_SET(static_cast<int>(std::thread::hardware_concurrency()) - 1 - i, &one);
                ::sched_setaffinity(0, sizeof one, &one);
                while (!end.stop_requested()) {
                }
            });
    }

private:
    std::vector<std::jthread> threads_;
};

}  // namespace bench
