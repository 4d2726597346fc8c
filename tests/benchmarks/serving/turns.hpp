#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <string>

/// What benchmarks of prompts share: kernels that are called in turns, and errors beside double precision.
namespace bench {

/// The largest error of some numbers, and the root of the mean square.
class errors {
public:
    void add(double is, double right) {
        const double error = std::abs(is - right);
        largest_ = std::max(largest_, error), squares_ += error * error, ++count_;
    }
    void print(const std::string& of) const {
        fmt::print("{:<42} error {:.2e} at most, {:.2e} rms\n", of, largest_,
                   std::sqrt(squares_ / static_cast<double>(count_)));
    }

private:
    double largest_{}, squares_{};
    std::size_t count_{};
};

/// Calls each kernel once, untimed, which `first` sees, then `rounds` times in turns with the others.
template <class Kernels, class Call, class First>
void call_in_turns(Kernels& kernels, int rounds, const Call& call, const First& first) {
    for (int round = 0; round <= rounds; ++round)
        for (auto& each : kernels) {
            const auto begin = std::chrono::steady_clock::now();
            call(each);
            const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
            if (round > 0)
                each.milliseconds.push_back(took.count());
            else
                first(each);
        }
}

/// The median and the least time of each kernel; as JSON the median alone, one object a line.
template <class Kernels> void print_times(Kernels& kernels, bool json) {
    for (auto& each : kernels) {
        std::ranges::sort(each.milliseconds);
        const double median = each.milliseconds[each.milliseconds.size() / 2];
        if (json)
            fmt::print("{{\"kernel\": \"{}\", \"ms\": {}}}\n", each.name, median);
        else
            fmt::print("{:<42} {:8.2f} ms (median), {:8.2f} at least\n", each.name, median, each.milliseconds.front());
    }
}

}  // namespace bench
