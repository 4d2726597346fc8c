#pragma once
#include <attune/mpi/inputs.hpp>
#include <attune/mpi/plan.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

namespace attune::mpi {

/// What one call has sent and received, on one rank.
struct traffic {
    std::int64_t bytes_sent{}, bytes_received{};
    std::int64_t messages_sent{}, messages_received{};
    bool operator==(const traffic&) const = default;
};

namespace detail {

/// One call of a shard over all ranks: its own keys first, then stage after stage those of others, each joined with
/// what the calls before left. Keys of the next stage arrive while one is computed.
class staged_call {
public:
    /// Checks everything that this rank can check by itself. `poison`: fills buffers with NaN before keys arrive, so
    /// that a test sees what is read too early.
    staged_call(const layout& plan, const kernel_table& table, std::span<const named_argument> given,
                const attune::options& how, bool poison);

    void state(statement& mine) const;  ///< what all ranks must have alike
    traffic run(context& world);

private:
    /// An input of which other ranks get rows.
    struct traveller {
        const input_declaration* declared;
        tensor own;
        int axis;
        std::size_t row;                             ///< bytes of a key
        std::shared_ptr<std::byte[]> sent{};         ///< own rows, one after another
        std::shared_ptr<std::byte[]> received[2]{};  ///< of a stage and of the next
    };
    using arguments = std::vector<named_argument>;

    void check_planned_for() const;
    void find_travellers(std::span<const named_argument> given);
    arguments of_all_stages(std::span<const named_argument> given);
    void prepare_stages(const arguments& common, const attune::options& how);
    void pass_results(std::size_t call, std::size_t calls, arguments& to);
    void post_sends(context& world, traffic& done, std::vector<request>& open);
    std::vector<request> post_receives(context& world, traffic& done, std::size_t stage);

    const layout& plan_;
    const kernel_table& table_;
    const exchange_plan& exchange_;
    const bool poison_;
    arguments given_;
    std::vector<traveller> travellers_;
    std::int32_t all_keys_{};
    std::vector<std::vector<std::int32_t>> key_positions_;  // of each stage
    std::list<std::vector<std::byte>> held_;                // what results begin with
    std::vector<tensor> results_[2];                        // the caller's outputs, and others in turn
    std::vector<std::shared_ptr<const attune::detail::prepared>> calls_;
};

traffic run(context& world, const layout& plan, const kernel_table& table, std::span<const named_argument> given,
            const attune::options& how, bool poison = false);

/// What the library passes itself, for the compiler's check of a call.
template <const auto& Graph, class... Arguments> constexpr auto arguments_with_supplied() {
    constexpr const auto& list = dsl::detail::built<Graph>;
    constexpr auto given = dsl::detail::given_arguments<Arguments...>;
    struct {
        std::array<dsl::detail::given_argument, given.size() + std::size_t{list.input_count}> all{};
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
/// `plan.positions()`; others are whole on every rank. Positions, lengths of the whole and earlier results are passed
/// by the call itself. Throws, on all ranks alike, what any of them has to refuse.
template <const auto& Graph, class... Arguments>
traffic run(context& world, const layout& plan, const Arguments&... arguments) {
    using named = attune::detail::named_arguments<Arguments...>;
    if constexpr (detail::check_over_ranks<Graph>(named{})) {
        const auto list = attune::detail::list_of<Graph>(named{}, arguments...);
        return detail::run(world, plan, attune::detail::table_of<Graph>(), list.given, list.how);
    } else
        return {};
}

}  // namespace attune::mpi
