// Inputs of the fuzzer's calls: what keys in use read is left alone where keys beyond are made to be anything.
#include "formula_inputs.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdint>

using attune::tensor;

namespace {

std::int64_t entry(const tensor& table, std::int64_t b, std::int64_t seat) {
    const std::int64_t at = (table.extent(0) == 1 ? 0 : b * table.stride(0)) + seat * table.stride(1);
    switch (table.type()) {
        case attune::element_type::i64: return static_cast<const std::int64_t*>(table.data())[at];
        case attune::element_type::i16: return static_cast<const std::int16_t*>(table.data())[at];
        default: return static_cast<const std::int32_t*>(table.data())[at];
    }
}

}  // namespace

TEST_CASE("a page that any sequence in use reads is there, be its table shared or not; others are not") {
    int shared = 0, own = 0, absent = 0;
    for (unsigned seed = 0; seed < 6000 && std::min(shared, own) < 8; ++seed) {
        const fuzz::formula_case it = fuzz::drawn_case(seed);
        if (!it.has_input("block_table") || it.kv_lengths.empty() || it.kernel_of.made == fuzz::pass::shard) continue;
        const attune::generators::variant variant{"fuzzed", it.graph.view()};
        attune::support::workload call = fuzz::drawn_workload(it, it.kernel(variant).request.types);
        const tensor& table = call.view("block_table");
        const bool is_shared = it.shape.batches > 1 && (table.extent(0) == 1 || table.stride(0) == 0);
        ++(is_shared ? shared : own);
        INFO("seed " << seed << ", " << it.text());
        for (std::int64_t b = 0; b < it.shape.batches; ++b)
            for (std::int64_t seat = 0; seat < table.extent(1); ++seat) {
                const bool there = entry(table, b, seat) >= 0;
                const bool used = seat * it.lengths.at("slot") < it.kv_lengths[static_cast<std::size_t>(b)];
                CHECK((there || !used));
                absent += !there;
            }
    }
    CHECK((shared > 0 && own > 0 && absent > 0));
}
