// Two variants as a library of kernels has them: one of this version of attune, one of another layout.
#include "attune_old_kernels.h"

#include <attune/runtime/detail/c_variant.hpp>

namespace {
const attune::kernel_table& capped() {
    static const attune::kernel_table made{
        .version = attune::kernel_table_version, .variant = "test::capped", .graph = {}, .kernels = {}};
    return made;
}
const attune::kernel_table& old() {
    static const attune::kernel_table made{
        .version = attune::kernel_table_version - 1, .variant = "test::old", .graph = {}, .kernels = {}};
    return made;
}
}  // namespace

const attune_variant* test_capped_variant() noexcept {
    static const attune_variant made{ATTUNE_C_VERSION, &attune::detail::this_runtime, capped};
    return &made;
}
const attune_variant* test_old_variant() noexcept {
    static const attune_variant made{ATTUNE_C_VERSION, &attune::detail::this_runtime, old};
    return &made;
}
