#pragma once
#include "visible_keys.hpp"

#include <ggml.h>
#include <attune/runtime/detail/call.hpp>

#include <string>
#include <vector>

namespace attune::ggml {

/// Whether compute() computes this node: a GGML_OP_FLASH_ATTN_EXT of types, depths and shapes that kernels are linked
/// for. Its tensors need not lie anywhere yet, so nothing of them is read.
bool is_supported(const ggml_tensor& node);

/// The memory that nodes need one after another.
struct scratch {
    visible_keys visible;
    std::vector<float> slopes;
    std::vector<detail::named_argument> arguments;
};

/// Computes a node that is_supported on so many threads. Returns what went wrong; empty if nothing did.
std::string compute(const ggml_tensor& node, int threads, scratch& memory);

}  // namespace attune::ggml
