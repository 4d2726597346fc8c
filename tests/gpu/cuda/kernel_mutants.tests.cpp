// What the checks of the device in software are worth: one line of a right kernel is made wrong in turn, and the launch
// has to be refused or its numbers have to be wrong. The kernel is causal attention, looked at for races.
#include "../opencl/halves.hpp"
#include "stand_in_driver.hpp"

#include <attune/runtime.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <dlfcn.h>

#include <cstdio>
#include <functional>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

using namespace attune;
using support::workload;

namespace {

template <class Function> Function* of_driver(const char* name) {
    return reinterpret_cast<Function*>(dlsym(dlopen("libcuda.so.1", RTLD_LAZY), name));
}
const stand_in::controls& driver() {
    static const auto* const controls =
        static_cast<const stand_in::controls*>(dlsym(dlopen("libcuda.so.1", RTLD_LAZY), stand_in::controls_name));
    REQUIRE(controls);
    return *controls;
}

/// A kind of mistake: what a line becomes, or the line itself where the kind does not apply.
using mistake = std::function<std::string(const std::string&)>;

/// The mutant that lives, and what it was made of. The driver asks a function without a state.
struct {
    mistake of;
    int number = -1, count = 0;
    std::string line;
} living;

std::string rewritten(const std::string& text) {
    std::istringstream lines(text);
    std::string all, line;
    living.count = 0, living.line.clear();
    while (std::getline(lines, line)) {
        const std::string made = living.of(line);
        const bool here = made != line && living.count++ == living.number;
        if (here) living.line = line;
        all += (here ? made : line) + "\n";
    }
    return all;
}

/// How a call ends whose kernel has the mutant: a sentence of the driver, "wrong numbers", or nothing.
std::string ended(const mistake& of, int number) {
    static const workload right(
        dsl::ir_of<under_test::halves>,
        {.heads = 2, .key_heads = 1, .queries = 70, .keys = 90, .depth = 128, .value_depth = 128}, 5);
    static const auto expected = right.expected();
    living.of = of, living.number = number;
    driver().rewrite(rewritten);
    void* context = nullptr;  // of its own, so that the module is loaded anew
    REQUIRE(of_driver<int(void**, unsigned, int)>("cuCtxCreate_v2")(&context, 0, 0) == 0);
    workload call = right;
    std::string said;
    try {
        detail::call(detail::table_of<under_test::halves>(), call.arguments(), {.target = "cuda", .context = context});
        for (const char* output : {"out", "lse"})
            if (!(call.largest_error(expected, output) < 2e-5)) said = "wrong numbers";
    } catch (const error& refused) {
        said = refused.what();
    }
    void* popped = nullptr;
    REQUIRE(of_driver<int(void**)>("cuCtxPopCurrent_v2")(&popped) == 0);
    driver().rewrite(nullptr);
    return said;
}

/// How many mutants of a kind there are, and how many of those that were tried are found.
struct tally {
    int all = 0, tried = 0, refused = 0, wrong = 0;
};
/// Each `step`th; those that are not found are printed.
tally tried(const char* kind, const mistake& of, int step) {
    REQUIRE(of_driver<int(unsigned)>("cuInit")(0) == 0);
    REQUIRE(ended(of, -1).empty());
    tally its{.all = living.count};
    REQUIRE(its.all > 0);
    for (int number = 0; number < its.all; number += step, ++its.tried) {
        const std::string said = ended(of, number);
        (said == "wrong numbers" ? its.wrong : its.refused) += !said.empty();
        if (said.empty()) std::printf("not found: %s\n", living.line.c_str());
    }
    std::printf("%s: %d of %d tried, %d refused, %d with wrong numbers\n", kind, its.tried, its.all, its.refused,
                its.wrong);
    return its;
}

bool has(const std::string& line, const char* text) { return line.find(text) != std::string::npos; }
std::string replaced(std::string line, const std::string& from, const std::string& to) {
    const std::size_t at = line.find(from);
    return at == std::string::npos ? line : line.replace(at, from.size(), to);
}

}  // namespace

// Halide writes more barriers than a kernel needs, so that some may be left out. A race leaves the numbers right where
// warps run one after the other: it has to be refused.
TEST_CASE("a kernel without a barrier that it needs is refused") {
    const auto without = [](const std::string& line) { return has(line, "bar.sync") ? std::string() : line; };
    const tally its = tried("barrier left out", without, 1);
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
    const tally its = tried("store displaced", displaced, 7);
    CHECK(its.refused + its.wrong == its.tried);
}

TEST_CASE("a kernel that leaves out a summand is found") {
    const auto without = [](const std::string& line) {
        const std::size_t last = line.rfind(", ");
        const bool applies = has(line, "fma.rn.f32") && last != std::string::npos && !has(line, ", 0f00000000;");
        return applies ? replaced(line.substr(0, last) + ";", "fma.rn.f32", "mul.rn.f32") : line;
    };
    const tally its = tried("summand left out", without, 97);
    CHECK(its.refused + its.wrong == its.tried);
}
