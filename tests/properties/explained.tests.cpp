// The sentences of attune::explain about a built variant, against the blocks that attune::blocks finds.
#include "conventions.hpp"

#include <attune/runtime.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace {

constexpr std::int64_t length = 600, channels_each = 16, count_of_heads = 2;
constexpr int near = 50, everything = 1000;

std::vector<float> numbers(count_of_heads * length * channels_each);
const attune::tensor rows(numbers.data(), {1, count_of_heads, length, channels_each});

auto with(auto ask, int left, int right) {
    using namespace conventions;
    return ask(q = rows, k = rows, v = rows, conventions::scale = 0.25f, conventions::left = left,
               conventions::right = right);
}
std::int64_t visited(int left, int right) {
    return with([](auto... given) { return attune::blocks<conventions::window_top_left>(given...); }, left, right)
        .visited();
}

void agree(const attune::explanation& said, const attune::block_map& found) {
    CHECK(said.blocks == found.total());
    CHECK(said.blocks_visited == found.visited());
    CHECK(said.blocks_unmasked == found.unmasked());
    CHECK(said.flops ==
          2.0 * static_cast<double>(found.pairs_visited(length, length)) * (channels_each + channels_each));
}

}  // namespace

TEST_CASE("of each condition of a window, attune::explain says that it skips, as attune::blocks does by it alone") {
    const auto said =
        with([](auto... given) { return attune::explain<conventions::window_top_left>(given...); }, near, near);
    agree(said, with([](auto... given) { return attune::blocks<conventions::window_top_left>(given...); }, near, near));
    REQUIRE(said.conditions.size() == 2);
    for (const auto& each : said.conditions) CHECK(each.skips.starts_with("skips: "));
    CHECK(visited(everything, everything) == said.blocks);
    CHECK(visited(near, everything) < said.blocks);
    CHECK(visited(everything, near) < said.blocks);
    CHECK(said.blocks_visited < std::min(visited(near, everything), visited(everything, near)));
}

TEST_CASE("of numbers that are read by query and key, attune::explain says that they skip nothing, as attune::blocks") {
    using namespace conventions;
    std::vector<float> masked(length * length, -1e30f), slope(count_of_heads, 1.0f);
    const attune::tensor added(masked.data(), {length, length}), of_heads(slope.data(), {count_of_heads});
    const auto with_mask = [&](auto ask) {
        return ask(q = rows, k = rows, v = rows, conventions::scale = 0.25f, slopes = of_heads, mask_value = added);
    };
    const auto said = with_mask([](auto... given) { return attune::explain<alibi_by_mask>(given...); });
    agree(said, with_mask([](auto... given) { return attune::blocks<alibi_by_mask>(given...); }));
    REQUIRE(said.conditions.size() == 1);
    CHECK(said.conditions[0].skips.starts_with("skips nothing: "));
    CHECK(said.blocks_visited == said.blocks);
}
