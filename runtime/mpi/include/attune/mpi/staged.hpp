#pragma once
#include <attune/mpi/call.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace attune::mpi::detail {

/// Many queries, each on one rank. A rank computes with its own keys first, then stage after stage with those of
/// others. Keys of the next stage arrive while one is computed. A deterministic plan has stages of fixed positions, and
/// a rank's own keys are among the others.
class staged_keys : public call_over_ranks {
public:
    staged_keys(context& world, const layout& plan, const kernel_table& table, std::span<const named_argument> given,
                bool poison);

    void state(statement& mine) const override;
    void check_values() const override;

protected:
    /// An input of which other ranks get rows.
    struct traveller {
        const input_declaration* declared;
        tensor own;
        int axis;
        std::size_t row;                             ///< bytes of a key
        std::shared_ptr<std::byte[]> sent{};         ///< own rows
        std::shared_ptr<std::byte[]> received[2]{};  ///< of a call and of the next

        tensor of_sent() const;
        tensor of_received(int call, std::int64_t rows) const;
    };

    static constexpr int own_keys = -1;  ///< instead of a stage

    int calls() const { return static_cast<int>(steps_.size()); }
    bool has_own_keys(int call) const { return steps_[static_cast<std::size_t>(call)] == own_keys; }
    const stage& stage_of(int call) const {
        return exchange_.stages[static_cast<std::size_t>(steps_[static_cast<std::size_t>(call)])];
    }
    std::span<const std::int32_t> keys_of(int call) const { return key_positions_[static_cast<std::size_t>(call)]; }
    /// The arguments of a call but for its outputs.
    arguments of_call(int call, const arguments& common) const;
    std::vector<request> post_sends(traffic& done);
    /// Asks for the keys of a call, and copies this rank's own ones among them.
    std::vector<request> post_receives(traffic& done, int call);
    void wait(std::span<const request> all);

    const bool poison_;
    std::vector<int> steps_;  // the stage of each call

private:
    void find_steps();
    void find_travellers();
    void find_positions();

    std::vector<traveller> travellers_;
    std::vector<std::vector<std::int32_t>> key_positions_;  // of each call
};

/// Calls of a variant, each joined with the results of those before. Rows that see nothing of a stage stay as they are.
class staged_call final : public staged_keys {
public:
    staged_call(context& world, const layout& plan, const kernel_table& table, std::span<const named_argument> given,
                const attune::options& how, bool poison);

    traffic run() override;

private:
    /// Own rows, from `first` on, that take part in the same calls.
    struct rows {
        std::int64_t first, count;
        int calls = 0, done = 0;  ///< in all, and before the one at hand

        /// Where the next one leaves results: after the last they lie in the caller's outputs.
        int place() const { return (calls - 1 - done) % 2; }
    };

    std::vector<rows> rows_alike() const;
    bool sees(const rows& some, int call) const;
    void prepare_calls(const arguments& common, const attune::options& how);
    arguments of_rows_alone(arguments all, const rows& some) const;
    void pass_results(const rows& some, arguments& to) const;

    std::vector<tensor> results_[2];  // the caller's outputs, and others in turn
    std::vector<tensor> nothing_;     // before the first call
    std::vector<std::vector<std::shared_ptr<const attune::detail::prepared>>> calls_;  // of a stage, one for some rows
};

}  // namespace attune::mpi::detail
