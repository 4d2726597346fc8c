#include "blocks_spelling.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdio>
#include <functional>

using namespace attune;
using namespace attune::testing;

namespace {

constexpr int length = 4096;

/// A sorted document id, ranges of keys with ragged ends, something here and there, and noise: an i32 for each
/// position.
lab_inputs inputs_of_conditions() {
    lab_inputs in;
    in.queries = in.keys = length;
    std::mt19937 random(5);
    const auto any = [&](int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); };
    const auto table = [&](const char* name, const std::function<int(int)>& value) {
        lab_inputs::table& t = in.tables[name];
        t.extents = {length};
        for (int i = 0; i < length; ++i) t.values.push_back(value(i));
    };
    int document = 0, next = 0;
    table("doc", [&](int i) {
        if (i >= next) document += 1 + any(2), next = i + 50 + any(500);
        return document;
    });
    table("from", [&](int i) { return std::max(0, i - 300 - any(40)); });
    table("to", [&](int i) { return i - 100 + any(60); });
    table("rare", [&](int i) { return static_cast<int>(i / 37 % 11 == 3 || any(300) == 0); });
    table("noise", [&](int) { return any(length); });
    return in;
}

class condition_drawer {
public:
    condition_drawer(unsigned seed, bool divides) : random_(seed), divides_(divides) {}

    term operator()(int depth) {
        if (depth == 0) return comparison();
        switch (any(5)) {
            case 0: return comparison();
            case 1:
            case 2: return both((*this)(depth - 1), (*this)(depth - 1));
            case 3: return either((*this)(depth - 1), (*this)(depth - 1));
            default: return opposite((*this)(depth - 1));
        }
    }

private:
    int any(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
    operation order() {
        constexpr operation orders[] = {operation::less, operation::less_equal, operation::greater,
                                        operation::greater_equal};
        return orders[any(4)];
    }
    term one_index() { return any(2) ? query() : key(); }

    term comparison() {
        const term q = query(), k = key();
        const int c = 16 + any(300);
        switch (any(divides_ ? 15 : 10)) {
            case 0: return compare(order(), q - k, number(any(length) / 2 - length / 4));
            case 1: return compare(operation::less_equal, magnitude(q - k), number(10 + any(length / 4)));
            case 2:
                return both(compare(operation::greater_equal, q, k),
                            compare(operation::less, q - k, number(1 + any(600))));
            case 3:
                return compare(order(), q * number(1 + any(3)),
                               k * number(1 + any(3)) + number(any(length) - length / 2));
            case 4: return compare(order(), q + k, number(any(2 * length)));
            case 5: return compare(order(), one_index(), number(any(length)));
            case 6: return compare(operation::equal, at("doc", q), at("doc", k));
            case 7:
                return both(compare(operation::less_equal, at("from", q), k), compare(operation::less, k, at("to", q)));
            case 8: return compare(operation::equal, at("rare", one_index()), number(1));
            case 9: return compare(order(), at("noise", one_index()), number(any(length)));
            case 10: return compare(operation::equal, q / number(c), k / number(c));
            case 11: return compare(operation::less, one_index() % number(c), number(1 + any(c)));
            case 12: return compare(order(), q / number(c) - k / number(c), number(any(5)));
            case 13: return compare(order(), q % number(c), k % number(c));
            default: return compare(operation::less, (q - k) % number(c), number(1 + any(c / 8)));
        }
    }

    std::mt19937 random_;
    bool divides_;
};

/// The decision for one spelling, against every pair.
lab_count judge(const term& spelt, const term& meant, const lab_inputs& inputs) {
    const spelt_graph graph_ir(spelt);
    const generators::schedule cut = usual_schedule(graph_ir.view());
    const std::vector<std::uint8_t> decided = decide_blocks(graph_ir.view(), cut, inputs),
                                    seen = seen_blocks(meant, inputs, generators::blocks_of(cut).query_block,
                                                       generators::blocks_of(cut).key_block);
    REQUIRE(decided.size() == seen.size());
    lab_count found;
    for (std::size_t i = 0; i < seen.size(); ++i) found.add(decided[i], seen[i]);
    return found;
}

void check(const char* what, bool divides, unsigned seed, int conditions, double limit) {
    // Where comparisons of different sums meet in a corner, a block may be visited for nothing; their number does not
    // grow with the lengths.
    constexpr double corners = 4;
    const lab_inputs inputs = inputs_of_conditions();
    condition_drawer draw(seed, divides);
    respelling respell(seed + 1);
    lab_count all;
    double worst = 0;
    for (int i = 0; i < conditions; ++i) {
        const term condition = draw(2), otherwise = respell(condition);
        for (const term& spelt : {condition, otherwise}) {
            INFO(text_of(spelt));
            const lab_count found = judge(spelt, condition, inputs);
            CHECK(found.wrongly_skipped == 0);
            CHECK(found.wrongly_unmasked == 0);
            CHECK(static_cast<double>(found.visited) <= limit * static_cast<double>(found.ideal) + corners);
            if (found.ideal >= 40) worst = std::max(worst, found.excess());
            all.ideal += found.ideal, all.visited += found.visited, all.whole += found.whole, all.must += found.must;
        }
    }
    std::printf(
        "%s: %d conditions, spelt twice: %lld blocks with a visible pair, %lld visited (%.4f, worst %.4f); %lld wholly "
        "visible, %lld without mask\n",
        what, conditions, static_cast<long long>(all.ideal), static_cast<long long>(all.visited), all.excess(), worst,
        static_cast<long long>(all.whole), static_cast<long long>(all.must));
}

}  // namespace

TEST_CASE("conditions without quotients skip what they can, however they are spelt") {
    check("sums and tables", false, 11, 12, 1.05);
}

TEST_CASE("conditions with quotients and remainders skip nearly what they can, however they are spelt") {
    check("with / and %", true, 12, 10, 1.25);
}

TEST_CASE("many conditions, however they are spelt", "[.][full]") {
    check("sums and tables", false, 1000, 300, 1.05);
    check("with / and %", true, 2000, 300, 1.25);
}
