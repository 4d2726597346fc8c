#include "language_list.hpp"
#include "../support/workload_values.hpp"

#include "language.hpp"

#include <limits>

namespace attune::testing {
namespace {

/// Free axes of the inputs; two caches together are as long as the keys are elsewhere.
const std::map<std::string, std::int64_t> lengths{{"local", 21}, {"far", 90}, {"part", 11}};

}  // namespace

const std::vector<variant>& language_variants() {
    static const std::vector<variant> all{
        variant_of<under_test::with_sink>("with_sink"),
        variant_of<under_test::plus_one>("plus_one"),
        variant_of<under_test::sigmoid>("sigmoid"),
        variant_of<under_test::relu_normalised>("relu_normalised"),
        variant_of<under_test::energies_only>("energies_only"),
        variant_of<under_test::differential>("differential"),
        variant_of<under_test::dropped>("dropped"),
        variant_of<under_test::drawn>("drawn"),
        variant_of<under_test::kept_near>("kept_near"),
        variant_of<under_test::gated>("gated"),
        variant_of<under_test::merged>("merged"),
        variant_of<under_test::rotary>("rotary"),
        variant_of<under_test::normed>("normed"),
        variant_of<under_test::two_caches>("two_caches"),
        variant_of<under_test::two_products>("two_products"),
        variant_of<under_test::distances>("distances"),
        variant_of<under_test::all_pairs>("all_pairs"),
        variant_of<under_test::only_scores>("only_scores"),
        variant_of<under_test::relu_pairs>("relu_pairs"),
        variant_of<under_test::window_pairs>("window_pairs"),
    };
    return all;
}

support::workload prepared(const variant& v, const support::shape& s, unsigned seed) {
    support::workload call(v.graph, s, seed, v.numbers, lengths);
    if (v.name == "merged") {
        sprinkle(call, "lse_a", -std::numeric_limits<float>::infinity(), 3);
        sprinkle(call, "lse_b", -std::numeric_limits<float>::infinity(), 3);
    }
    return call;
}

}  // namespace attune::testing
