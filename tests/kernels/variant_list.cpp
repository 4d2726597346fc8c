#include "variant_list.hpp"

#include "variants.hpp"

#include <algorithm>

namespace attune::testing {

const std::vector<variant>& variants() {
    static const std::vector<variant> all{
        variant_of<under_test::plain>("plain"),
        variant_of<under_test::causal_mask>("causal_mask"),
        variant_of<under_test::causal_last>("causal_last"),
        variant_of<under_test::sliding>("sliding", {{"w", 21}}),
        variant_of<under_test::alibi>("alibi"),
        variant_of<under_test::capped>("capped", {{"cap", 1.5}}),
        variant_of<under_test::documents>("documents"),
        variant_of<under_test::longformer>("longformer", {{"w", 5}}),
        variant_of<under_test::relative>("relative"),
        variant_of<under_test::dense_bias>("dense_bias"),
        variant_of<under_test::masked_by_where>("masked_by_where"),
        variant_of<under_test::energies>("energies"),
    };
    return all;
}

std::vector<std::string> levels_here(const kernel_table& table) {
    std::vector<std::string> levels;
    for (const kernel_list::entry& each : detail::kernels(table).entries)
        if (each.missing.empty() && std::ranges::find(levels, each.target) == levels.end())
            levels.push_back(each.target);
    return levels;
}

}  // namespace attune::testing
