#pragma once
#include <attune/mpi/call.hpp>
#include <attune/mpi/inputs.hpp>
#include <attune/mpi/plan.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace attune::mpi {

namespace detail {

traffic run(context& world, const layout& plan, const kernel_table& table, std::span<const named_argument> given,
            const attune::options& how, bool poison = false);

/// A call on which the ranks have agreed.
struct prepared {
    prepared(context& world, const layout& plan, const kernel_table& table, std::span<const named_argument> given,
             const attune::options& how, bool poison);

    context& world;
    const std::string name;
    const layout plan;
    std::unique_ptr<call_over_ranks> call;
};
std::shared_ptr<prepared> prepare(context& world, const layout& plan, const kernel_table& table,
                                  std::span<const named_argument> given, const attune::options& how,
                                  bool poison = false);
traffic call(prepared& what);

/// The arguments that the library passes itself, for the compiler's check of a call.
template <const auto& Graph, class... Arguments> constexpr auto arguments_with_supplied() {
    constexpr const auto& list = dsl::detail::built<Graph>;
    constexpr auto given = dsl::detail::given_arguments<Arguments...>;
    constexpr std::size_t most = given.size() + std::size_t{list.input_count};
    struct {
        std::array<dsl::detail::given_argument, most> all{};
        std::size_t count{};
    } made;
    for (const auto& each : given) made.all[made.count++] = each;
    for (std::size_t i = 0; i < std::size_t{list.input_count}; ++i) {
        const input_declaration& input = list.inputs[i];
        bool passed = input.name != dsl::of_shard::lengths.label;
        for (const auto& each : given) passed = passed || each.label == input.name;
        const bool own = input.name == dsl::of_shard::lengths.label ? !passed : is_supplied(list, input.name);
        if (own) made.all[made.count++] = {input.name, input.is_scalar, input.element == element_type::i32};
    }
    return made;
}
template <const auto& Graph, class... Arguments>
inline constexpr auto all_arguments = arguments_with_supplied<Graph, Arguments...>();
template <const auto& Graph, class... Arguments>
inline constexpr auto faults_over_ranks = dsl::detail::faults_of(
    dsl::detail::built<Graph>, true,
    std::span(all_arguments<Graph, Arguments...>.all).first(all_arguments<Graph, Arguments...>.count));
template <const auto& Graph, class... Kept> constexpr bool check_over_ranks(attune::detail::kept<Kept...>) {
    return dsl::detail::check_faults<faults_over_ranks<Graph, Kept...>>();
}

}  // namespace detail

/// One attention call of all ranks: inputs over queries or keys, and outputs, have this rank's rows in the order of
/// `plan.positions()`; others are whole on every rank. By a plan of decode, inputs over queries and outputs are whole,
/// too, and only inputs over keys have this rank's rows. Positions, lengths of the whole and earlier results are passed
/// by the call itself. A refusal of any rank is thrown on all ranks alike.
template <const auto& Graph, class... Arguments>
traffic run(context& world, const layout& plan, const Arguments&... arguments) {
    using named = attune::detail::named_arguments<Arguments...>;
    if constexpr (detail::check_over_ranks<Graph>(named{})) {
        const auto list = attune::detail::list_of<Graph>(named{}, arguments...);
        return detail::run(world, plan, attune::detail::table_of<Graph>(), list.given, list.how);
    } else
        return {};
}

/// A prepared call of all ranks: all that `run` checks before any data is checked and agreed on once. The context, the
/// tensors' memory and what options point to must outlive it; the plan is copied. All ranks make the same calls in the
/// same order, each by the thread that made the context. The contents of the tensors may change between calls, except
/// those that decide who needs whose keys. The ranks agree on nothing more: a refusal of one rank is a context_failure
/// on all of them. Ranks that have done their part see it in their next call. Copies are the same call.
class prepared_call {
public:
    explicit prepared_call(std::shared_ptr<detail::prepared> what) : what_(std::move(what)) {}

    traffic operator()() const { return detail::call(*what_); }  ///< as run

private:
    std::shared_ptr<detail::prepared> what_;
};

/// Takes what `run` takes, with the same checks and errors on all ranks, and returns the call instead of making it.
template <const auto& Graph, class... Arguments>
auto prepare(context& world, const layout& plan, const Arguments&... arguments) {
    using named = attune::detail::named_arguments<Arguments...>;
    if constexpr (detail::check_over_ranks<Graph>(named{})) {
        const auto list = attune::detail::list_of<Graph>(named{}, arguments...);
        return prepared_call(detail::prepare(world, plan, attune::detail::table_of<Graph>(), list.given, list.how));
    }
}

}  // namespace attune::mpi
