#pragma once
#include "kernel/kernel_list.hpp"

#include <attune/dsl.hpp>
#include <attune/runtime/cpu.hpp>

#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <string>

/// The variants that the tests of the tuner and of its files search: two variants, as few kernels of them as a test
/// needs.
namespace attune::testing {

namespace formulas {
using namespace attune::dsl;
inline constexpr auto full_attention = softmax(q * t(k) * rsqrt(depth)) * v;
inline constexpr auto causal_attention = softmax(mask(q * t(k) * rsqrt(depth), causal)) * v;
inline constexpr auto left = scalar<"left", i32>;
inline constexpr auto window_attention = softmax(mask(q * t(k) * rsqrt(depth), window(left, 0))) * v;
inline constexpr auto seen_scores = mask(q * t(k) * rsqrt(depth), causal);
inline constexpr auto trained_causal = outputs(out = softmax(seen_scores) * v, lse = log_sum_exp(seen_scores));
inline constexpr auto trained_full =
    outputs(out = softmax(q * t(k) * rsqrt(depth)) * v, lse = log_sum_exp(q * t(k) * rsqrt(depth)));
inline constexpr auto causal_gradient = gradient(trained_causal);
inline constexpr auto full_gradient = gradient(trained_full);
}  // namespace formulas
using formulas::causal_attention, formulas::full_attention, formulas::window_attention, formulas::causal_gradient,
    formulas::full_gradient;

inline const generators::variant full{"full_attention", dsl::ir_of<full_attention>},
    causal{"causal_attention", dsl::ir_of<causal_attention>},
    window_of_call{"window_attention", dsl::ir_of<window_attention>},
    backward_of_full{"full_gradient", dsl::ir_of<full_gradient>},
    backward_of_causal{"causal_gradient", dsl::ir_of<causal_gradient>};

/// The kernel of one class of shapes; `of` must outlive it.
inline generators::listed_kernel kernel_of(const generators::variant& of, const std::string& depths,
                                           std::string_view level, const std::string& dtype = "f32",
                                           shape_class shapes = shape_class::prefill) {
    for (const generators::listed_kernel& k :
         generators::kernels_of({&of, 1}, {.targets = {std::string(level)},
                                           .dtypes = {dtype},
                                           .depths = {depths},
                                           .shapes = {std::string(name_of(shapes))}}))
        if (generators::shapes_of(k.request.schedule) == shapes) return k;
    throw std::runtime_error("no such kernel of " + of.name);
}

inline std::string_view best_level_here() {
    for (const generators::level& each : generators::levels())
        if (runs(each.name)) return each.name;
    throw std::runtime_error("no ISA level of attune's runs on this machine");
}

/// A file or a folder that is gone afterwards.
struct temporary_path {
    std::filesystem::path path;
    explicit temporary_path(const std::string& name)
        : path(std::filesystem::temp_directory_path() / ("attune_" + name + "_" + std::to_string(getpid()))) {}
    temporary_path(const temporary_path&) = delete;
    ~temporary_path() { std::filesystem::remove_all(path); }
};

}  // namespace attune::testing
