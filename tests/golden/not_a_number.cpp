#include "golden.hpp"

#include <algorithm>
#include <cmath>

namespace attune::testing {
namespace {

/// Files in which every row sees the key of the NaN, and weights may be exactly 0: far below the largest score, by
/// their function, or dropped. The reference leaves the values of such keys out, and kernels may multiply them, as
/// PyTorch does.
bool has_weights_of_zero(const std::filesystem::path& path) {
    const std::string stem = stem_of(path);
    return stem == "conv_large_scores" || stem == "score_activation_relu" || stem == "conv_dropout_keep";
}

/// A NaN among the values is lost where the weight of its key rounds to 0: the output is then what the file says,
/// `without` it.
nan_comparison compared(std::string_view input, const support::file_tensor& made, const support::file_tensor& expected,
                        const support::file_tensor& without, double tolerance, bool zeros) {
    nan_comparison result{.input = std::string(input), .output = made.name};
    const float *is = made.as<float>(), *wanted = expected.as<float>(), *before = without.as<float>();
    result.made.assign(is, is + made.count());
    for (std::int64_t i = 0; i < made.count(); ++i) {
        const auto is_close = [&](float to) { return is[i] == to || std::abs(is[i] - to) <= tolerance; };
        const bool right = std::isnan(wanted[i]) ? std::isnan(is[i]) || (input == "v" && is_close(before[i]))
                                                 : is_close(wanted[i]) || (std::isnan(is[i]) && input == "v" && zeros &&
                                                                           made.name != "lse");
        result.nan += std::isnan(wanted[i]);
        result.wrong += !right;
    }
    return result;
}

}  // namespace

std::vector<nan_comparison> compare_with_nan(const std::filesystem::path& path, const recipe& how,
                                             const attune::options& options) {
    const support::tensor_file file = support::read_safetensors(path);
    std::vector<nan_comparison> all;
    for (const char* const name : {"q", "k", "v"}) {
        support::tensor_file with_nan = file;
        const auto input = std::ranges::find(with_nan.tensors, name, &support::file_tensor::name);
        if (input == with_nan.tensors.end() || input->element != element_type::f32 || input->count() == 0) continue;
        input->as<float>()[input->count() / 2] = std::nanf("");
        golden_run by_kernels(with_nan, how), by_reference(with_nan, how);
        by_kernels.with_kernels(options);
        by_reference.with_reference();
        for (const std::string& output : file.outputs)
            if (file[output].element == element_type::f32)
                all.push_back(compared(name, by_kernels.made()[output], by_reference.made()[output], file[output],
                                       file.tolerances.at(output), has_weights_of_zero(path)));
    }
    return all;
}

}  // namespace attune::testing
