#include "peers.hpp"

#include <catch2/catch_test_macros.hpp>

#include <stdexcept>
#include <string>

// attune's formula means, in double precision, the same as PyTorch's function.
TEST_CASE("every function of the peers' suites means what it means in PyTorch") {
    REQUIRE(peers::entries().size() > 100);
    for (const peers::entry& each : peers::entries()) {
        INFO(each.name);
        const auto got = attune::reference::evaluate(each.graph, peers::arguments_of(each));
        for (const attune::reference::array& output : got.outputs) {
            INFO(output.name);
            CHECK(peers::difference(output, each) < 1e-6);
        }
    }
}

TEST_CASE("another function is told from PyTorch's") {
    const auto named = [](std::string_view name) {
        for (const peers::entry& each : peers::entries())
            if (each.name == name) return each;
        throw std::out_of_range(std::string(name));
    };
    peers::entry mistaken = named("peers.flipped_indexed_bias");
    mistaken.graph = named("peers.load_from_bias_seq_only").graph;
    const auto got = attune::reference::evaluate(mistaken.graph, peers::arguments_of(mistaken));
    CHECK(peers::difference(got["out"], mistaken) > 0.01);
}
