// The order in which states are joined, and how two states become one.
#include "../shards/variants.hpp"

#include <attune/ir/element.hpp>
#include <attune/mpi/inputs.hpp>
#include <attune/mpi/states.hpp>
#include <attune/mpi/tree.hpp>

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace attune;
using Catch::Approx;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

std::string both(const std::string& lower, const std::string& upper) { return "(" + lower + upper + ")"; }

/// The result at rank 0 when all ranks follow their trees; "" if one sends another message than is expected.
std::string joined_by_ranks(int ranks, const std::vector<int>& owner) {
    std::vector<mpi::tree> trees;
    std::vector<mpi::detail::waiting_states<std::string>> states;
    for (int r = 0; r < ranks; ++r) {
        trees.push_back(mpi::detail::tree_of(r, ranks, owner));
        states.emplace_back(static_cast<int>(owner.size()));
    }
    std::int64_t sent = 0, received = 0;
    for (int r = ranks; r-- > 0;) {  // who sends to r is above it
        mpi::tree& here = trees[static_cast<std::size_t>(r)];
        auto& mine = states[static_cast<std::size_t>(r)];
        for (const int part : here.own) mine.add({0, part}, std::to_string(part), both);
        for (const mpi::tree::message& each : here.received) {
            if (each.rank <= r || each.rank >= ranks) return "";
            const mpi::tree& above = trees[static_cast<std::size_t>(each.rank)];
            if (!above.sent || above.sent->rank != r || above.sent->branches != each.branches) return "";
            std::size_t next = 0;
            const auto& left = states[static_cast<std::size_t>(each.rank)].all();
            if (left.size() != each.branches.size()) return "";
            for (const auto& [first, state] : left) {
                if (state.first != each.branches[next++]) return "";
                mine.add(state.first, state.second, both);
            }
        }
        sent += here.messages_sent(), received += here.messages_received();
    }
    const auto& whole = states[0].all();
    return whole.size() == 1 && sent == received ? whole.begin()->second.second : "";
}

}  // namespace

TEST_CASE("states are joined in one order, whatever ranks have the parts") {
    std::mt19937 random(3);
    for (int parts = 1; parts <= 40; ++parts) {
        const std::string alone = joined_by_ranks(1, std::vector<int>(static_cast<std::size_t>(parts)));
        for (int part = 0; part < parts; ++part) {  // each once, and in order
            const std::string number = std::to_string(part);
            CHECK(alone.find(number) != std::string::npos);
        }
        for (int ranks = 1; ranks <= 17; ++ranks)
            for (const int way : {0, 1, 2}) {
                std::vector<int> owner;
                for (int part = 0; part < parts; ++part)
                    owner.push_back(way == 0   ? part * ranks / parts
                                    : way == 1 ? part % ranks
                                               : static_cast<int>(random() % static_cast<unsigned>(ranks)));
                CAPTURE(parts, ranks, way);
                CHECK(joined_by_ranks(ranks, owner) == alone);
            }
    }
    CHECK(joined_by_ranks(1, std::vector<int>(5)) == "(((01)(23))4)");
}

TEST_CASE("of a part a rank each rank sends one state, and then the whole") {
    for (const int ranks : {2, 3, 4, 7, 8, 64, 100}) {
        std::vector<int> owner;
        for (int r = 0; r < ranks; ++r) owner.push_back(r);
        std::size_t longest = 0;
        for (int r = 0; r < ranks; ++r) {
            const mpi::tree of = mpi::detail::tree_of(r, ranks, owner);
            CHECK(of.sent.has_value() == (r > 0));
            if (of.sent) CHECK(of.sent->branches.size() == 1);
            CHECK(of.messages_sent() == of.states_sent());
            longest = std::max(longest, of.received.size());
        }
        CHECK(longest == static_cast<std::size_t>(std::ceil(std::log2(ranks))));
    }
    // A rank without keys sends nothing, and hears the result.
    const std::vector<int> owner{0, 2};
    CHECK(mpi::detail::tree_of(1, 3, owner).messages_sent() == 0);
    CHECK(mpi::detail::tree_of(1, 3, owner).messages_received() == 1);
    CHECK(mpi::detail::tree_of(0, 3, owner).messages_received() == 1);
}

namespace {

template <const auto& Shard> std::vector<mpi::detail::joint::kind> joints() {
    const graph_ir graph = dsl::ir_of<Shard>;
    std::vector<mpi::detail::joint::kind> all;
    for (const output_declaration& output : graph.outputs) all.push_back(mpi::detail::joint_of(graph, output).how);
    return all;
}

}  // namespace

