#pragma once
#include "analysis/gradient_plan.hpp"
#include "expr/pointwise.hpp"
#include "plans/kernel_plan.hpp"

#include <attune/ir/recurrence.hpp>

#include <map>
#include <utility>
#include <vector>

namespace attune::generators::inline cpu {

/// The gradient of a recurrence, of a whole call.
///
/// A walk forward keeps the state before each chunk of tokens, a walk backwards the cotangent that each chunk leaves.
/// Chunks then need nothing of each other: each makes its own states S and their cotangents E again, token by token,
/// and the parts of its tokens from these. With S' = decay S before and w = key E, what the written values get:
///
///     E = E' + t(row) out,   E' = decay (E - erase t(read) w), both of the token after
///     value: w    key: E written    read: -erase S' w    erase: -w (read S')
///     decay: (E - erase t(read) w) S    row: S after, times out
///
/// Nothing is divided by a decay. Formulas of these parts are then added up at their places (deposits).
class recurrence_gradient {
public:
    recurrence_gradient(const kernel_request& request, const chunk_plan& planned);

    std::vector<Halide::Argument> arguments() const { return inputs_.arguments(); }
    std::vector<Halide::Func> outputs;  ///< in the graph's order
    void schedule();

private:
    struct axes {
        Halide::Var d{"d"}, e{"e"}, slot{"slot"}, i{"i"}, c{"c"}, t{"t"}, h{"h"}, b{"b"}, x{"x"}, p{"p"},
            lane{"lane"};  ///< channels of keys and of values, a row of a state, token of chunk, chunk, token of call,
                           ///< head, batch, number of a token, part, lane
    };
    struct sizes {
        int tokens, depth, value_depth, lanes;
        bool solves, by_channel;
    };
    /// Rows of the call's tokens: (channel, token, head, batch). Numbers of tokens have no channel.
    struct token_rows {
        Halide::Func key{"key"}, value{"value"}, read{"read"}, decay{"decay"}, erase{"erase"}, row{"row"},
            cotangent{"cotangent"};
    };
    /// Matrices one after the other: (value channel, row of the state, which one, ...). The row behind the last one
    /// holds a sum over the others. `each`: row, phase, token.
    struct walk {
        Halide::Func states;
        Halide::RDom each, first;  ///< first: rows of the matrix that it begins with
        std::vector<Halide::Var> others{};
    };
    struct walks {
        walk forward{Halide::Func("states_before_chunks"), {}, {}},
            back{Halide::Func("cotangents_after_chunks"), {}, {}}, first{Halide::Func("first_cotangents"), {}, {}},
            states{Halide::Func("chunk_states"), {}, {}}, cotangents{Halide::Func("chunk_cotangents"), {}, {}};
    };
    /// The parts of a chunk's tokens: (number, token of chunk, chunk, head, batch). `first_number`: where a part
    /// begins.
    struct part_stages {
        Halide::Func in_lanes{"in_lanes"}, row_sums{"row_sums"}, erased{"erased"}, of_chunk{"of_chunk"}, all{"all"};
        Halide::RDom vectors{}, lane{}, channels{};
        std::vector<step_part> along_depth{};  ///< parts that are sums over the value channels for each row of a state
        std::map<step_part, int> first_number{};
        int width = 0;
    };
    struct number {
        Halide::Func value, masked;
    };
    /// Deposits of one term: a stage of the output's sum. `along`: the axes that are loops of it, innermost first.
    struct stage {
        Halide::Func gradient;
        int update = 0;
        std::vector<Halide::Var> along{};
        bool by_channels = false;
    };
    /// Loops of a term that no axis of the gradient is.
    struct left_loops {
        std::vector<Halide::Range> ranges{};
        int add(const Halide::Expr& extent) {
            ranges.emplace_back(0, extent);
            return static_cast<int>(ranges.size()) - 1;
        }
    };

    const instruction& node(int n) const { return request_.graph().nodes[n]; }
    bool is_wanted(step_part part) const;
    bool has_row() const { return flow_.has_row(); }
    Halide::Expr tokens() const { return max(inputs_.query_length, 0); }
    Halide::Expr chunks() const { return (tokens() + size_.tokens - 1) / size_.tokens; }

    place at(const Halide::Expr& t, const Halide::Expr& h, const Halide::Expr& b) const;
    quantity evaluate(int n, const place& where) const { return pointwise(request_, inputs_, where)(n); }
    Halide::Expr part_at(int n, const std::vector<Halide::Expr>& channels, const place& where) const;
    void know_parts(place& where) const;
    void know_numbers(place& where, const std::vector<int>& roots, const std::vector<int>& known);
    std::vector<int> part_nodes() const;

    void define_rows();
    void define_row(Halide::Func& to, int n, bool of_values);
    void define_number(Halide::Func& to, int n);
    Halide::Expr decay_of(const Halide::Expr& d, const Halide::Expr& t) const;
    Halide::Expr erase_of(const Halide::Expr& t) const;
    Halide::Expr read_by_row(const Halide::Expr& d, const Halide::Expr& t) const;
    void begin(walk& of, const Halide::Expr& element, const std::vector<Halide::Var>& others, bool in_chunk,
               bool sums_first);
    void step_forward(walk& of, const Halide::Expr& from, const Halide::Expr& to, const Halide::Expr& t);
    void step_back(walk& of, const Halide::Expr& from, const Halide::Expr& to, const Halide::Expr& t);
    void define_walks();
    void define_cotangents_of_chunk();
    void define_parts();
    void define_outputs();
    void add_deposits(Halide::Func& gradient, int n);
    void add_deposit(Halide::Func& gradient, int n);
    struct added_part {
        int part = -1;
        counted_index over{};
    };
    added_part part_added_first(const instruction& deposit, int value, std::vector<counted_index>& over) const;
    Halide::Func added_first(int value, int part, const counted_index& over);
    void schedule_walk(walk& of) const;
    void schedule_parts();

    const kernel_request& request_;
    kernel_inputs inputs_;
    const cotangent_arguments flow_;
    const recurrence_arguments of_;
    const sizes size_;
    axes x_;
    token_rows rows_;
    walks walks_;
    part_stages parts_;
    std::map<int, number> numbers_;
    std::map<int, Halide::Func> added_;    ///< parts of values that are added up over channels first
    std::vector<Halide::Func> of_tokens_;  ///< functions of tokens, with a channel or without
    std::vector<stage> stages_;
};

}  // namespace attune::generators::inline cpu
