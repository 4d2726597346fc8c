#pragma once
#include <attune/ir/element_type.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace attune::generators::inline inspect {

/// A dense tensor, outermost axis first.
struct dense_tensor {
    element_type element{};
    std::vector<std::int64_t> shape;
    std::vector<std::byte> bytes;
};

/// The contents of a .safetensors file, and the numbers of its metadata's `params`; an array `a` of them is a_0, a_1,
/// ...
struct tensor_file {
    std::map<std::string, dense_tensor> tensors;
    std::map<std::string, double> numbers;
};

/// Throws std::runtime_error, a sentence with the path, for a file that is missing, truncated or not described by its
/// header. Tensors of element types that no input has are left out; 64-bit integers become 32-bit ones.
tensor_file read_tensor_file(const std::string& path);

}  // namespace attune::generators::inline inspect
