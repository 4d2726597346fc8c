#include "schedules/database.hpp"
#include "schedules/recurrences.hpp"

namespace attune::generators::inline schedules {

schedule_key key_of(const listed_kernel& kernel, shape_bucket bucket) {
    const auto& [facts, types, depths, target, cut, finite, tf32_products] = kernel.request;
    if (is_for_recurrence(cut))
        return {class_of(traits_of(kernel.request)),
                symbol_part(types),
                depths.depth,
                depths.value_depth,
                std::string(target->name),
                bucket};
    std::string variants;
    switch (facts->hides) {
        case masking::none: variants = "full"; break;
        case masking::some: variants = "masked"; break;
        case masking::window: variants = "window"; break;
    }
    const plan& core = facts->core;
    if (core.makes(kind::scores) || core.makes(kind::weights) || core.makes(kind::column) ||
        core.makes(kind::head_mean))
        variants += "+pair_outputs";
    if (multiplies_codes(cut)) variants += "+codes";
    return {variants, symbol_part(types), depths.depth, depths.value_depth, std::string(target->name), bucket};
}

}  // namespace attune::generators::inline schedules
