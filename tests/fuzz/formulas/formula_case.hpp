#pragma once
#include "passes.hpp"

#include <attune/workload.hpp>
#include "kernel/kernel_list.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

/// One kernel and one call of it, drawn from a seed or made smaller than that.
namespace fuzz {

struct formula_case {
    unsigned seed = 0;
    attune::testing::drawn_graph graph;
    passed kernel_of;
    std::string level, types;
    int depth = 0, value_depth = 0;
    attune::generators::schedule cut;
    attune::support::shape shape;
    std::map<std::string, std::int64_t> lengths;  ///< of free axes
    std::vector<std::int32_t> kv_lengths;         ///< none: all keys are in use
    /// Where each sequence's queries begin, the queries of the shape one after another; none: as many of each.
    std::vector<std::int32_t> cu_seqlens_q;
    int threads = 1;
    bool relaid = false;  ///< other orders of axes, gaps, strides below 0, memory between pages that may not be touched
    bool broadcast = false;   ///< extents of 1 and strides of 0
    bool hidden_nan = false;  ///< NaN in keys and values that no query sees
    bool extreme = false;     ///< -infinity and NaN in what formulas read, and integers at the ends of i32

    bool has_input(std::string_view name) const;
    bool stores_to(std::string_view input) const;
    /// The compiled variant. Throws std::invalid_argument if the graph has no gradient or shard.
    attune::testing::drawn_graph compiled() const { return kernel_of.graph(graph); }
    /// The kernel: of `variant`, of what is compiled, which has to live as long.
    attune::generators::listed_kernel kernel(const attune::generators::variant& variant) const;
    bool on_gpu() const { return attune::generators::level_named(level).is_gpu; }
    std::string kind() const;  ///< "graph", "storing graph", "packed gradient" ...
    std::string text() const;  ///< but for the graph
};

formula_case drawn_case(unsigned seed);

/// The same of a recurrence.
formula_case drawn_recurrence(unsigned seed);

/// Makes a case one for a GPU, with the schedule that a kernel has there by default. False for what has no kernels on
/// GPUs: gradients, shards' states, what is precomputed.
bool move_to(std::string_view target, formula_case& it);

/// The schedule that a kernel of this case has unless another is asked for.
attune::generators::schedule usual_schedule(const formula_case& of);

/// Shapes and lengths that fit the graph again, after either was made smaller. False where nothing can be compiled.
bool settle(formula_case& it);

enum class outcome_kind : std::uint8_t {
    agrees,
    refused,  ///< by the generators: a graph that is not one kernel
    failed,   ///< an exception that should not be
    wrong,    ///< other numbers than the reference's
    spilled,  ///< memory beside an output is written
    unequal,  ///< other bits with another number of threads
    crashed,
    slow
};
struct outcome {
    outcome_kind kind = outcome_kind::agrees;
    std::string text;
    double error = 0;  ///< the largest, as a part of what is allowed
};
std::string_view name_of(outcome_kind kind);

/// Compiles and calls, in this process. `mistaken`: the kernel takes the larger where the formula says the smaller of
/// two numbers, so that there is something to find.
outcome outcome_of(const formula_case& it, bool mistaken = false);

}  // namespace fuzz
