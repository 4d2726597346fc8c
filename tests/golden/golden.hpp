#pragma once
#include "../support/safetensors.hpp"

#include <attune/reference.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/runtime/run.hpp>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

/// Golden files: tensors and the outputs that somebody else's implementation computed for them. A file is matched to
/// its recipe by its stem.
namespace attune::testing {

/// A graph and its kernels. Outputs go by their names into what later steps read.
struct graph_step {
    graph_ir graph;
    const kernel_table& (*kernels)();  ///< null: the reference evaluator computes it whoever is asked
};
/// Adds the tensors that no attention kernel makes, from the file's tensors and params.
using step_between = void (*)(support::tensor_file&);
using step = std::variant<graph_step, step_between>;

/// The graphs that compute the outputs of one stem: one, for some stems several.
struct recipe {
    std::string_view stem;
    std::vector<step> steps;
};

template <const auto& Graph> step computes() { return graph_step{dsl::ir_of<Graph>, &detail::table_of<Graph>}; }
template <const auto& Graph> recipe computes(std::string_view stem) { return {stem, {computes<Graph>()}}; }

// One function a variant header, in cases/; a program has those that ATTUNE_GOLDEN_CASES lists.
std::vector<recipe> plain_cases(), causal_cases(), window_cases(), document_cases(), position_cases(), image_cases(),
    tile_cases(), score_cases(), table_cases(), statistic_cases(), layer_cases(), more_layer_cases(), gradient_cases(),
    gradient_kernel_cases(), more_gradient_kernel_cases(), gradient_pair_cases(), more_gradient_pair_cases(),
    device_gradient_cases();

const std::vector<recipe>& all_recipes();
/// Some of them again: those that every build runs on a device.
std::vector<recipe> every_operation_cases();

/// The recipe for a file, found by the file's name without extension, up to the first `__` or `.`
/// (mask_causal.safetensors, mask_causal__2.safetensors and mask_causal.long.safetensors are all mask_causal). Throws
/// std::runtime_error for an unknown stem.
const recipe& recipe_for(const std::filesystem::path& file);
/// Whether the file is of a whole layer whose recipe this program leaves to golden_full_tests.
bool is_elsewhere(const std::filesystem::path& file);
std::string stem_of(const std::filesystem::path& file);

/// The folder: ATTUNE_GOLDEN, else the committed files.
std::filesystem::path folder();
/// The folder's files whose stem matches the glob pattern (ATTUNE_GOLDEN_FILTER; empty: all), sorted. Throws
/// std::runtime_error if there are none.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder, const std::string& pattern);
std::string filter();

/// The graph's inputs, by name: tensors of the file, scalars of its params. Throws std::runtime_error where it lacks
/// one.
std::vector<reference::argument> arguments_of(const graph_ir& graph, const support::tensor_file& file);

/// The same as a call takes them.
std::vector<attune::detail::named_argument> as_named(const graph_ir& graph,
                                                     const std::vector<reference::argument>& arguments);

/// A dense f32 tensor, all NaN.
support::file_tensor reals(std::string name, std::vector<std::int64_t> shape);
support::file_tensor integers(std::string name, std::vector<std::int64_t> shape,
                              const std::vector<std::int32_t>& values);

/// Follows a recipe. Of a file it reads the inputs alone: what is under `debug` is dropped, and its outputs are only
/// compared with.
class golden_run {
public:
    golden_run(const std::filesystem::path& path, const recipe& how)
        : golden_run(support::read_safetensors(path), how) {}
    golden_run(support::tensor_file file, const recipe& how);

    int with_kernels(
        const attune::options& how = {});  ///< how many were launched; every step's outputs are filled with NaN before
    void with_reference();                 ///< the same steps by the reference evaluator

    struct comparison {
        std::string output;
        double error{}, tolerance{};
        bool passes() const { return error <= tolerance; }
    };
    /// Compares a result with the file. Integers must be equal.
    std::vector<comparison> compare() const;

    /// Everything that was made.
    const support::tensor_file& made() const { return now_; }

private:
    reference::results by_reference(const graph_ir& graph) const;
    void keep(const reference::results& made);
    std::vector<std::int64_t> shape_of(const graph_ir& graph, const output_declaration& output) const;

    support::tensor_file file_;  // inputs and expected outputs
    support::tensor_file now_;   // inputs and what was made
    const recipe& how_;
};

/// One output of a call with a NaN in an input: elements that are NaN in the reference, and those that are NaN in one
/// of the two alone or further apart than the file allows.
struct nan_comparison {
    std::string input, output;
    std::size_t nan{}, wrong{};
    std::vector<float> made{};
};
/// A file's call by kernels and by the reference, with a NaN in the middle of q, of k and of v in turn; those of them
/// that it has in f32.
std::vector<nan_comparison> compare_with_nan(const std::filesystem::path& path, const recipe& how,
                                             const attune::options& options = {});

}  // namespace attune::testing
