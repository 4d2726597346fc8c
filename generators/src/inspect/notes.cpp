#include "inspect/notes.hpp"

#include "base/about.hpp"
#include "inspect/explain_blocks.hpp"
#include "inspect/explain_semantics.hpp"

#include <algorithm>

namespace attune::generators::inline inspect {

std::vector<variant_notes> notes_of(std::span<const variant> variants, std::span<const listed_kernel> kernels) {
    std::vector<variant_notes> all;
    for (const variant& each : variants) {
        variant_notes& notes = all.emplace_back();
        const auto first = std::ranges::find(kernels, &each, &listed_kernel::of);
        if (first != kernels.end())
            for (const block_reason& reason : about(each.name, [&] { return block_reasons(first->request); }))
                notes.conditions.emplace_back(reason.condition, sentence_of(reason));
        if (first != kernels.end() && first->request.finite)
            notes.conventions.push_back(
                "NaN and infinities: none, as FINITE of the build promises; else a NaN may be lost, or reach other "
                "rows");
        const auto by_tf32 = std::ranges::find_if(kernels, [&](const listed_kernel& kernel) {
            return kernel.of == &each && kernel.request.tf32_products > 0 && uses_tensor_cores(kernel.request.schedule);
        });
        if (by_tf32 != kernels.end())
            notes.conventions.push_back(
                by_tf32->request.tf32_products == 1
                    ? "f32: CUDA's prefill multiplies it by tensor cores, rounded to TF32: within 1e-3 of each product"
                    : "f32: CUDA's prefill multiplies it by tensor cores, three products of TF32 for one of f32: "
                      "within 2e-6 of each product");
        for (const choice& made : choices_of(each.graph)) notes.conventions.push_back(made.about + ": " + made.says);
    }
    return all;
}

}  // namespace attune::generators::inline inspect
