#pragma once
#include "kernel/kernel_request.hpp"

#include <optional>
#include <string>
#include <vector>

namespace attune::generators::inline inspect {

/// The sizes of a call: batch elements, query and key heads, lengths.
struct call_sizes {
    double batches{1}, heads{8}, key_heads{8}, queries{1024}, keys{1024};
};

/// "BxHxLqxLk", or with the key heads "BxH:HkxLqxLk". Throws std::runtime_error, a sentence, for anything else.
call_sizes call_sizes_from(const std::string& text);

/// A sum of products of sizes, as text and, if every size is known, as a number.
struct cost {
    std::string formula;  ///< in B, H, Hk, Lq, Lk, D, Dv and the names of tables' own axes
    double value{};       ///< of a call; axes that only tables have count as 1
};

/// Multiplications and additions of the contractions and projections over all pairs. Savings of skipped blocks are not
/// subtracted.
cost flops_of(const graph_facts& facts, const depth_pair& depths, const call_sizes& call);

/// The bytes of one input or output, broadcast axes counted in full. `of_any` is the element type if the graph leaves
/// it open.
cost bytes_of_input(const input_declaration& input, element_type of_any, const depth_pair& depths,
                    const call_sizes& call);
cost bytes_of_output(const graph_ir& graph, const output_declaration& output, element_type element,
                     const depth_pair& depths, const call_sizes& call);

/// The bytes of tensors that a kernel computes in full and that are no outputs.
cost bytes_of_computed(const graph_ir& graph, const depth_pair& depths, const call_sizes& call);

/// The bytes of rows that a kernel keeps for itself during a call.
cost bytes_of_saved_rows(int saved_rows, const call_sizes& call);

/// The axes of an output, outermost first.
std::vector<std::string> axes_of_output(const graph_ir& graph, const output_declaration& output);

}  // namespace attune::generators::inline inspect
