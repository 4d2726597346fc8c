#include "evaluation.hpp"

#include <attune/ir/stores.hpp>

#include <algorithm>
#include <limits>
#include <stdexcept>

/// Elements of inputs, as loads read and stores write them.
namespace attune::reference {

std::array<std::int64_t, max_rank> evaluation::places::at(std::size_t i) const {
    std::array<std::int64_t, max_rank> all{};
    for (std::size_t a = 0; a < rank; ++a) {
        const auto& index = indices[a]->integer;
        all[a] = std::min<std::int64_t>(index[index.size() == 1 ? 0 : i], highest[a]);
    }
    return all;
}

evaluation::places evaluation::places_of(const instruction& n, std::size_t rank) {
    const instruction& tensor = node(n.arguments[0]);
    const input_declaration computed{},
        &declared = tensor.op == operation::input ? graph_.inputs[static_cast<std::size_t>(tensor.input)] : computed;
    places all{rank};
    for (std::size_t a = 0; a < rank; ++a) {
        const axis_kind along = declared.axes[a].kind;
        const bool reads_its_key_head = along == axis_kind::key_head && node(n.arguments[a + 1]).op == operation::h;
        all.indices[a] = reads_its_key_head
                             ? std::make_shared<const column>(column{{}, {static_cast<std::int32_t>(key_head())}})
                             : value(n.arguments[a + 1]);
        // Beyond the keys in use nothing is read.
        all.highest[a] =
            along == axis_kind::key && !keys_are_stated_ ? n_ - 1 : std::numeric_limits<std::int64_t>::max();
        const std::size_t length = all.indices[a]->integer.size();
        if (length == 1) continue;
        if (all.count != 1 && all.count != length)
            throw std::invalid_argument("reference: keys and channels index one tensor together");
        all.count = length;
    }
    return all;
}

void evaluation::apply(const store_declaration& store, std::byte* to) {
    const instruction& place = node(store.element);
    const view& tensor = tensor_of(place.arguments[0]);
    const auto rank = static_cast<std::size_t>(place.argument_count) - 1;
    const variables varies = depends_[store.element];
    const auto count = [&](std::size_t variable, std::int64_t extent) { return varies[variable] ? extent : 1; };
    const int channels = channel_axis(graph_.nodes, store);
    const std::int64_t group = std::max<std::int64_t>(size().heads / std::max<std::int64_t>(size().key_heads, 1), 1),
                       width = channels < 0 ? 1 : tensor.extents[static_cast<std::size_t>(channels)];
    for (std::int64_t b = 0; b < count(batch_index, size().batches); ++b)
        for (std::int64_t h = 0; h < count(head_index, size().key_heads); ++h)
            for (std::int64_t q = 0; q < count(query_index, size().queries); ++q) {
                go_to(b, h * group, q, {0, width});
                const places all = places_of(place, rank);
                const stored_value written = value_of(graph_.nodes, store);
                const shared_column x = value(written.value),
                                    holds = written.has_condition() ? value(written.condition) : shared_column();
                const bool real = !x->real.empty();
                for (std::size_t i = 0; i < all.count; ++i) {
                    const std::size_t length = real ? x->real.size() : x->integer.size(), from = length == 1 ? 0 : i;
                    if (holds && holds->integer[holds->integer.size() == 1 ? 0 : i] == 0) continue;
                    const auto at = all.at(i);
                    write_element(to + tensor.offset({at.data(), rank}) * bytes_of(tensor.element), tensor.element,
                                  real ? x->real[from] : x->integer[from]);
                }
            }
}

}  // namespace attune::reference
