#pragma once
#include <attune/mpi/inputs.hpp>
#include <attune/mpi/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace attune::mpi {

/// What one call has sent and received, on one rank.
struct traffic {
    std::int64_t bytes_sent{}, bytes_received{};
    std::int64_t messages_sent{}, messages_received{};
    bool operator==(const traffic&) const = default;
};

namespace detail {

/// One call of a shard over all ranks, by a plan: of many queries, or of few.
class call_over_ranks {
public:
    /// Checks what this rank can check by itself.
    call_over_ranks(context& world, const layout& plan, const kernel_table& table,
                    std::span<const named_argument> given);
    call_over_ranks(const call_over_ranks&) = delete;
    virtual ~call_over_ranks() = default;

    virtual void state(statement& mine) const;  ///< adds the facts that all ranks must have alike
    virtual void check_values() const {}        ///< the inputs that decide who needs whose keys are as planned
    /// Refuses lengths and indices in this rank's own tensors that a kernel would refuse.
    void check_own_values() const;
    virtual traffic run() = 0;

protected:
    using arguments = std::vector<named_argument>;

    const named_argument* find(std::string_view name) const;
    /// The inputs that decide who needs whose keys must have the values of the plan.
    void check_decided() const;
    /// Messages get on between the tasks of a kernel.
    attune::options between_messages(attune::options how);
    /// The arguments of all calls of this rank's kernels; the positions of queries are `queries`.
    arguments common_arguments(std::span<const std::int32_t> queries) const;
    /// Those of one call, with keys of these positions.
    arguments with_keys(arguments common, std::span<const std::int32_t> positions, bool with_sinks) const;
    /// Refuses the caller's own tensors if a kernel would, since its calls may replace them.
    void check_own_tensors(const arguments& common, const attune::options& how);
    const tensor& own_output(const output_declaration& output) const;
    /// Memory for an output like the caller's, without gaps.
    tensor made_like(const tensor& output);
    /// An output's result before the first call.
    tensor nothing_before(const output_declaration& output);

    context& world_;
    const layout& plan_;
    const kernel_table& table_;
    const exchange_plan& exchange_;
    const arguments given_;
    std::shared_ptr<const attune::detail::prepared> of_own_tensors_;  ///< by which they are checked

private:
    void check_extents() const;

    std::int32_t all_keys_, all_queries_;
    std::list<std::shared_ptr<std::byte[]>> held_;  // results of this call's own
    std::function<void()> between_tasks_;           // of the kernels
};

/// `poison`: fills buffers with NaN before something arrives, so that a test sees elements that are read too early.
std::unique_ptr<call_over_ranks> make_call(context& world, const layout& plan, const kernel_table& table,
                                           std::span<const named_argument> given, const attune::options& how,
                                           bool poison);

}  // namespace detail
}  // namespace attune::mpi
