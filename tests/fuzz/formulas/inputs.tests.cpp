// Inputs of the fuzzer's calls: what keys in use read is left alone where keys beyond are made to be anything.
#include "formula_inputs.hpp"

#include <attune/ir/element.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

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

namespace {

std::vector<float> floats_of(const attune::support::owned_tensor& t) {
    std::vector<float> all(t.reals);
    const attune::element_type type = t.view.type();
    for (const std::uint16_t bits : t.halves) {
        attune::bfloat16 b;
        attune::float16 f;
        b.bits = f.bits = bits;
        all.push_back(type == attune::element_type::bf16 ? static_cast<float>(b) : static_cast<float>(f));
    }
    for (const std::uint8_t bits : t.bytes) {
        attune::float8_e5m2 wide;
        attune::float8_e4m3 fine;
        wide.bits = fine.bits = bits;
        all.push_back(type == attune::element_type::f8_e5m2 ? static_cast<float>(wide) : static_cast<float>(fine));
    }
    return all;
}

}  // namespace

TEST_CASE("calls of extremes have NaN in every float type and place, and -infinity where it has a meaning") {
    std::set<std::string> infinite, undefined;
    for (unsigned seed = 0; seed < 4000; ++seed) {
        fuzz::formula_case it = fuzz::drawn_case(seed);
        if (!it.extreme) continue;
        it.kv_lengths.clear();  // keys beyond are NaN anyway
        const attune::generators::variant variant{"fuzzed", it.graph.view()};
        attune::support::workload call = fuzz::drawn_workload(it, it.kernel(variant).request.types);
        for (const attune::input_declaration& d : it.graph.inputs)
            if (!d.is_scalar && d.name != "extreme_ends") {
                // `q f16`, `extreme_sink bf16` and so on
                const std::string where = std::string(d.name.substr(0, d.name.find('_', sizeof "extreme"))) + ' ' +
                                          std::string(attune::name_of(call.view(d.name).type()));
                for (const float x : floats_of(call[d.name])) {
                    if (x == -std::numeric_limits<float>::infinity()) infinite.insert(where);
                    if (std::isnan(x)) undefined.insert(where);
                }
            }
    }
    for (const char* const place : {"q", "k", "v", "extreme_bias", "extreme_limit", "extreme_factor", "extreme_sink",
                                    "extreme_lse", "extreme_other"})
        for (const char* const type : {"f32", "bf16", "f16", "f8_e5m2", "f8_e4m3"}) {
            const std::string_view of = place, is = type;
            const bool small = is.starts_with("f8"), passed = of.size() == 1 || of == "extreme_other";
            if (passed && (small || (of == "extreme_other" && is == "bf16")))
                continue;  // such tensors have no such type
            CAPTURE(place, type);
            const bool finite = is == "f8_e4m3" || of == "q" || of == "extreme_factor" || of == "extreme_other";
            CHECK((finite || infinite.contains(std::string(of) + ' ' + type)));
            CHECK((is == "f8_e4m3" || undefined.contains(std::string(of) + ' ' + type)));
        }
}
