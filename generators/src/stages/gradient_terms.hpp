#pragma once
#include "stages/kept_number.hpp"
#include "stages/pair_block.hpp"

#include <map>
#include <vector>

namespace attune::generators::inline stages {

/// How gradients are made of the sums over blocks of pairs, whichever loops make these: a sum as it is, or a formula of
/// sums that is placed by an index of a query or of a key.
class gradient_terms {
public:
    explicit gradient_terms(kernel_frame& frame);
    gradient_terms(const gradient_terms&) = delete;

    /// A term that is placed by an index of a query or of a key.
    struct placed_term {
        Halide::Func gradient;  ///< over the axes of its tensor, the last one first
        int stage{};
        Halide::RDom loops;
        std::size_t first_parallel{};
    };

    // Functions and loops to schedule.
    const gradient_plan& plan;
    const backward_tasks tasks;
    std::vector<placed_term> placed;
    /// Parts of values that are added up first, over a loop: (position, head or key head, batch).
    struct added_number {
        Halide::Func sum;
        Halide::RDom over;
    };
    std::map<std::pair<int, bool>, added_number> added_first;
    /// Numbers that placed terms have in common, by node: (position, head, batch).
    std::map<int, kept_number> of_positions;
    static inline const Halide::Var i{"i"};  ///< a position

protected:
    ~gradient_terms() = default;

    /// A sum at a query of a query head, or at a key in a part of the queries.
    virtual Halide::Expr made(std::size_t sum, const Halide::Expr& d, const Halide::Expr& position,
                              const Halide::Expr& head, const Halide::Expr& part, const Halide::Expr& b) const = 0;
    /// A sum at position `i` of the head or key head f.h of the batch element f.b, of all parts of the queries.
    virtual Halide::Expr whole(std::size_t sum, const Halide::Expr& d) = 0;

    /// Dimensions of a reduction over tasks. The last ones decide a place: no two tasks there add to the same.
    struct task_loops {
        std::vector<Halide::Range> ranges;
        std::size_t part{}, key_head{}, batch{}, first_parallel{};
    };
    Halide::Func rounded_to(const Halide::Func& sum, std::size_t output);
    std::vector<Halide::Expr> indices(const gradient_term& term, const place& at) const;
    bool indexes(const gradient_term& term, axis_kind axis, operation by) const;
    bool is_of_first_head(const gradient_term& term) const;
    void add_task_loops(task_loops& loops, const gradient_term& term, const Halide::Expr& parts, bool of_pairs) const;
    void add_placed(Halide::Func gradient, const gradient_term& term);
    place at_position(const gradient_term& term, bool of_heads) const;
    Halide::Func number_of(const gradient_term& term, bool of_heads);
    void know_numbers(place& here, int formula, const std::vector<int>& known, const std::vector<Halide::Expr>& at);

    kernel_frame& f_;
};

}  // namespace attune::generators::inline stages
