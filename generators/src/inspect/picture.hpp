#pragma once
#include "inspect/draw_inputs.hpp"

#include <attune/generators/main.hpp>
#include "kernel/kernel_request.hpp"

#include <optional>
#include <string>

namespace attune::generators::inline inspect {

/// One head of one batch element: (query, key) arrays, rows of queries.
struct picture {
    std::string name, formula;
    int queries{}, keys{}, heads{}, key_heads{}, head{}, batch{};
    std::vector<drawn_input> inputs;

    std::vector<std::uint8_t> visible;  ///< 1 if softmax sees the pair
    std::vector<float> score;           ///< the score of the pair if q . k is `product`
    float product{};
    bool varies{};  ///< whether visible scores differ

    block_sizes cut;
    std::vector<std::uint8_t> blocks;  ///< (query block, key block): 0 empty, 1 partial, 2 full
    int query_blocks() const { return (queries + cut.query_block - 1) / cut.query_block; }
    int key_blocks() const { return (keys + cut.key_block - 1) / cut.key_block; }
    std::uint8_t block_of(int q, int k) const {
        return blocks[static_cast<std::size_t>(q / cut.query_block * key_blocks() + k / cut.key_block)];
    }
};

/// Computed by the code of kernels, compiled in this process: the lowering's pointwise code and its decisions about
/// blocks, whose sizes `made` gives. `product` is 0 unless given, or 1 if at 0 all scores are equal. Throws
/// std::runtime_error, a sentence, for a graph without scores and for inputs that do not fit.
picture picture_of(const variant& v, const kernel_request& made, draw_request request, std::optional<float> product);

}  // namespace attune::generators::inline inspect
