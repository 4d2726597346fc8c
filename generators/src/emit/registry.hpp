#pragma once
#include "kernel/kernel_list.hpp"

#include <string>
#include <utility>
#include <vector>

namespace attune::generators::inline emit {

/// Facts that the generators found about a graph, in words: attune::graph_notes. inspect/notes.hpp finds them.
struct variant_notes {
    std::vector<std::pair<std::string, std::string>> conditions;  ///< a part of the mask, and its effect on blocks
    std::vector<std::string> conventions;
};

/// Writes the source that defines attune::kernels_of for each variant: the table by which attune::run finds its
/// kernels. `header` is the name by which that source includes the variant header; `kernels` are those of all ISA
/// levels, most demanding first; `notes` are those of the variants.
void emit_registry(std::span<const variant> variants, std::span<const listed_kernel> kernels,
                   std::span<const variant_notes> notes, const std::string& header, const std::string& file);

}  // namespace attune::generators::inline emit
