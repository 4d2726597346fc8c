// One mask, said in different ways; documents packed one behind the other.
#include "formula_calls.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <limits>

using namespace attune;
using namespace attune::testing;
using support::shape;

namespace {

constexpr std::size_t queries = 77, keys = 301, batches = 2;

/// The same calls by every spelling of one visibility.
void check_spellings(auto visible) {
    formula_call by_byte("by_byte", usual_formula), by_number("by_number", usual_formula),
        by_bit("by_bit", usual_formula), by_infinity("by_infinity", usual_formula);
    std::ranges::fill(by_bit["packed"].bytes, std::uint8_t{0});
    for (formula_call* other : {&by_number, &by_bit, &by_infinity}) other->take_inputs(by_byte);
    for (std::size_t b = 0; b < batches; ++b)
        for (std::size_t q = 0; q < queries; ++q)
            for (std::size_t k = 0; k < keys; ++k) {
                const bool seen = visible(b, q, k);
                const std::size_t pair = (b * queries + q) * keys + k;
                by_byte["allowed"].bytes[pair] = seen;
                by_number["bytes"].bytes[pair] = seen ? 255 : 0;
                by_bit["packed"].bytes[(b * queries + q) * ((keys + 7) / 8) + k / 8] |=
                    static_cast<std::uint8_t>(seen << k % 8);
                by_infinity.reals("added")[pair] = seen ? 0.0f : -std::numeric_limits<float>::infinity();
            }
    by_byte.run();
    for (formula_call* other : {&by_number, &by_bit, &by_infinity}) {
        other->run();
        INFO(other->of().name);
        CHECK(largest_difference(by_byte.reals("out"), other->reals("out")) < 1e-6);
        CHECK(largest_difference(by_byte.reals("lse"), other->reals("lse")) < 1e-6);
    }
}

}  // namespace

TEST_CASE("bits, bytes, numbers and infinities of one mask are one mask") {
    std::mt19937 random(5);
    SECTION("at random") {
        check_spellings([&](auto...) { return random() % 3 == 0; });
    }
    SECTION("with empty rows and whole ones") {
        check_spellings(
            [](std::size_t, std::size_t q, std::size_t k) { return q % 3 == 0 || (q % 3 == 1 && k == 300); });
    }
    SECTION("nothing") {
        check_spellings([](auto...) { return false; });
    }
}

TEST_CASE("a condition and the mask that it makes are one") {
    formula_call by_formula("by_formula", usual_formula), by_byte("by_byte", usual_formula);
    by_byte.take_inputs(by_formula);
    for (std::size_t i = 0; i < by_byte["allowed"].bytes.size(); ++i) {
        const std::size_t b = i / (queries * keys), q = i / keys % queries, k = i % keys;
        by_byte["allowed"].bytes[i] = (q * 3 + k * 5 + b) % 7 < 3;
    }
    by_formula.run(), by_byte.run();
    CHECK(largest_difference(by_formula.reals("out"), by_byte.reals("out")) < 1e-6);
    CHECK(largest_difference(by_formula.reals("lse"), by_byte.reals("lse")) < 1e-6);
}

TEST_CASE(
    "a list of keys a query is the mask of its entries: repeated ones count once, those beyond the keys not at all") {
    formula_call by_list("by_list", usual_formula), by_byte("by_byte", usual_formula);
    by_byte.take_inputs(by_list);
    auto& listed = by_list["listed"].integers;
    for (std::size_t i = 0; i + 6 <= listed.size(); i += 18) listed[i + 5] = listed[i];  // repeated
    for (std::size_t i = 6; i + 6 <= listed.size(); i += 18)
        std::fill_n(listed.begin() + static_cast<std::ptrdiff_t>(i), 6, -1);  // none
    std::ranges::fill(by_byte["allowed"].bytes, std::uint8_t{0});
    for (std::size_t i = 0; i < listed.size(); ++i)
        if (listed[i] >= 0 && listed[i] < static_cast<int>(keys))
            by_byte["allowed"].bytes[i / 6 * keys + static_cast<std::size_t>(listed[i])] = 1;
    by_list.run(), by_byte.run();
    CHECK(largest_difference(by_list.reals("out"), by_byte.reals("out")) < 1e-6);
    CHECK(largest_difference(by_list.reals("lse"), by_byte.reals("lse")) < 1e-6);
}

TEST_CASE("a key range a query is a mask") {
    formula_call by_range("by_range", usual_formula), by_byte("by_byte", usual_formula);
    by_byte.take_inputs(by_range);
    for (std::size_t i = 0; i < by_byte["allowed"].bytes.size(); ++i) {
        const std::size_t q = i / keys % queries;
        const auto k = static_cast<std::int32_t>(i % keys);
        by_byte["allowed"].bytes[i] = by_range["low"].integers[q] <= k && k < by_range["high"].integers[q];
    }
    by_range.run(), by_byte.run();
    CHECK(largest_difference(by_range.reals("out"), by_byte.reals("out")) < 1e-6);
}

TEST_CASE("packed documents: by id, by offset and one call each are the same") {
    const std::vector<std::int32_t> ends{3, 40, 41, 100, 250};  // and the last one to 301
    const shape packed{
        .batches = 2, .heads = 4, .key_heads = 2, .queries = 301, .keys = 301, .depth = 16, .value_depth = 16};
    formula_call by_id("by_id", packed), by_offset("by_offset", packed);
    by_offset.take_inputs(by_id);
    by_offset["ends"].integers = ends;
    by_offset["ends"].view = tensor(by_offset["ends"].integers.data(), {5});
    auto& document = by_id["document"].integers;
    for (std::int32_t i = 0; i < 301; ++i)
        document[static_cast<std::size_t>(i)] =
            7 * static_cast<std::int32_t>(std::ranges::upper_bound(ends, i) - ends.begin());
    by_id.run(), by_offset.run();
    CHECK(largest_difference(by_id.reals("out"), by_offset.reals("out")) < 1e-6);
    CHECK(largest_difference(by_id.reals("lse"), by_offset.reals("lse")) < 1e-6);

    std::int32_t begin = 0;
    double worst = 0;
    for (std::int32_t end : {3, 40, 41, 100, 250, 301}) {
        shape part = packed;
        part.queries = part.keys = end - begin;
        formula_call alone("causal_mask", part);
        for (const char* name : {"q", "k", "v"}) {
            const std::int64_t heads = name[0] == 'q' ? 4 : 2;
            alone[name].view = tensor(by_id.reals(name).data() + begin * 16, {2, heads, end - begin, 16},
                                      {heads * 301 * 16, 301 * 16, 16, 1});
        }
        alone.run();
        for (std::size_t head = 0; head < 8; ++head)
            for (std::int32_t row = begin; row < end; ++row)
                for (std::size_t d = 0; d < 16; ++d)
                    worst = std::max(
                        worst, std::abs(static_cast<double>(
                                            by_id.reals("out")[(head * 301 + static_cast<std::size_t>(row)) * 16 + d]) -
                                        alone.reals("out")[(head * static_cast<std::size_t>(end - begin) +
                                                            static_cast<std::size_t>(row - begin)) *
                                                               16 +
                                                           d]));
        begin = end;
    }
    CHECK(worst < 3e-6);
}
