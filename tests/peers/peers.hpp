#pragma once
#include "../support/safetensors.hpp"

#include <attune/ir/graph_ir.hpp>
#include <attune/reference.hpp>

#include <span>
#include <string_view>
#include <vector>

/// Every entry of flex_attention.hpp and attention_gym.hpp, and PyTorch's numbers for it.
namespace peers {

struct entry {
    std::string_view name;  ///< as torch_numbers.safetensors calls it
    attune::graph_ir graph;
};
std::span<const entry> entries();

const attune::support::tensor_file& torch_numbers();

/// The inputs of the entry: tensors of the file, and its params.
std::vector<attune::reference::argument> arguments_of(const entry& each);

/// By how much an output differs from PyTorch's, of 1 and the largest of those; infinite where one is NaN or infinite
/// and the other is not.
double difference(const attune::reference::array& got, const entry& of);

}  // namespace peers
