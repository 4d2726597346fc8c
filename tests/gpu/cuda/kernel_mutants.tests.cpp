// The worth of the checks of the device in software: one line of a right kernel is made wrong in turn, and the launch
// has to be refused or its numbers have to be wrong. The kernel is causal attention, looked at for races.
#include "../opencl/halves.hpp"
#include "mutants.hpp"

#include <catch2/catch_test_macros.hpp>

#include <regex>
#include <string>

using namespace attune;
using namespace mutants;

namespace {

const judged_call& causal() {
    static const judged_call made(
        detail::table_of<under_test::halves>(),
        {dsl::ir_of<under_test::halves>,
         {.heads = 2, .key_heads = 1, .queries = 70, .keys = 90, .depth = 128, .value_depth = 128},
         5},
        2e-5);
    return made;
}

}  // namespace

// Halide writes more barriers than a kernel needs, so that some may be left out. A race leaves the numbers right where
// warps run one after the other: it has to be refused.
TEST_CASE("a kernel without a barrier that it needs is refused") {
    const auto without = [](const std::string& line) { return has(line, "bar.sync") ? std::string() : line; };
    const tally its = causal().tried("barrier left out", without, 1);
    CHECK(its.wrong == 0);
    CHECK(its.refused * 3 >= its.all);
}

TEST_CASE("a kernel that stores 16 bytes behind a place in shared memory is found") {
    const auto displaced = [](const std::string& line) {
        static const std::regex place(R"(\[([^\]+]+)(?:\+(-?\d+))?\])");
        std::smatch found;
        if (!has(line, "st.shared") || !std::regex_search(line, found, place)) return line;
        const int offset = found[2].matched ? std::stoi(found[2]) : 0;
        return replaced(line, found[0], "[" + found[1].str() + "+" + std::to_string(offset + 16) + "]");
    };
    const tally its = causal().tried("store displaced", displaced, 7);
    CHECK(its.refused + its.wrong == its.tried);
}

TEST_CASE("a kernel that leaves out a summand is found") {
    const auto without = [](const std::string& line) {
        const std::size_t last = line.rfind(", ");
        const bool applies = has(line, "fma.rn.f32") && last != std::string::npos && !has(line, ", 0f00000000;");
        return applies ? replaced(line.substr(0, last) + ";", "fma.rn.f32", "mul.rn.f32") : line;
    };
    const tally its = causal().tried("summand left out", without, 97);
    CHECK(its.refused + its.wrong == its.tried);
}
