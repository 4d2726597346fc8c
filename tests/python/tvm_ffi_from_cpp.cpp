// A library of attune_add_tvm_ffi_library from C++: tvm_ffi_from_cpp LIBRARY, which holds the ready-made kernels.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace ffi = tvm::ffi;

namespace {

/// A tensor of f32 that refers to a vector.
struct dense {
    std::vector<float> data;
    std::array<std::int64_t, 4> shape;
    DLTensor view{};

    explicit dense(std::array<std::int64_t, 4> of, float each = 0)
        : data(static_cast<std::size_t>(of[0] * of[1] * of[2] * of[3]), each), shape(of) {
        view.data = data.data(), view.device = {kDLCPU, 0}, view.ndim = 4, view.dtype = {kDLFloat, 32, 1};
        view.shape = shape.data();
    }
    ffi::TensorView seen() const { return ffi::TensorView(&view); }
};

bool failed(bool holds, const char* what) {
    if (!holds) std::printf("FAILED  %s\n", what);
    return !holds;
}

}  // namespace

int main(int, char** arguments) {
    const ffi::Module loaded = ffi::Module::LoadFromFile(arguments[1]);
    const ffi::Function causal = loaded->GetFunction("causal_attention").value();
    constexpr std::int64_t length = 33;
    dense q({1, 2, length, 64}), k({1, 1, length, 64}, 0.5F), v({1, 1, length, 64}), out({1, 2, length, 64}, -1);
    for (std::int64_t i = 0; i < length * 64; ++i) v.data[static_cast<std::size_t>(i)] = static_cast<float>(i / 64);
    causal(q.seen(), k.seen(), v.seen(), nullptr, nullptr, out.seen());
    // All scores are equal: row i is the mean of 0 ... i.
    int wrong = 0;
    for (std::size_t at = 0; at < out.data.size(); ++at) {
        const auto row = static_cast<float>(at / 64 % length);
        wrong += std::abs(out.data[at] - row / 2) > 1e-4F;
    }
    int problems = failed(wrong == 0, "expected each row to be the mean of the values that it sees");

    dense small({1, 2, length - 1, 64}, -1);
    std::string said;
    try {
        causal(q.seen(), k.seen(), v.seen(), nullptr, nullptr, small.seen());
    } catch (const ffi::Error& problem) {
        said = problem.kind() + ": " + problem.message();
    }
    std::printf("refused: %s\n", said.c_str());
    problems += failed(said.starts_with("ValueError: attune: expected ") && said.find("out") != std::string::npos,
                       "expected a refusal of the output by its name");
    problems += failed(small.data[0] == -1, "expected nothing to be written");
    problems += failed(!loaded->GetFunction("no_such_attention").has_value(), "expected no function of that name");
    return problems != 0;
}
