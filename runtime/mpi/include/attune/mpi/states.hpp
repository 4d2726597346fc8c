#pragma once
#include <attune/ir/graph_ir.hpp>
#include <attune/runtime/tensor.hpp>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

/// All outputs of a shard's call over some keys, as numbers of f32 one after another. These travel in decode.
namespace attune::mpi::detail {

/// How the outputs of two parts of the keys become the output of both.
struct joint {
    enum kind : std::uint8_t {
        weighted,  ///< means by weights that are normalised: by their log-sum-exps
        log_sum,   ///< log-sum-exps
        added,     ///< sums
        largest,   ///< maxima
    };
    kind how{};
    std::size_t log_sums = 0;  ///< of weighted ones, the output that has their log-sum-exps
};
joint joint_of(const graph_ir& shard, const output_declaration& output);

class output_states {
public:
    /// `rows`: queries of all heads and batch elements.
    output_states(const graph_ir& shard, std::int64_t rows, std::int64_t value_depth);

    std::int64_t numbers() const { return numbers_; }
    std::int64_t bytes() const { return numbers_ * static_cast<std::int64_t>(sizeof(float)); }

    void take(std::span<const tensor> outputs, float* to) const;
    void give(const float* from, std::span<const tensor> outputs) const;
    /// `to` may be one of them.
    void join(const float* lower, const float* upper, float* to) const;

private:
    struct part {
        joint how;
        std::int64_t begin, width;
    };
    void join(const part& each, const float* lower, const float* upper, float* to) const;

    std::int64_t rows_, numbers_ = 0;
    std::vector<part> parts_;
};

}  // namespace attune::mpi::detail
