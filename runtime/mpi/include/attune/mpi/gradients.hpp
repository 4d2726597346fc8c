#pragma once
#include <attune/mpi/staged.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace attune::mpi::detail {

/// Gradients of a variant. Keys travel as in the variant's own calls. A rank's gradients of others' keys go back along
/// the same edges and are added there, stage after stage and rank after rank, always in one order. Gradients of inputs
/// with rows by query stay. Gradients of inputs that all ranks have whole are the sums of all ranks' parts.
class gradient_call final : public staged_keys {
public:
    gradient_call(context& world, const layout& plan, const kernel_table& table, std::span<const named_argument> given,
                  const attune::options& how, bool poison);

    traffic run() override;

private:
    /// The gradient of one tensor, summed in f32 and rounded once.
    struct derivative {
        const output_declaration* declared;
        role of;  ///< its tensor
        tensor own;
        int axis;  ///< along which it has rows; the first one where it is whole
        std::vector<float> sum{};
        std::shared_ptr<std::byte[]> made[2]{};  ///< by a call and by the next

        /// All rows of `part`, which is dense, to the sum's from `first` on.
        void add(const tensor& part, std::int64_t first);
    };
    /// Rows of this rank's keys, made by another.
    struct returned {
        derivative* to;
        run_of_keys rows;
        std::shared_ptr<std::byte[]> memory;
        request asked;
    };

    void find_derivatives();
    void prepare_calls(const arguments& common, const attune::options& how);
    int stages_of_all() const;
    std::int64_t rows_of(int call, const derivative& each) const;
    tensor made_by(int call, const derivative& each) const;
    int part_of(int stage, const derivative& each) const;
    void add_own(int call);
    std::vector<request> send_back(traffic& done, int call);
    std::vector<returned> post_returns(traffic& done, int stage);
    void add(std::span<const returned> all);
    void add_up_whole(derivative& each);

    std::vector<derivative> derivatives_;
    std::vector<std::shared_ptr<const attune::detail::prepared>> calls_;
};

}  // namespace attune::mpi::detail
