#pragma once
#include <attune/ir/element.hpp>
#include <attune/workload.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string_view>
#include <vector>

/// The extremes of a call of extreme_formulas.hpp: numbers for its tensors, and shapes.
namespace attune::testing {

inline constexpr float infinity = std::numeric_limits<float>::infinity(), lowest = std::numeric_limits<float>::lowest();
inline const float not_a_number = std::nanf("");
inline constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max(),
                              least = std::numeric_limits<std::int32_t>::min();

/// Puts a number into an element, of whichever type.
inline void put(support::owned_tensor& t, std::size_t at, float x) {
    switch (t.view.type()) {
        case element_type::bf16: t.halves.at(at) = bfloat16(x).bits; break;
        case element_type::f16: t.halves.at(at) = float16(x).bits; break;
        case element_type::f8_e4m3: t.bytes.at(at) = float8_e4m3(x).bits; break;
        case element_type::f8_e5m2: t.bytes.at(at) = float8_e5m2(x).bits; break;
        default: t.reals.at(at) = x; break;
    }
}
inline void put_all(support::owned_tensor& t, const std::function<float(std::size_t)>& x) {
    const std::size_t count = t.reals.size() + t.halves.size() + t.bytes.size();
    for (std::size_t at = 0; at < count; ++at) put(t, at, x(at));
}

inline constexpr support::shape small{
    .batches = 2, .heads = 4, .key_heads = 2, .queries = 3, .keys = 70, .depth = 16, .value_depth = 16};
/// Blocks of several keys and queries that tables decide, and tails of both.
inline constexpr support::shape long_call{
    .batches = 1, .heads = 4, .key_heads = 4, .queries = 150, .keys = 330, .depth = 16, .value_depth = 16};
inline constexpr support::shape few_queries{
    .batches = 1, .heads = 4, .key_heads = 2, .queries = 5, .keys = 330, .depth = 16, .value_depth = 16};

/// The entries of a table, drawn in six ways: a masked key, every pair, and -infinity at keys, queries or heads; at
/// last NaN among it.
inline float drawn_number(int way, unsigned which, std::size_t at) {
    const std::size_t number = at * 7 + which;
    if (way == 0 && which == 0) return at % 70 == 1 ? -infinity : 0.25f;
    if (way == 1 && which == 0) return -infinity;
    if (way == 2 && which == 1) return number % 3 == 0 ? -infinity : 0.5f;
    if (way == 3 && which == 2) return number % 2 == 0 ? -infinity : -0.5f;
    if (way == 4 && which == 3) return number % 2 == 0 ? -infinity : 0.125f;
    if (way == 5 && which < 2) return number % 5 == 0 ? not_a_number : number % 3 == 0 ? -infinity : 0.75f;
    return 0.25f * static_cast<float>(number % 5) - 0.5f;
}
inline void fill_infinity(support::workload& call, int way) {
    unsigned which = 0;
    for (const char* const name : {"pairs", "keys", "queries", "heads"}) {
        put_all(call[name], [&](std::size_t at) { return drawn_number(way, which, at); });
        ++which;
    }
    if (way < 2)
        for (std::size_t d = 0; d < 16; ++d) call["v"].reals[16 + d] = not_a_number;  // of a masked key
}

inline bool has_input(const graph_ir& graph, std::string_view name) {
    return std::ranges::any_of(graph.inputs, [&](const input_declaration& d) { return d.name == name; });
}

/// Tables of halves from 1 to 4, rising slowly so that blocks differ, with some numbers at every seventh key, query or
/// pair.
inline void fill_tables(support::workload& call, const graph_ir& graph, float special) {
    unsigned which = 0;
    for (const char* const name : {"kt", "qt", "pt"}) {
        ++which;
        if (!has_input(graph, name)) continue;
        support::owned_tensor& t = call[name];
        const auto count = static_cast<double>(t.reals.size());
        put_all(t, [&](std::size_t at) {
            if (at % 7 == 3 + which % 3) return special;
            const double part = static_cast<double>(at) / count;
            return 0.5f * static_cast<float>(2 + static_cast<int>(part * 6) + static_cast<int>(at % 3 == 0));
        });
    }
}

/// Of `all_kinds`: NaN in its tables, keys that are hidden, and NaN in the value of one of them.
inline void fill_all_kinds(support::workload& call, const graph_ir& graph) {
    fill_tables(call, graph, not_a_number);
    put_all(call["hiding"], [](std::size_t key) { return key % 5 == 1 ? -infinity : 0.25f; });
    for (std::size_t d = 0; d < 16; ++d) call["v"].reals[16 + d] = not_a_number;
}

/// Places, and integers near both ends of i32 between them.
inline void fill_integers(support::workload& call, const graph_ir& graph) {
    for (const char* const name : {"starts", "ids"}) {
        if (!has_input(graph, name)) continue;
        std::vector<std::int32_t>& all = call[name].integers;
        for (std::size_t at = 0; at < all.size(); ++at)
            all[at] = at % 3 == 0   ? static_cast<std::int32_t>(at)
                      : at % 3 == 1 ? most - static_cast<std::int32_t>(at % 50)
                                    : least + static_cast<std::int32_t>(at % 40);
    }
}

}  // namespace attune::testing
