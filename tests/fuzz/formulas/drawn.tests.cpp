// The fuzzer of formulas draws from the whole language, and nothing beside it; so do its gradients and shards.
#include "../../properties/random_graph.hpp"
#include "../../properties/random_recurrence.hpp"

#include <attune/ir/attention_cores.hpp>
#include <attune/ir/operations.hpp>
#include <catch2/catch_test_macros.hpp>

#include <set>
#include <string>

using namespace attune;

TEST_CASE("random graphs are graphs of the language, and have every operation of it, every element and every output") {
    std::set<operation> operations;
    std::set<element_type> elements;
    std::set<kind> outputs;
    std::set<int> cores;
    std::set<std::string_view> stored_to;
    for (unsigned seed = 0; seed < 1200; ++seed) {
        using testing::beside;
        const beside more = seed % 4 == 1 ? beside::choices : seed % 4 == 3 ? beside::stores : beside::nothing;
        const testing::random_graph graph(seed, more);
        INFO("seed " << seed << "\n" << graph.text());
        REQUIRE(graph.fault().empty());
        REQUIRE((graph.precomputes() == (more == beside::choices) && graph.stores.empty() == (more != beside::stores)));
        for (const store_declaration& s : graph.stores) {
            const instruction& place = graph.nodes[s.element];
            const std::int16_t to = graph.nodes[place.arguments[0]].input;
            stored_to.insert(graph.inputs[static_cast<std::size_t>(to)].name);
        }
        cores.insert(attention_cores(graph.nodes).count());
        for (const instruction& n : graph.nodes) operations.insert(n.op);
        for (const input_declaration& d : graph.inputs) elements.insert(d.element);
        for (const output_declaration& o : graph.outputs) outputs.insert(graph.nodes[o.node].kind);
    }
    for (unsigned seed = 0; seed < 300; ++seed) {
        const testing::random_recurrence graph(seed);
        INFO("seed " << seed << "\n" << graph.text());
        REQUIRE(graph.fault().empty());
        for (const instruction& n : graph.nodes) operations.insert(n.op);
    }
    for (const operation_row& row : operation_table::rows_of_all) {
        if (row.op == operation::each || row.op == operation::deposit || row.op == operation::state_cotangents ||
            row.op == operation::part_cotangent)
            continue;  // gradient(...) alone makes them
        // Not drawn, since they allow kernels to be further off than other operations: codes.tests.cpp has them.
        if (row.op == operation::in_u8 || row.op == operation::in_i16) continue;
        INFO("operation " << static_cast<int>(row.op) << " " << row.text);
        CHECK(operations.contains(row.op));
    }
    for (const element_type element :
         {element_type::any, element_type::f32, element_type::bf16, element_type::f16, element_type::i32,
          element_type::u8, element_type::boolean, element_type::i8, element_type::f8_e4m3, element_type::f8_e5m2}) {
        INFO(name_of(element));
        CHECK(elements.contains(element));
    }
    for (const kind is : {kind::output, kind::row, kind::scores, kind::weights, kind::column, kind::head_mean,
                          kind::tokens, kind::precomputed})
        CHECK(outputs.contains(is));
    CHECK(stored_to == std::set<std::string_view>{"by_key", "k", "key_codes", "key_pages", "key_scales", "place", "v",
                                                  "value_codes", "value_pages"});
    CHECK((cores.contains(1) && cores.contains(2) && cores.contains(3)));
}

TEST_CASE("graphs of extremes are graphs of the language, and read extremes of every float type at every place") {
    std::set<std::string> read;
    for (unsigned seed = 0; seed < 1500; ++seed) {
        const testing::random_graph graph(seed, testing::beside::extremes);
        INFO("seed " << seed << "\n" << graph.text());
        REQUIRE(graph.fault().empty());
        for (const input_declaration& d : graph.inputs)
            if (!d.is_scalar) read.insert(std::string(d.name));
    }
    for (const char* const place : {"bias_keys", "bias_queries", "bias_pairs", "bias_heads", "limit_keys",
                                    "limit_queries", "limit_pairs", "limit_heads", "factor_keys", "factor_queries",
                                    "factor_pairs", "factor_heads", "sink_rows", "sink_heads", "lse_rows", "lse_heads"})
        for (const char* const type : {"f32", "bf16", "f16", "f8_e4m3", "f8_e5m2"}) {
            CAPTURE(place, type);
            CHECK(read.contains(std::string("extreme_") + place + '_' + type));
        }
    CHECK((read.contains("extreme_other") && read.contains("extreme_ends")));
}
