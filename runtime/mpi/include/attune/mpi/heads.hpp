#pragma once
#include <attune/mpi/staged.hpp>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace attune::mpi::detail {

/// Ranks that share heads. Each sends the rows of its tokens to the others, to each rank those of that rank's heads,
/// and receives their rows of its own heads. It computes with the ranks that have the same heads, and the results go
/// back.
class heads_call final : public call_over_ranks {
public:
    heads_call(context& world, const layout& plan, const kernel_table& table, std::span<const named_argument> given,
               const attune::options& how, bool poison);

    void check_values() const override { check_decided(); }
    traffic run() override;

private:
    /// A tensor with rows of tokens.
    struct rows {
        tensor own;                             ///< of this rank's tokens, and of all heads
        int axis;                               ///< of tokens
        int heads;                              ///< axis; below 0: it has none
        std::size_t row;                        ///< bytes of a token, of one share of the heads
        std::shared_ptr<std::byte[]> shared{};  ///< the tokens of all that share, of this rank's heads
        std::shared_ptr<std::byte[]> apart{};   ///< this rank's tokens, share after share of the heads
    };

    rows& add(std::list<rows>& to, const tensor& own, int axis, std::optional<int> heads);
    tensor share_of(const tensor& all, int heads, int share) const;
    tensor shared(const rows& of) const;
    tensor apart(const rows& of, int share) const;
    void prepare_inputs(arguments& of_share);
    void prepare_outputs(arguments& of_share);
    void gather(traffic& done);
    void scatter(traffic& done);

    const int parts_, part_;
    const bool poison_;
    std::list<rows> in_, out_;
    std::unique_ptr<staged_call> with_same_heads_;
};

}  // namespace attune::mpi::detail
