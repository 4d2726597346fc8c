#pragma once
#include <attune/ir/graph_ir.hpp>
#include <attune/runtime/tensor.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

/// The reference evaluator: the meaning of a graph, computed in double precision from its flat list. Kernels, examples
/// and the tuner's candidates are compared with it.
///
/// It shares only that list with the generators, and works row by row, without tiles or online softmax. It is meant to
/// be read.
///
/// -infinity means masked, in rows and outputs as in scores. It stays -infinity through arithmetic (pointwise.hpp), so
/// that `lse / 0.693` of an empty row is -infinity and `exp(lse - top)` is 0, even if top is -infinity too. A masked
/// pair has the score -infinity and the weight 0, whatever multiplies it.
namespace attune::reference {

/// A tensor or a number under the name that the graph reads; names that it does not read are ignored, so that a whole
/// file can be passed. `kv_lengths`, i32 (batch), is optional; without it key_length counts. So is `cu_seqlens_q`, i32
/// (batch + 1): the results are then those of one call for each sequence, laid out as a call with it lays them out.
/// Outputs may be passed too, for sizes that no input has.
struct argument {
    std::string_view name;
    std::variant<tensor, double> value;
};

struct options {
    std::vector<std::int64_t> rows = {};      ///< which queries to compute; all of them if empty
    bool keep_visible = false;                ///< fill results::visible
    std::int64_t depth = 0, value_depth = 0;  ///< the kernel's: needed only where no input (for value_depth: nor output
                                              ///< passed) has that axis
};

/// One named output, dense, outermost axis first. Its query axis counts the chosen rows; sums over the queries are over
/// all of them.
struct array {
    std::string name;
    std::vector<std::int64_t> shape;  ///< output (b, h, rows, dv); row (b, h, rows); scores and weights (b, h, rows,
                                      ///< lk); column (b, h, lk); head_mean (b, rows, lk); tokens (b, rows, width);
                                      ///< precomputed (b, h, its indices); gradient: its input's
    std::vector<double> values;
    int query_axis = 2;  ///< -1: none
};

struct results {
    std::vector<std::int64_t> rows;  ///< the queries computed, in the order of the arrays' length axis
    std::vector<array> outputs;      ///< in the graph's order
    std::vector<array> stored;       ///< each input that the graph stores to, whole, as it is afterwards
    std::vector<std::uint8_t>
        visible;  ///< (b, h, rows, lk): 1 where any softmax, log-sum-exp or other statistic of the graph sees the pair

    /// The output or stored input of that name; throws std::out_of_range, naming those that exist.
    const array& operator[](std::string_view name) const;

    /// The distance of a tensor that a kernel wrote from the output or stored input of that name: `largest_error`
    /// below.
    double largest_error(std::string_view name, const tensor& got) const;
};

/// The axes of an output, outermost first; for a precomputed tensor those before its indices, for a gradient none.
std::vector<axis_kind> axes_of(kind output);

/// Evaluates every output of the graph. Stores of the graph are written to copies of the arguments, which it then
/// reads; the arguments stay as they are. Throws std::invalid_argument if an input that the graph reads is missing or
/// has another rank, a row is out of range, or the graph has an unknown operation. What else a call refuses is not
/// looked at here: `evaluate_call` of attune/reference.hpp does that.
results evaluate(const graph_ir& graph, std::span<const argument> arguments, const options& how = {});

/// The largest absolute difference between a float output of a kernel and the reference, over the computed rows. The
/// error is infinite if infinities do not agree exactly, or if an element is NaN and not in the reference. Throws
/// std::invalid_argument if shapes differ.
double largest_error(const tensor& got, const array& expected, std::span<const std::int64_t> rows);

}  // namespace attune::reference
