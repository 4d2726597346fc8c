#pragma once
#include <attune/mpi/chunks.hpp>
#include <attune/mpi/inputs.hpp>
#include <attune/mpi/planning.hpp>

#include <attune/ir/integer_interval.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace attune::mpi::detail {

/// The visibility of two chunks as a whole, by the intervals of the numbers that a mask's conditions compare. Kernels
/// are asked only about pairs of chunks that this leaves open: most pairs are far from the edges of a mask, and a
/// kernel has hundreds of blocks for two chunks.
class whole_chunks {
public:
    using arguments = std::span<const attune::detail::named_argument>;

    /// Of the query chunks first .. last - 1. `of` has the batch elements and heads that decide, else one of each.
    whole_chunks(const graph_ir& shard, const deciders& decide, const planning& of, arguments given,
                 const chunks& tokens, int first, int last);

    /// In how many batch elements and heads every pair is visible, where none is in the others. Nothing where that
    /// cannot be said.
    std::optional<int> visible(int query_chunk, int key_chunk);

private:
    enum side : std::uint8_t { nowhere = 0, of_queries = 1, of_keys = 2, of_pairs = 3 };
    enum class found : std::uint8_t {
        at_positions,  ///< exactly, for each token of a chunk
        by_ranges,     ///< for each pair of chunks, from the ranges of its arguments
        once,          ///< the same everywhere
    };
    struct step {
        const instruction* node;
        found how;
        std::vector<int> arguments{};            ///< earlier steps
        std::uint8_t of{nowhere};                ///< a side
        bool by_plane{};                         ///< differs with the batch element or head
        bool asked{};                            ///< when two chunks are asked about
        const tensor* read{};                    ///< by a load
        std::vector<integer_interval> ranges{};  ///< of a score, 1 where it is not -infinity; by plane and chunk, as
                                                 ///< far as these matter; of `once`, one
    };
    struct place {
        std::span<const std::int32_t> positions;
        std::int64_t batch, head;
    };
    using numbers = std::vector<std::int32_t>;
    static bool is_exact(const step& of) {
        return of.how == found::at_positions || (of.how == found::once && of.ranges[0].is_point());
    }

    int add(node_id number);
    step score(const instruction& node);
    step value(const instruction& node);
    step load(const instruction& node);
    bool is_known_finite(const instruction& node) const;
    std::uint8_t side_of(node_id node) const;
    const tensor* usable(const input_declaration& declared) const;
    std::optional<std::int64_t> constant(const instruction& node) const;
    integer_interval joined(const step& of) const;
    const integer_interval& now(const step& of, std::size_t argument) const {
        return now_[static_cast<std::size_t>(of.arguments[argument])];
    }

    void tabulate(step& of, const chunks& tokens, int first, int last);
    numbers values(const step& of, const place& at);
    numbers loaded(const step& of, const place& at);
    numbers computed(const step& of, const place& at);

    const graph_ir& graph_;
    const deciders& decide_;
    const planning& of_;
    const arguments given_;
    const int first_, planes_;
    std::vector<step> steps_;
    std::vector<int> step_of_node_;
    std::vector<integer_interval> now_;  ///< of the pair of chunks that is asked about, by step
    int root_ = -1;                      ///< the scores; without, nothing can be said
    bool known_ = true;
};

}  // namespace attune::mpi::detail
