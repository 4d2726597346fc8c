#include "analysis/plan.hpp"
#include "kernel/mask_class.hpp"
#include "schedules/database.hpp"

namespace attune::generators {

schedule_key key_of(const listed_kernel& kernel, shape_bucket bucket) {
    const auto& [graph, types, depths, target, cut] = kernel.request;
    std::string variants;
    switch (masking_of(graph)) {
        case masking::none: variants = "full"; break;
        case masking::some: variants = "masked"; break;
        case masking::window: variants = "window"; break;
    }
    const plan core = plan_of(graph);
    if (core.makes(kind::scores) || core.makes(kind::weights) || core.makes(kind::column) ||
        core.makes(kind::head_mean))
        variants += "+pairs";
    return {variants, symbol_part(types), depths.depth, depths.value_depth, std::string(target->name), bucket};
}

}  // namespace attune::generators
