#include "inspect/kernel_name.hpp"

#include "base/formatting.hpp"

namespace attune::generators::inline inspect {

std::string heading_of(const listed_kernel& kernel) {
    const kernel_request& request = kernel.request;
    return fmt::format("{} {} {}x{} {} {}\n", kernel.of->name, symbol_part(request.types), request.depths.depth,
                       request.depths.value_depth, request.target->name, purpose_of(request.schedule));
}

nlohmann::ordered_json named_object(const listed_kernel& kernel) {
    const kernel_request& request = kernel.request;
    return {{"variant", kernel.of->name},     {"types", symbol_part(request.types)},
            {"depth", request.depths.depth},  {"value_depth", request.depths.value_depth},
            {"target", request.target->name}, {"purpose", purpose_of(request.schedule)}};
}

}  // namespace attune::generators::inline inspect
