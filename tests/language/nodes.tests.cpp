#include <attune/dsl.hpp>
#include <attune/ir/fold.hpp>
#include <attune/ir/operations.hpp>

#include <catch2/catch_test_macros.hpp>

#include <type_traits>
#include <vector>

using namespace attune;

namespace {

template <class Map, class Index>
concept indexed_by = requires(const Map& map, Index index) {
    { map[index] } -> std::convertible_to<int>;
};

}  // namespace

TEST_CASE("a number is no node until it is said to be one", "[nodes]") {
    STATIC_REQUIRE(std::is_convertible_v<node_id, int>);
    STATIC_REQUIRE(!std::is_convertible_v<int, node_id>);
    STATIC_REQUIRE(!std::is_convertible_v<std::int16_t, node_id>);
    STATIC_REQUIRE(indexed_by<node_map<int>, node_id>);
    STATIC_REQUIRE(!indexed_by<node_map<int>, int>);
    STATIC_REQUIRE(!indexed_by<node_map<int>, std::size_t>);
    STATIC_REQUIRE(!indexed_by<node_table<int>, int>);
    CHECK(node_at(std::size_t{7}) == node_id{7});
}

TEST_CASE("a table of optional nodes has none, and each node may be in it", "[nodes]") {
    node_table<optional_node> table;
    CHECK(!table[node_id{0}]);
    table[node_id{3}] = node_id{0};
    REQUIRE(table[node_id{3}]);
    CHECK(*table[node_id{3}] == node_id{0});
    table[node_id{3}] = node_id{max_nodes - 1};
    CHECK(*table[node_id{3}] == node_id{max_nodes - 1});
    CHECK(!table[node_id{max_nodes - 1}]);
}

TEST_CASE("the nodes of a list go from the first to the last, and an empty list has none", "[nodes]") {
    std::vector<int> seen;
    for (const node_id n : node_ids(3)) seen.push_back(n);
    CHECK(seen == std::vector{0, 1, 2});
    CHECK(node_ids(3).last() == node_id{2});
    CHECK(node_ids(0).last() == no_node);
    for ([[maybe_unused]] const node_id n : node_ids(0)) FAIL("expected no node");
}

TEST_CASE("a fold gives each node what its domain makes of its arguments", "[nodes]") {
    // (2 + 3) * 3, with the 3 once
    const auto constant = [](std::int64_t x) {
        return instruction{.op = operation::constant, .kind = kind::integer, .integer = x};
    };
    const auto of_two = [](operation op, node_id x, node_id y) {
        return instruction{.op = op, .kind = kind::integer, .argument_count = 2, .arguments = {x, y}};
    };
    const std::vector nodes{constant(2), constant(3), of_two(operation::add, node_id{0}, node_id{1}),
                            of_two(operation::multiply, node_id{2}, node_id{1})};
    node_map<std::int64_t> values(nodes.size());
    fold(nodes, values, [](node_id, const instruction& n, const auto& of) {
        return n.op == operation::constant ? n.integer : n.op == operation::add ? of[0] + of[1] : of[0] * of[1];
    });
    CHECK(values[node_id{2}] == 5);
    CHECK(values[node_id{3}] == 15);

    node_map<int> depth(nodes.size());
    fold(nodes, depth, [](node_id, const instruction&, const auto& of) {
        int deepest = 0;
        for (std::size_t i = 0; i < of.size(); ++i) deepest = std::max(deepest, of[i] + 1);
        return deepest;
    });
    CHECK(std::vector<int>(depth.begin(), depth.end()) == std::vector{0, 0, 1, 2});
}

TEST_CASE("what varies, by the table of operations, is a domain of the fold", "[nodes]") {
    static constexpr auto scores = dsl::q * dsl::t(dsl::k);
    static constexpr auto causal = dsl::softmax(dsl::mask(scores, dsl::q_idx >= dsl::kv_idx)) * dsl::v;
    const graph_ir& graph = dsl::ir_of<causal>;
    node_map<dependences_of_node> varies(graph.nodes.size());
    fold(graph.nodes, varies, what_varies);
    for (const node_id n : graph.nodes.ids()) {
        if (graph.nodes[n].op == operation::greater_equal) CHECK(varies[n].on == (variable::query | variable::key));
        if (graph.nodes[n].op == operation::weighted_sum) {
            CHECK(!varies[n].has(variable::key));
            CHECK(varies[n].has(variable::query));
        }
    }
}
