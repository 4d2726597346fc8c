#pragma once
#include "../support/safetensors.hpp"

#include <attune/reference.hpp>
#include <attune/runtime/call.hpp>
#include <attune/runtime/run.hpp>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

/// Golden files: tensors and the outputs that somebody else's implementation computed for them. A file is matched to its variant by its stem.
namespace attune::testing {

/// One stem and the variant that computes it.
struct variant_of_stem {
    std::string_view stem;
    listing graph;
    const kernel_table& (*kernels)();
};

template <const auto& Graph>
variant_of_stem computes(std::string_view stem) { return {stem, dsl::listing_of<Graph>, &detail::table_of<Graph>}; }

// One function a variant header, in cases/.
std::vector<variant_of_stem> plain_cases(), causal_cases(), window_cases(), document_cases(), position_cases(), image_cases(), score_cases();

/// The variant for a file, found by the file's name without extension, up to the first `__` or `.` (mask_causal.safetensors,
/// mask_causal__2.safetensors and mask_causal.long.safetensors are all mask_causal). Throws std::runtime_error for an unknown stem.
const variant_of_stem& variant_for(const std::filesystem::path& file);
std::string stem_of(const std::filesystem::path& file);

/// The folder: ATTUNE_GOLDEN, else the committed files.
std::filesystem::path folder();
/// The folder's files whose stem matches the glob pattern (ATTUNE_GOLDEN_FILTER; empty: all), sorted. Throws std::runtime_error if there are none.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder, const std::string& pattern);
std::string filter();

/// Reads a file for a variant and binds what the graph reads, by name: tensors from the file, scalars from its params. Tensors under `debug` are dropped first.
class bound_file {
public:
    bound_file(const std::filesystem::path& path, const variant_of_stem& variant) : bound_file(support::read_safetensors(path), variant) {}
    bound_file(support::tensor_file file, const variant_of_stem& variant);

    std::vector<reference::argument> reference_arguments() const;  ///< the inputs
    std::vector<detail::named_argument> arguments();               ///< inputs and outputs; the outputs are filled with NaN

    struct comparison {
        std::string output;
        double error{}, tolerance{};
        bool passes() const { return error <= tolerance; }
    };
    /// What `arguments()` let the kernel write, against the file.
    std::vector<comparison> compare() const;
    std::vector<comparison> compare(const reference::results& results) const;

private:
    double tolerance(std::string_view output) const;
    tensor expected(std::string_view output) const;

    support::tensor_file file_;
    const variant_of_stem& variant_;
    std::vector<std::vector<float>> written_;
};

}  // namespace attune::testing
