// Which blocks calls of several softmaxes visit, and of heads with masks of their own: pair by pair, in prefill and
// decode.
#include "cores_formulas.hpp"
#include "fenced_tensor.hpp"

#include <attune/runtime.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

using namespace attune;
using support::workload;

namespace {

/// Whether a mask shows a pair: (head, query counted from the last key in use, key).
using seen_by = std::function<bool(std::int64_t head, std::int64_t query, std::int64_t key)>;
const seen_by recent = [](auto, auto query, auto key) { return key <= query && key >= query - 31; };
const seen_by first_keys = [](auto, auto, auto key) { return key < 128; };  // whole blocks of every schedule
const seen_by local_and_global = [](auto head, auto query, auto key) {
    return key <= query && (head >= 2 || key > query - 64);
};

/// The state of a block for one softmax: 0 no pair of it is seen, 2 all are, 1 else. Keys beyond the last one in use
/// are not seen, and no block with any of them is 2.
int state_of(const seen_by& mask, const block_map& map, std::int64_t queries, std::int64_t in_use, int head, int i,
             int j) {
    bool any = false, all = true;
    for (std::int64_t q = i * map.query_block; q < std::min<std::int64_t>(queries, (i + 1) * map.query_block); ++q)
        for (std::int64_t k = j * map.key_block; k < (j + 1) * map.key_block; ++k) {
            const bool seen = k < in_use && mask(head, q + in_use - queries, k);
            any = any || seen, all = all && seen;
        }
    return !any ? 0 : all ? 2 : 1;
}

/// A block is skipped where all softmaxes skip it, and has a mask where one of them does.
int state_of_all(const std::vector<int>& each) {
    if (std::ranges::count(each, 1) > 0) return 1;
    return std::ranges::max(each);
}

struct counted {
    std::int64_t skipped{}, masked{}, whole{}, more_than_first{};
};

counted check_blocks(const kernel_table& table, const workload& call, const std::vector<seen_by>& masks,
                     const support::shape& s, const std::vector<std::int32_t>& in_use) {
    const block_map map = detail::blocks(table, call.arguments(), {});
    const explanation said = detail::explain(table, call.arguments(), {});
    CHECK(said.blocks == map.total());
    CHECK(said.blocks_visited == map.visited());
    CHECK(said.blocks_unmasked == map.unmasked());
    counted all;
    bool same = true;
    for (int b = 0; b < map.batches; ++b)
        for (int h = 0; h < map.heads; ++h)
            for (int i = 0; i < map.query_blocks; ++i)
                for (int j = 0; j < map.key_blocks; ++j) {
                    std::vector<int> each;
                    for (const seen_by& mask : masks)
                        each.push_back(state_of(mask, map, s.queries, in_use[static_cast<std::size_t>(b)], h, i, j));
                    const int expected = state_of_all(each);
                    if (map.at(b, h, i, j) != expected) {
                        UNSCOPED_INFO("batch " << b << ", head " << h << ", query block " << i << ", key block " << j
                                               << ": " << int{map.at(b, h, i, j)} << ", its pairs say " << expected);
                        same = false;
                    }
                    all.skipped += expected == 0, all.masked += expected == 1, all.whole += expected == 2;
                    all.more_than_first += expected != 0 && each.front() == 0;
                }
    CHECK(same);
    return all;
}

const support::shape prefilled{
    .batches = 2, .heads = 4, .key_heads = 2, .queries = 300, .keys = 1100, .depth = 16, .value_depth = 16};
support::shape decoded(std::int64_t queries) {
    support::shape s = prefilled;
    s.queries = queries, s.keys = 1000;
    return s;
}

void fill_local(workload& call) {
    const std::vector<std::uint8_t> local{1, 1, 0, 0};
    std::ranges::copy(local, call["is_local"].bytes.begin());
}

}  // namespace

