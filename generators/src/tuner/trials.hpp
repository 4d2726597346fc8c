#pragma once
#include "kernel/kernel_list.hpp"
#include "schedules/shape_bucket.hpp"
#include "tuner/device_access.hpp"
#include "tuner/statistics.hpp"

#include <attune/runtime/detail/kernel_table.hpp>
#include <attune/workload.hpp>

#include <map>
#include <mutex>
#include <string>
#include <tuple>

namespace attune::generators::inline tuner {

/// Converts the tensors whose element types the graph leaves open to the kernel's element types.
void convert(support::workload& call, const kernel_request& of);

/// Compares kernels of one graph with the double-precision reference, by calls at the edges of their tiles and blocks.
/// Several threads may ask at a time.
class checked_calls {
public:
    /// `target`: a GPU's, for kernels that run there; else empty.
    explicit checked_calls(const listed_kernel& of, std::string_view target = {});

    /// Empty if all results are right, else a sentence that says which call was wrong and by how much.
    std::string wrong(const kernel_table& made, const schedule& cut);

private:
    struct check_call {
        call_shape shape;
        std::vector<std::int64_t> rows;         ///< rows that are compared; all if empty
        std::vector<std::int32_t> key_lengths;  ///< kv_lengths, if any
        auto key() const { return std::tie(shape.batches, shape.heads, shape.queries, shape.keys, rows, key_lengths); }
        bool operator<(const check_call& other) const { return key() < other.key(); }
    };
    std::string wrong(const kernel_table& made, const check_call& call);
    support::workload workload_of(const check_call& call) const;
    const reference::results& expected(const check_call& call);

    listed_kernel of_;
    std::string target_;
    bool grows_with_distance_;
    std::mutex mutex_;
    std::map<check_call, reference::results> expected_;
};

/// One call by which kernels of one graph are timed.
class timed_call {
public:
    /// `there`: the kernels' GPU, whose memory then holds all tensors; else null.
    timed_call(const listed_kernel& of, const call_shape& shape, int threads, device_access* there = nullptr);

    /// Seconds of the fastest call of those that fill `at_least` seconds, at least one. The fastest counts because
    /// other work on the machine only makes calls slower.
    double seconds(const kernel_table& made, double at_least);

    /// The same for two kernels, one after the other. Every other round the challenger is first, because a run changes
    /// the caches for the next.
    round_times seconds(const kernel_table& incumbent, const kernel_table& challenger, double at_least,
                        std::size_t round);

private:
    support::workload workload_;
    std::vector<attune::detail::named_argument> arguments_;
    std::vector<std::shared_ptr<void>> there_;  ///< the GPU's memory
    options how_;
};

}  // namespace attune::generators::inline tuner
