#pragma once
#include "call/bind/bind.hpp"

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
    static std::unique_ptr<parted_call> of(const kernel_table& table, std::span<const named_argument> arguments,
                                           const options& how, bound_call::outputs wanted = bound_call::outputs::needed,
                                           bool explain = false);

    void check_values() const;
    void run(int threads) const;
    std::size_t size() const { return parts_.size(); }
    bound_call& first() { return *parts_.front().call; }  ///< none has more batch elements or heads
    const bound_call& first() const { return *parts_.front().call; }
    block_map blocks();  ///< of the whole call

private:
    struct part {
        std::vector<named_argument> arguments;
        std::int64_t batch, head;  ///< the first
        std::optional<bound_call> call{};
        part(std::vector<named_argument> some, std::int64_t first_batch, std::int64_t first_head)
            : arguments(std::move(some)), batch(first_batch), head(first_head) {}
    };
    std::list<part> parts_;
};

}  // namespace attune::detail
#pragma GCC visibility pop
