#include "visible_keys.hpp"

#include <algorithm>

namespace attune::ggml {
namespace {

constexpr std::uint16_t hidden = 0xfc00;     // -infinity
constexpr std::uint16_t magnitude = 0x7fff;  // what is left of 0 and -0 is 0

/// How many of a row's elements are not -infinity, and how many are 0. The loops have no branch, so that compilers make
/// vectors of them; 16 bits hold a count of so many.
constexpr std::int64_t at_once = 256;
struct counts {
    std::uint16_t seen, zeros;
};
counts count(const std::uint16_t* values, std::int64_t size) {
    std::uint16_t seen = 0, zeros = 0;
    for (std::int64_t i = 0; i < size; ++i) {
        seen = static_cast<std::uint16_t>(seen + (values[i] != hidden));
        zeros = static_cast<std::uint16_t>(zeros + ((values[i] & magnitude) == 0));
    }
    return {seen, zeros};
}

struct row {
    std::int64_t first = 0, end = 0;
    bool interval = true;
};
row look_at(const std::uint16_t* values, std::int64_t keys) {
    const auto is_seen = [](std::uint16_t value) { return value != hidden; };
    std::int64_t seen = 0, zeros = 0, from = keys, to = 0;  // what is seen lies in the chunks from `from` to `to`
    for (std::int64_t begin = 0; begin < keys; begin += at_once) {
        const std::int64_t size = std::min(at_once, keys - begin);
        const counts chunk = count(values + begin, size);
        if (chunk.seen == 0) continue;
        from = std::min(from, begin), to = begin + size;
        seen += chunk.seen, zeros += chunk.zeros;
    }
    if (seen == 0) return {};
    const std::int64_t first = std::find_if(values + from, values + to, is_seen) - values;
    while (!is_seen(values[to - 1])) --to;
    return {first, to, seen == zeros && seen == to - first};
}

}  // namespace

void find_visible_keys(const dense_mask& mask, visible_keys& found) {
    const auto rows = static_cast<std::size_t>(mask.batches * mask.queries);
    found.first.resize(rows), found.end.resize(rows);
    found.intervals = true;
    std::size_t at = 0;
    for (std::int64_t batch = 0; batch < mask.batches; ++batch)
        for (std::int64_t query = 0; query < mask.queries; ++query, ++at) {
            const row seen = look_at(mask.values + batch * mask.batch_stride + query * mask.row_stride, mask.keys);
            found.first[at] = static_cast<std::int32_t>(seen.first);
            found.end[at] = static_cast<std::int32_t>(seen.end);
            found.intervals = found.intervals && seen.interval;
        }
}

}  // namespace attune::ggml
