#pragma once
#include "kernel/gradient_schedule.hpp"
#include "stages/gradient_terms.hpp"

#include <list>
#include <map>
#include <vector>

namespace attune::generators::inline gpu {

/// The gradients of attention in passes over the blocks of pairs, without atomics: one over the keys makes the sums of
/// queries, one over the queries those of keys, and a third those that a key has for each query head, if there are any.
/// No two blocks of threads add to one sum, and each adds in order.
///
/// A visit of a block gives tiles of the numbers that are summed (pair_block.hpp), in shared memory. Tiles times rows
/// of the other side are added to sums that lie in registers until all blocks are visited. Terms that are placed pair
/// by pair have a pass of their own, in which a thread makes one element.
class gradient_passes : public gradient_terms {
public:
    explicit gradient_passes(kernel_frame& frame);

    std::vector<Halide::Func> outputs;  ///< in the graph's order

    /// A sum of a pass: `rows` is undefined if numbers of pairs are added as they are.
    struct added_sum {
        std::size_t number{};  ///< in gradient_plan::sums
        int first{}, count{};  ///< its numbers in the state
        Halide::Func product;  ///< (channel of thread, thread, position, ... as pairs): of a visit
        Halide::RDom added;    ///< positions of the other side
    };
    /// One pass. `own` is the side whose sums it makes: a position in a block, and the block.
    struct side_pass {
        side_pass(kernel_frame& f, const backward_tasks& tasks, const side_plan& planned,
                  const std::vector<gradient_sum>& sums, const std::map<int, quantity>& kept);
        const side_plan& planned;
        const Halide::Var own, own_block;
        pair_block pairs;
        std::vector<added_sum> sums;
        Halide::Func state;   ///< (thread, own, own block, head in group, task): numbers of all sums, over `blocks`
        Halide::Func made;    ///< (number, thread, own, own block, head in group, task): what the pass leaves
        Halide::RDom blocks;  ///< of the other side; heads of a group, if sums of keys add them up
        static inline const Halide::Var number{"number"}, channel{"channel"}, thread{"thread"};
    };
    /// A term that is placed pair by pair at bare indices: an element of its gradient is the sum over all other
    /// indices.
    struct element_pass {
        pair_block pairs;
        Halide::Func gradient;
        int stage{};
        Halide::RDom others;
    };
    /// A gradient that is made of sums, over the axes of its tensor, and its rounded copy, which may be the same.
    struct written_gradient {
        Halide::Func sum, gradient;
    };

    // Functions and loops to schedule.
    Halide::Func visits{"visits"};  ///< (key block, query block, head, batch): 0 if no pair there is seen
    std::list<side_pass> sides;
    std::list<element_pass> elements;
    std::vector<written_gradient> written;

private:
    void define_visits();
    void define(side_pass& its);
    void define_outputs();
    Halide::Func copied(std::size_t output, const std::vector<const gradient_term*>& terms);
    Halide::Expr made(std::size_t sum, const Halide::Expr& d, const Halide::Expr& position, const Halide::Expr& head,
                      const Halide::Expr& part, const Halide::Expr& b) const override;
    Halide::Expr whole(std::size_t sum, const Halide::Expr& d) override;
    void add_by_element(Halide::Func gradient, const gradient_term& term);

    const side_passes_plan& planned_;
    kernel_frame single_;  ///< blocks of one pair
    backward_tasks of_single_;
};

/// Schedules a gradient's stages for a GPU, and adds the passes that finish their loops.
void apply(const gpu_gradient& cut, gradient_passes& its, const kernel_frame& f, Halide::Pipeline& gradients);

}  // namespace attune::generators::inline gpu
