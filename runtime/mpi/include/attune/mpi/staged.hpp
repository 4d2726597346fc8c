#pragma once
#include <attune/mpi/call.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace attune::mpi::detail {

/// Many queries, each on one rank: a rank's own keys first, then stage after stage those of others, each joined with
/// what the calls before left. Keys of the next stage arrive while one is computed. By a deterministic plan, stages of
/// fixed positions, in which a rank's own keys are among the others.
class staged_call final : public call_over_ranks {
public:
    staged_call(context& world, const layout& plan, const kernel_table& table, std::span<const named_argument> given,
                const attune::options& how, bool poison);

    void state(statement& mine) const override;
    void check_values() const override;
    traffic run() override;

private:
    /// An input of which other ranks get rows.
    struct traveller {
        const input_declaration* declared;
        tensor own;
        int axis;
        std::size_t row;                             ///< bytes of a key
        std::shared_ptr<std::byte[]> sent{};         ///< own rows, one after another
        std::shared_ptr<std::byte[]> received[2]{};  ///< of a call and of the next
    };

    static constexpr int own_keys = -1;  ///< instead of a stage

    void find_steps();
    void find_travellers();
    arguments of_step(int call, std::span<const std::int32_t> positions, const arguments& common) const;
    void prepare_stages(const arguments& common, const attune::options& how);
    void pass_results(std::size_t call, std::size_t calls, arguments& to);
    std::vector<request> post_sends(traffic& done);
    std::vector<request> post_receives(traffic& done, std::size_t call);

    const bool poison_;
    std::vector<int> steps_;  // the stage of each call
    std::vector<traveller> travellers_;
    std::vector<std::vector<std::int32_t>> key_positions_;  // of each call
    std::vector<tensor> results_[2];                        // the caller's outputs, and others in turn
    std::vector<std::shared_ptr<const attune::detail::prepared>> calls_;
};

}  // namespace attune::mpi::detail
