#pragma once
#include "call/bind/bind.hpp"
#include "execution/workspace.hpp"

#include <cstdint>
#include <list>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(hidden)
namespace attune::detail {

/// cu_seqlens_q, if it is passed. Every call asks this first, so that tables of another layout are refused here.
const named_argument* packed_by(const kernel_table& table, std::span<const named_argument> arguments);

/// Why a formula is not about one sequence at a time, and what to write instead.
struct whole_batch {
    std::string what;
    std::string_view attempt;
};

/// Nothing if a formula describes one sequence at a time: it reads batch axes at b, and uses neither b nor the size of
/// the batch otherwise. Only then can some of the sequences be a call of their own, which counts from 0, and can the
/// batches of several calls be those of one.
std::optional<whole_batch> needs_whole_batch(const graph_ir& graph);

/// A call with cu_seqlens_q: the queries of all sequences lie one after another. It is a bound call for each run of
/// neighbours with the same number of queries, over views of the caller's tensors. Views of tensors with a query axis
/// begin at the run's first query, those of tensors with a batch axis at its first sequence. So a sequence's kernel,
/// and the splits of its keys, depend on lengths alone. The constructor throws as bound_call's does, and reads
/// cu_seqlens_q.
class packed_call {
public:
    packed_call(const kernel_table& table, std::span<const named_argument> arguments, const options& how,
                bound_call::outputs wanted, bool explain);
    packed_call(const packed_call&) = delete;

    void check_values() const;
    void run(int threads) const;
    bool has_changed() const;    ///< whether cu_seqlens_q has changed since it was read
    bool is_for_device() const;  ///< whether a GPU runs it: one launch after the other

    /// Neighbouring sequences with the same number of queries.
    struct run_of_sequences {
        std::int64_t first, count, first_query, queries;
    };
    struct part {
        run_of_sequences of;
        std::pmr::vector<named_argument> arguments;
        std::optional<bound_call> call{};
        part(const run_of_sequences& of, std::span<const named_argument> all, std::pmr::memory_resource& memory)
            : of(of), arguments(all.begin(), all.end(), &memory) {}
    };
    std::pmr::list<part>& parts() { return parts_; }
    const std::pmr::list<part>& parts() const { return parts_; }
    std::int64_t sequences() const { return static_cast<std::int64_t>(seen_.size()) - 1; }
    std::int64_t queries() const { return seen_.back(); }

private:
    // The workspace: a call with other lengths allocates nothing, either.
    static constexpr std::size_t first_bytes = 8192;
    scratch_memory blocks_;
    std::pmr::monotonic_buffer_resource memory_{first_bytes, &blocks_};
    tensor starts_;
    std::pmr::vector<std::int32_t> seen_{&memory_};
    std::pmr::list<part> parts_{&memory_};
};

}  // namespace attune::detail
#pragma GCC visibility pop