TEST_CASE("of two masks, blocks that either sees are visited, and explained, in prefill and decode", "[cores]") {
    const std::map<std::string, std::pair<const kernel_table*, std::vector<seen_by>>> graphs{
        {"recent first", {&detail::table_of<cores::recent_and_first>(), {recent, first_keys}}},
        {"first keys first", {&detail::table_of<cores::first_and_recent>(), {first_keys, recent}}}};
    for (const auto& [name, of] : graphs)
        for (const support::shape& s : {prefilled, decoded(1), decoded(3)})
            for (const std::vector<std::int32_t>& in_use :
                 {std::vector<std::int32_t>(2, static_cast<std::int32_t>(s.keys)), {400, 700}}) {
                const auto& [table, masks] = of;
                workload call(table->graph, s, 7);
                if (in_use[0] != s.keys) call.set_lengths(in_use);
                INFO(name << ", " << s.text() << ", keys in use " << in_use[0] << " and " << in_use[1]);
                const counted found = check_blocks(*table, call, masks, s, in_use);
                CHECK(found.more_than_first > 0);
                CHECK(found.skipped > found.masked + found.whole);
                CHECK(found.whole > 0);
                detail::call(*table, call.arguments(), {});
                CHECK(call.largest_error(call.expected(), "out") < 2e-5);
            }
}

TEST_CASE("local and global heads of one call skip blocks of their own, and give what the reference gives", "[cores]") {
    for (const kernel_table* table : {&detail::table_of<cores::by_number>(), &detail::table_of<cores::by_list>()})
        for (support::shape s : {prefilled, decoded(1), decoded(3)})
            for (const std::int64_t key_heads : {1, 2, 4}) {
                s.key_heads = key_heads;
                workload call(table->graph, s, 7);
                if (table->graph.inputs.size() > 3) fill_local(call);
                INFO(table->variant << ", " << s.text());
                const std::vector<std::int32_t> in_use(2, static_cast<std::int32_t>(s.keys));
                check_blocks(*table, call, {local_and_global}, s, in_use);
                const block_map map = detail::blocks(*table, call.arguments(), {});
                const auto visited = [&](int head) {
                    int count = 0;
                    for (int i = 0; i < map.query_blocks; ++i)
                        for (int j = 0; j < map.key_blocks; ++j) count += map.at(0, head, i, j) != 0;
                    return count;
                };
                CHECK(visited(0) == visited(1));
                CHECK(visited(2) == visited(3));
                CHECK(2 * visited(0) < visited(2));
                const auto expected = call.expected();
                for (const int threads : {1, 2}) {
                    call.reset_outputs();
                    detail::call(*table, call.arguments(), {.threads = threads});
                    CHECK(call.largest_error(expected, "out") < 2e-5);
                }
            }
}

TEST_CASE("keys and values in blocks that no head of a group sees are never read", "[cores]") {
    const std::int64_t page = sysconf(_SC_PAGESIZE);
    for (const kernel_table* table : {&detail::table_of<cores::by_number>(), &detail::table_of<cores::by_list>()})
        for (support::shape s : {prefilled, decoded(1), decoded(3)})
            for (const std::int64_t key_heads : {2, 4}) {
                s.key_heads = key_heads;
                // Each head's rows fill some pages, and whole ones, however large those are.
                s.keys = std::max<std::int64_t>(2048, 8 * page / (s.depth * std::int64_t{sizeof(float)}));
                workload call(table->graph, s, 7);
                if (table->graph.inputs.size() > 3) fill_local(call);
                INFO(table->variant << ", " << s.text());
                const block_map map = detail::blocks(*table, call.arguments(), {});
                // Keys before the first one that the first query of a local head sees, in whole blocks.
                const std::int64_t hidden = (s.keys - s.queries - 63) / map.key_block * map.key_block;
                testing::fenced_tensor k(call.view("k")), v(call.view("v"));
                std::size_t fenced = 0;
                for (testing::fenced_tensor* tensor : {&k, &v})
                    for (std::int64_t b = 0; b < s.batches; ++b)
                        for (std::int64_t head = 0; head < key_heads / 2; ++head)
                            fenced += tensor->fence(b, head, 0, hidden);
                // All but what fills no page: a head's rows begin with a page.
                const std::int64_t heads = 2 * s.batches * (key_heads / 2),
                                   bytes = hidden * s.depth * std::int64_t{sizeof(float)};
                REQUIRE(fenced == static_cast<std::size_t>(heads * (bytes / page * page)));
                const auto expected = call.expected();
                auto arguments = call.arguments();
                for (auto& each : arguments) {
                    if (each.name == "k") each.view = k.view();
                    if (each.name == "v") each.view = v.view();
                }
                for (const int threads : {1, 2}) {
                    call.reset_outputs();
                    detail::call(*table, arguments, {.threads = threads});
                    CHECK(call.largest_error(expected, "out") < 2e-5);
                }
            }
}
