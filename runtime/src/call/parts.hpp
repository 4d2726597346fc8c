#pragma once
#include "call/bind.hpp"

#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#pragma GCC visibility push(hidden)
namespace attune::detail {

/// Kernels count the elements of a tensor in 32 bits. A call on tensors that reach farther, such as a cache of 128
/// heads of 131,072 keys of 128 channels, is made of calls on some of the batch elements, or of some key heads of one:
/// views that begin elsewhere, which run as one call.
class parted_call {
public:
    /// Null where all tensors lie within 32 bits, or where no such part would; then the call itself says what is wrong.
    static std::unique_ptr<const parted_call> of(const kernel_table& table, std::span<const named_argument> arguments,
                                                 const options& how);

    void check_values() const;
    void run(int threads) const;
    std::size_t size() const { return parts_.size(); }

private:
    struct part {
        std::vector<named_argument> arguments;
        std::optional<bound_call> call{};
        explicit part(std::vector<named_argument> some) : arguments(std::move(some)) {}
    };
    std::list<part> parts_;
};

}  // namespace attune::detail
#pragma GCC visibility pop
