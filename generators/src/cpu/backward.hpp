#pragma once
#include "cpu/pair_block.hpp"

#include <list>
#include <string>
#include <utility>
#include <vector>

namespace attune::generators {

/// The gradients of attention in one sweep over the blocks of queries and keys.
///
/// Of a block of pairs come tiles of the numbers that are summed (pair_block.hpp), and then rows of sums, channels in
/// lanes: tiles times rows of the other side. Nothing is packed, and no two tasks add to one sum: those of the parts
/// are added up in order, however many threads there are. What is placed pair by pair, by an index of the query and of
/// the key, has a pass of its own over the blocks.
class backward_sweep {
public:
    explicit backward_sweep(kernel_frame& frame);

    std::vector<Halide::Func> outputs;  ///< in the graph's order
    void schedule();
    /// The loops that the table of visits guards (skip_blocks.hpp), and that table.
    std::vector<std::string> guarded_loops() const;
    std::string table() const { return visits_.name(); }

private:
    /// Terms of an output that is placed pair by pair.
    struct pair_pass {
        pair_block pairs;
        Halide::Func gradient;
        int stage{};
        Halide::RDom loops{};
        std::size_t key_block{}, block{}, group{};  ///< places among the loops
        std::size_t first_parallel{};
    };
    struct placed_term {
        Halide::Func gradient;
        int stage{};
        Halide::RDom loops;
        std::size_t first_parallel{};
    };
    struct copied_sums {
        Halide::Func sum, gradient;
        int depth{};
    };
    struct rounded_sums {
        Halide::Func sum, gradient;
    };
    /// Dimensions of a reduction over tasks, of which the last decide a place: no two tasks there add to one.
    struct task_loops {
        std::vector<Halide::Range> ranges;
        std::size_t part{}, key_head{}, batch{}, first_parallel{};
    };

    void define_visits();
    void define_sweep();
    void define_outputs();
    Halide::Func rounded(const Halide::Func& sum, std::size_t output);
    void define_copied(std::size_t output, const std::vector<const gradient_term*>& terms);
    Halide::Expr rows_of(const gradient_sum& sum) const;
    Halide::Expr first_row(std::size_t sum) const;
    Halide::Expr made(std::size_t sum, const Halide::Expr& d, const Halide::Expr& position, const Halide::Expr& head,
                      const Halide::Expr& part, const Halide::Expr& b) const;
    std::vector<Halide::Expr> indices(const gradient_term& term, const place& at) const;
    bool indexes(const gradient_term& term, axis_kind axis, operation by) const;
    void add_task_loops(task_loops& loops, const gradient_term& term, const Halide::Expr& parts, bool pairs) const;
    void add_placed(Halide::Func gradient, const gradient_term& term);
    void add_by_pair(Halide::Func gradient, const gradient_term& term);
    void schedule_outputs();
    void schedule_loops(Halide::Func gradient, int stage, const Halide::RDom& loops, std::size_t first_parallel);

    kernel_frame& f_;
    const cpu_gradient& cut_;
    const gradient_plan& plan_;
    const backward_tasks tasks_;
    const int lanes_;
    const int width_;  ///< channels of a row of sums
    pair_block pairs_;

    std::list<pair_pass> passes_;
    std::vector<placed_term> placed_;
    std::vector<Halide::Func> of_positions_;  ///< numbers of a query or of a key that placed terms have in common
    std::vector<copied_sums> copied_;
    std::vector<rounded_sums> rounded_;  ///< of what is placed
    Halide::Func product_{"product"}, sums_{"sums"}, visits_{"visits"};
    Halide::RDom within_, sweep_;
    Halide::RVar row_, which_, in_chunk_, chunk_, of_block_, of_group_;
    const Halide::Var c_{"c"}, w_{"w"}, i_{"i"};
};

}  // namespace attune::generators
