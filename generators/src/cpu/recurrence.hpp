#pragma once
#include "expr/pointwise.hpp"
#include "plans/kernel_plan.hpp"

#include <attune/ir/recurrence.hpp>

#include <deque>
#include <map>
#include <string>
#include <vector>

namespace attune::generators::inline cpu {

/// The sizes in a graph that decide how large the parts of a chunk are.
struct chunk_sizes {
    int tokens, pairs, depth, value_depth;  ///< pairs: pairs of key and value that a token writes to its state, 1 or 2
    bool by_channel, erases;  ///< whether decays differ along the channels of keys; whether anything is read
    int rows() const { return tokens * pairs; }
};

/// One chunk of tokens of a recurrence, for one state: that of one batch element, and of one head or the heads that
/// share a key head. U holds the rows that the chunk's tokens write to the state. A triangular system gives U; products
/// of matrices with U give the rows of the outputs and the state after the chunk (ir/recurrence.hpp has the recurrence
/// itself):
///
///     (I + A) U = values - erase decay (reads S),   A = strictly lower, erase decay (reads t(keys))
///     rows read = decay (q S) + P U,                P = lower, decay (q t(keys))
///     S after   = decay S + t(decayed keys) U
///
/// If a step has a second pair, a token writes two rows, that of the second pair first. Nothing is divided by a decay.
/// A decay over several tokens is a product, or the exponential of a sum of logarithms, and no other decay enlarges it.
class recurrent_chunk {
public:
    recurrent_chunk(const kernel_request& request, const chunk_plan& planned);

    std::vector<Halide::Argument> arguments() const;  ///< the inputs, then the place of the chunk
    std::vector<Halide::Func>
        outputs;  ///< outputs proper in the graph's order, then the state, as the plan places them
    void schedule();
    void fetch_rows(Halide::Pipeline& step) const;  ///< prefetches the rows that the plan names, of the next chunk

private:
    /// A row of the outputs' formulas that reads states; `before`: earlier(...).
    struct reader {
        int node, row;
        bool before;
        Halide::Func q_rows{"q_rows"}, q_decayed{"q_decayed"}, weights{"weights"}, of_state{"of_state"},
            rows_read{"rows_read"};
    };
    /// A product of matrices: sums over `along` for each x and y, and for each head of a group.
    struct product {
        Halide::Func result, sums;
        Halide::RVar along;
        Halide::Var x, y;
        int width, height;
        bool of_heads, triangular = false;  ///< triangular: a row has terms of some rows alone
        Halide::Func fading{};              ///< a factor that is computed at each step along
    };
    /// A function that is computed by vectors along its first axis, `width` wide. `row`: its node, a row of each token.
    struct stage {
        Halide::Func func;
        Halide::Var lane;
        int width, row = -1;
    };
    /// A sum over the channels of a row: in lanes first.
    struct row_sum {
        Halide::Func partial, sum;
        Halide::RVar along;
        Halide::Var lane;
        int lanes;
    };
    struct axes {
        Halide::Var d{"d"}, e{"e"}, i{"i"}, j{"j"}, m{"m"}, g{"g"};  ///< channels of keys and of values, tokens (an
                                                                     ///< earlier one), rows written, heads of a group
    };
    /// Which chunk of which state.
    struct chunk_place {
        Halide::Param<int> at_batch{"at_batch"}, at_state_head{"at_state_head"}, first_token{"first_token"};
        Halide::ImageParam state_before{Halide::Float(32), 2, "state_before"};
        Halide::Expr group;
    };
    struct decay_stages {
        Halide::Func log_decays{"log_decays"}, decays{"decays"}, running_decay{"running_decay"},
            decay_between{"decay_between"}, remaining_decay{"remaining_decay"};
        bool of_sums = false;  ///< decays are one number a token, and exponentials of sums
    };
    struct system_stages {
        Halide::Func state{"state"}, keys{"keys"}, keys_transposed{"keys_transposed"}, reads{"reads"}, lower{"lower"},
            written{"written"}, faded{"faded"}, order{"order"};
        bool copies_state = false;
    };

    const instruction& node(int n) const { return request_.graph().nodes[n]; }
    bool is(int n, double number) const { return is_constant(node(n), number); }
    place at(const Halide::Expr& i, const Halide::Expr& g, const Halide::Expr& channel) const;
    quantity evaluate(int n, const place& where) const { return pointwise(request_, inputs_, where)(n); }
    Halide::Expr is_there(const Halide::Expr& i) const { return place_.first_token + i < inputs_.query_length; }
    Halide::Expr token_of(const Halide::Expr& m) const { return m / size_.pairs; }
    Halide::Expr is_of_second(const Halide::Expr& m) const;
    Halide::Func row(int n, const std::string& name, bool of_values = false);
    Halide::Func multiply(const std::string& name, const Halide::Expr& terms, const Halide::RVar& along,
                          const std::vector<Halide::Var>& over, int width, int height);

    void find_readers();
    void keep_numbers();
    void keep_sum(int n);
    void define_decay_of_tokens();
    void define_decay_of_channels();
    Halide::Func fading_keys() const;
    void define_keys();
    void define_written();
    void define_reader(reader& each);
    void define_state_after();
    void define_outputs();
    Halide::Expr decay_from(const Halide::Expr& j, const Halide::Expr& i) const;
    Halide::Expr decay_to(const Halide::Expr& i) const;  ///< from the chunk's start, that of token i included
    void schedule_product(const product& each) const;
    void schedule_decay() const;
    void schedule_system() const;
    int lanes_along(int width) const;

    const kernel_request& request_;
    const cpu_recurrence& cut_;
    kernel_inputs inputs_;
    const recurrence_arguments of_;
    const chunk_sizes size_;
    const chunk_plan& planned_;
    axes x_;
    chunk_place place_;
    decay_stages decay_;
    system_stages system_;
    std::deque<reader> readers_;
    std::vector<stage> stages_;
    std::vector<row_sum> sums_;
    std::map<int, std::pair<Halide::Func, Halide::Func>> kept_;  ///< numbers that no channel changes, and their masks
    std::map<int, Halide::Func> rows_;
    std::vector<product> products_;
};

}  // namespace attune::generators::inline cpu
