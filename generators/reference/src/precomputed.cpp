#include <attune/ir/operations.hpp>

#include "evaluation.hpp"
#include "statistics.hpp"

#include <algorithm>
#include <span>
#include <tuple>

namespace attune::reference {

/// For each batch element and query head, the formula at all indices; or which of another's are the largest.
evaluation::whole evaluation::precomputed(node_id i) {
    const instruction& n = node(i);
    if (chooses(n.op)) {
        whole all = made_whole(n.arguments[0]);
        const auto length = static_cast<std::size_t>(all.extents.back());
        const shared_column wanted = value(n.arguments[1]);
        for (std::size_t row = 0; length > 0 && row < all.values.size(); row += length) {
            const std::span numbers(all.values.data() + row, length);
            if (n.op == operation::top_k)
                mark_largest(numbers, wanted->integer.at(0));
            else
                mark_largest_share(numbers, wanted->real.at(0));
        }
        return all;
    }
    const auto [b, h, q, these] = std::tuple(b_, h_, q_, channels_);
    whole all{{size().batches, size().heads}, {}};
    for (std::size_t a = 1; a < n.argument_count; a += 2)
        all.extents.push_back(std::max<std::int64_t>(value(n.arguments[a + 1])->integer.at(0), 0));
    const auto over = [&](const auto& self, std::size_t a) -> void {
        if (a < n.argument_count) return for_each(n.arguments[a], n.arguments[a + 1], [&] { self(self, a + 2); });
        all.values.push_back(value(n.arguments[0])->real.at(0));
    };
    for (std::int64_t at_b = 0; at_b < size().batches; ++at_b)
        for (std::int64_t at_h = 0; at_h < size().heads; ++at_h) go_to(at_b, at_h, 0), over(over, 1);
    go_to(b, h, q, these);
    return all;
}

}  // namespace attune::reference
