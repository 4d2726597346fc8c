// What a mistake of the pass that makes instructions of calls (generators/src/ptx) leaves in a kernel by tensor cores
// is found on the device in software: one instruction has results or operands of another order, another address, no
// wait for its copies, or is reached by a part of a warp.
#include "mutants.hpp"
#include "tensor.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

using namespace attune;
using namespace mutants;

namespace {

/// One block of threads and two blocks of keys, no element of which is idle; weights of which few are large.
support::workload sharp_call() {
    support::workload call(dsl::ir_of<tensor::full>, {.queries = 128, .keys = 256, .depth = 64, .value_depth = 64}, 7);
    for (float& each : call["q"].reals) each *= 4;
    for (const char* name : {"q", "k", "v", "out"}) call.convert(name, element_type::bf16);
    return call;
}

const judged_call& full() {
    static const judged_call made(detail::table_of<tensor::full>(), sharp_call(), 0.02);
    return made;
}

/// The line with two registers exchanged in one of its lists in braces.
std::string exchanged(const std::string& line, int list, std::size_t one, std::size_t other) {
    std::size_t open = line.find('{');
    for (int n = 0; n < list && open != line.npos; ++n) open = line.find('{', open + 1);
    const std::size_t close = line.find('}', open);
    if (open == line.npos || close == line.npos) return line;
    std::vector<std::string> names{""};
    for (const char each : line.substr(open + 1, close - open - 1))
        each == ',' ? names.push_back("") : each == ' ' ? void() : names.back().push_back(each);
    if (std::max(one, other) >= names.size()) return line;
    std::swap(names[one], names[other]);
    std::string made;
    for (const std::string& each : names) made += (made.empty() ? "" : ", ") + each;
    return line.substr(0, open + 1) + made + line.substr(close);
}

/// Of lines with an instruction, two registers of a list: 0 are the results.
mistake exchange(const char* instruction, int list, std::size_t one, std::size_t other) {
    return [=](const std::string& line) { return has(line, instruction) ? exchanged(line, list, one, other) : line; };
}

bool all_found(const tally& its) { return its.refused + its.wrong == its.tried; }

}  // namespace

TEST_CASE("a product whose results or operands are merged in another order is found") {
    CHECK(all_found(full().tried("results of products", exchange("mma.sync", 0, 0, 2), 5)));
    CHECK(all_found(full().tried("rows of products", exchange("mma.sync", 1, 0, 1), 7)));
    CHECK(all_found(full().tried(
        "sums of products",
        [](const std::string& line) {
            const bool adds = has(line, "mma.sync") && line.find("%attune", line.rfind('{')) == line.npos;
            return adds ? exchanged(line, 3, 0, 2) : line;  // others begin with zeros
        },
        5)));
}

TEST_CASE("a load of four matrices with another order or another address is found") {
    CHECK(all_found(full().tried("matrices of keys", exchange("m8n8.x4.shared", 0, 0, 1), 3)));
    CHECK(all_found(full().tried("matrices of values", exchange("x4.trans", 0, 1, 2), 3)));
    CHECK(all_found(full().tried(
        "addresses of matrices",
        [](const std::string& line) {
            const std::size_t plus = has(line, "ldmatrix") ? line.rfind('+') : line.npos;
            return plus == line.npos
                       ? line
                       : line.substr(0, plus) + "+" + std::to_string(std::stoi(line.substr(plus + 1)) + 16) + "];";
        },
        3)));
}

TEST_CASE("copies that nobody waits for are refused") {
    const tally its = full().tried(
        "waits for copies",
        [](const std::string& line) { return replaced(line, "cp.async.wait_group 0", "cp.async.wait_group 1"); }, 1);
    CHECK(its.refused == its.all);
}

TEST_CASE("an instruction of a whole warp that a part of it comes to is refused") {
    const tally its = full().tried(
        "half a warp",
        [](const std::string& line) {
            const bool applies = has(line, "mma.sync") || has(line, "ldmatrix");
            return applies ? "\tmov.u32 \t%r1, %laneid;\n\tsetp.lt.u32 \t%p1, %r1, 16;\n\t@%p1 " + line.substr(1)
                           : line;
        },
        11);
    CHECK(its.refused == its.tried);
}