TEST_CASE("each output is joined as its shard joins it") {
    using mpi::detail::joint;
    CHECK(joints<sharded::windowed_shard>() == std::vector{joint::weighted, joint::log_sum});
    CHECK(joints<sharded::documents_shard>() == std::vector{joint::weighted, joint::log_sum, joint::largest});
    CHECK(joints<sharded::sigmoid_shard>() == std::vector{joint::added, joint::added});
    CHECK(mpi::detail::joint_of(dsl::ir_of<sharded::windowed_shard>, dsl::ir_of<sharded::windowed_shard>.outputs[0])
              .log_sums == 1);
}

TEST_CASE("two states become that of the keys of both") {
    const graph_ir graph = dsl::ir_of<sharded::documents_shard>;  // out, lse, top
    const mpi::detail::output_states states(graph, 1, 2);
    REQUIRE(states.numbers() == 4);
    const auto join = [&](std::vector<float> lower, const std::vector<float>& upper) {
        states.join(lower.data(), upper.data(), lower.data());
        return lower;
    };
    // Weights 3 and 1, of which the largest logarithm is that of 2.
    const float low = std::log(3.0f), high = std::log(1.0f), top = std::log(2.0f);
    const auto of = join({4, 8, low, top}, {8, -4, high, high});
    CHECK(of[0] == Approx(5));
    CHECK(of[1] == Approx(5));
    CHECK(of[2] == Approx(std::log(4.0f)));
    CHECK(of[3] == top);
    // Nothing on one side changes no bit, whatever lies beside it; nothing on both sides is nothing.
    const std::vector<float> some{0.1f, -0.3f, 87.7f, 80.1f}, empty{std::nanf(""), std::nanf(""), -infinity, -infinity};
    CHECK(join(some, empty) == some);
    CHECK(join(empty, some) == some);
    CHECK(join(empty, empty) == std::vector<float>{0, 0, -infinity, -infinity});
    // Far apart, and a NaN.
    CHECK(join({1, 1, -3e4f, -3e4f}, some) == some);
    const std::vector<float> broken(4, std::nanf(""));
    for (const auto& got : {join(broken, some), join(some, broken), join(empty, broken), join(broken, empty)})
        CHECK(std::ranges::all_of(got, [](float x) { return std::isnan(x); }));
    // Sums are added.
    const mpi::detail::output_states sums(dsl::ir_of<sharded::sigmoid_shard>, 1, 1);
    std::vector<float> x{1, 2};
    sums.join(x.data(), std::vector<float>{0.5f, 0.25f}.data(), x.data());
    CHECK(x == std::vector<float>{1.5f, 2.25f});
}

TEST_CASE("states are taken from outputs of each type, and given to outputs with gaps") {
    const mpi::detail::output_states states(dsl::ir_of<sharded::windowed_shard>, 6, 2);
    const auto check = [&]<class Element>(Element, element_type type, float step) {
        std::vector<Element> out(12), gaps(100);
        std::vector<float> lse(6), kept(6);
        for (std::size_t i = 0; i < 12; ++i) out[i] = Element(static_cast<float>(i) + step);
        for (std::size_t i = 0; i < 6; ++i) lse[i] = static_cast<float>(i) / 3;
        const tensor from[] = {tensor(type, static_cast<void*>(out.data()), std::vector<std::int64_t>{1, 2, 3, 2}),
                               tensor(lse.data(), {1, 2, 3})};
        const std::vector<std::int64_t> shape{1, 2, 3, 2}, strides{0, 7, 20, 3};
        const tensor to[] = {tensor(type, static_cast<void*>(gaps.data()), shape, strides),
                             tensor(kept.data(), {1, 2, 3})};
        std::vector<float> numbers(static_cast<std::size_t>(states.numbers()));
        states.take(from, numbers.data());
        states.give(numbers.data(), to);
        CHECK(kept == lse);
        for (std::size_t h = 0; h < 2; ++h)
            for (std::size_t q = 0; q < 3; ++q)
                for (std::size_t d = 0; d < 2; ++d) {
                    const float expected = static_cast<float>((h * 3 + q) * 2 + d) + step;
                    CHECK(static_cast<float>(gaps[h * 7 + q * 20 + d * 3]) == expected);
                    CHECK(numbers[(h * 3 + q) * 2 + d] == expected);
                }
        CHECK(static_cast<float>(gaps[1]) == 0);
    };
    check(float{}, element_type::f32, 0.125f);
    check(bfloat16{}, element_type::bf16, 0.5f);
    check(float16{}, element_type::f16, 0.25f);
}
