#pragma once
#include "call/bind.hpp"

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attune::detail {

/// cu_seqlens_q, if it is passed. Every call asks this first, so that tables of another layout are refused here.
const named_argument* packed_by(const kernel_table& table, std::span<const named_argument> arguments);

/// What a formula says of the batch as a whole, and what to do instead.
struct whole_batch {
    std::string what;
    std::string_view attempt;
};

/// Nothing, where a formula speaks of one sequence at a time: it reads at b what has a batch axis, and asks neither for
/// b nor for the size of the batch otherwise. Only then are some of the sequences a call of their own, whose counting
/// begins at 0, and only then are the batches of several calls those of one.
std::optional<whole_batch> needs_whole_batch(const graph_ir& graph);

/// A call with cu_seqlens_q: the queries of all sequences lie one after another. A bound call for each run of
/// neighbours with the same number of queries, over views of what the caller passes: what has a query axis from the
/// run's first query on, the batch beside it; what has a batch axis from its first sequence on. So which kernel a
/// sequence gets and how its keys are split follow from lengths alone. Construction throws as bound_call's does, and
/// looks at cu_seqlens_q.
class packed_call {
public:
    packed_call(const kernel_table& table, std::span<const named_argument> arguments, const options& how,
                bound_call::outputs wanted, bool explain);
    packed_call(const packed_call&) = delete;

    void check_values() const;
    void run(int threads) const;
    bool has_changed() const;  ///< cu_seqlens_q, since it was looked at

    /// Neighbouring sequences with the same number of queries.
    struct run_of_sequences {
        std::int64_t first, count, first_query, queries;
    };
    struct part {
        run_of_sequences of;
        std::vector<named_argument> arguments;
        std::optional<bound_call> call{};
        part(const run_of_sequences& of, std::vector<named_argument> arguments)
            : of(of), arguments(std::move(arguments)) {}
    };
    std::list<part>& parts() { return parts_; }
    std::int64_t sequences() const { return static_cast<std::int64_t>(seen_.size()) - 1; }
    std::int64_t queries() const { return seen_.back(); }

private:
    tensor starts_;
    std::vector<std::int32_t> seen_;
    std::list<part> parts_;
};

}  // namespace attune::detail
