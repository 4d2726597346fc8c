#include "evaluation.hpp"

#include <attune/ir/projections.hpp>

#include <algorithm>
#include <tuple>
#include <utility>

/// The tensors that loads read: inputs, and tensors that the graph makes, at every row.
namespace attune::reference {

double evaluation::source::at(std::span<const std::int64_t> indices) const {
    if (input != nullptr) return input->empty() ? 0.0 : input->at(indices);
    if (std::ranges::find(extents, 0) != extents.end()) return 0.0;
    std::int64_t place = 0;
    for (std::size_t a = 0; a < indices.size(); ++a)
        place = place * extents[a] + std::clamp<std::int64_t>(indices[a], 0, extents[a] - 1);
    return made[place];
}

evaluation::source evaluation::source_of(node_id tensor) {
    if (node(tensor).op == operation::input) return {tensor_of(tensor).extents, &tensor_of(tensor), nullptr};
    const whole& all = made_whole(tensor);
    return {all.extents, nullptr, all.values.data()};
}

/// Tokens (batch, query, channel), or an output or a formed tensor (batch, head, position, depth), at every row.
const evaluation::whole& evaluation::made_whole(node_id i) {
    if (const auto known = wholes_.find(i); known != wholes_.end()) return known->second;
    if (is_formed(node(i).op)) return formed_whole(i);
    if (node(i).kind == kind::precomputed) return wholes_.emplace(i, precomputed(i)).first->second;
    const auto [b, h, q, these] = std::tuple(b_, h_, q_, channels_);
    const bool has_heads = node(i).kind == kind::output;
    whole all{{size().batches}, {}};
    if (has_heads) all.extents.push_back(size().heads);
    const std::int64_t rows = node(i).argument_count == 3 ? value(node(i).arguments[2])->integer.at(0) : size().queries;
    all.extents.push_back(rows);
    const std::int64_t width = has_heads ? known_depth(size().value_depth, "the values") : width_of(i);
    all.extents.push_back(width);
    for (std::int64_t at_b = 0; at_b < size().batches; ++at_b)
        for (std::int64_t at_h = 0; at_h < (has_heads ? size().heads : 1); ++at_h)
            for (std::int64_t at_q = 0; at_q < rows; ++at_q) {
                go_to(at_b, at_h, at_q, {0, width});
                const shared_column row = value(i);
                for (std::int64_t d = 0; d < width; ++d)
                    all.values.push_back(row->real[row->real.size() == 1 ? 0 : static_cast<std::size_t>(d)]);
            }
    go_to(b, h, q, these);
    return wholes_.emplace(i, std::move(all)).first->second;
}

/// Keys beyond those in use are 0: no pair has them.
const evaluation::whole& evaluation::formed_whole(node_id i) {
    const auto [b, h, q, these] = std::tuple(b_, h_, q_, channels_);
    const bool of_queries = node(i).op == operation::queries;
    const std::int64_t width = node(i).op == operation::values ? known_depth(size().value_depth, "the values")
                                                               : known_depth(size().depth, "q and k"),
                       rows = of_queries ? size().queries : size().keys;
    whole all{{size().batches, size().heads, rows, width}, {}};
    all.values.resize(static_cast<std::size_t>(size().batches * size().heads * rows * width));
    double* to = all.values.data();
    for (std::int64_t at_b = 0; at_b < size().batches; ++at_b)
        for (std::int64_t at_h = 0; at_h < size().heads; ++at_h, to += rows * width)
            for (std::int64_t d = 0; d < width; ++d)
                for (std::int64_t first = 0; first < (of_queries ? rows : 1); ++first) {
                    go_to(at_b, at_h, first, {d, 1});
                    const shared_column made = value(node(i).arguments[0]);
                    for (std::int64_t row = first; row < (of_queries ? first + 1 : n_); ++row)
                        to[row * width + d] = made->real[made->real.size() == 1 ? 0 : static_cast<std::size_t>(row)];
                }
    go_to(b, h, q, these);
    return wholes_.emplace(i, std::move(all)).first->second;
}

}  // namespace attune::reference
