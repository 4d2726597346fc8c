#pragma once
#include "../support/safetensors.hpp"

#include <attune/ir/graph_ir.hpp>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

/// Golden cases of recurrent state: tensors, and the outputs of a plain loop over tokens in double precision.
namespace attune::testing {

/// The graph that computes a case, with the state before or without one.
graph_ir graph_of(const support::tensor_file& file, bool state_before);

/// The outputs of one call of a graph, whose inputs are the tensors and params of a file.
using evaluator = std::function<std::vector<support::file_tensor>(const graph_ir&, const support::tensor_file&)>;

/// Some tokens of some batch elements, and the rows of their states.
struct call_part {
    std::int64_t first_batch, batches, first_token, tokens, first_state;
};

/// The calls that a case comes to: all of it, a call for each packed sequence or each length, or one after the other.
std::vector<call_part> parts_of(const support::tensor_file& file);

/// The results of the parts' calls, put together: each is an output of the file.
std::vector<support::file_tensor> outputs_of(const support::tensor_file& file, const evaluator& evaluate);

struct difference {
    std::string output;
    double error{}, tolerance{};
};
std::vector<difference> differences(const support::tensor_file& file, const std::vector<support::file_tensor>& made);

/// ATTUNE_GOLDEN_STATE, else the committed files; sorted.
std::vector<std::filesystem::path> golden_state_files();

}  // namespace attune::testing
