// Kernels that were promised finite inputs, compiled in process for every level that runs here.
#include "inspect/notes.hpp"
#include "kernel/kernel_list.hpp"
#include "tested_levels.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

using namespace attune;
using support::workload;

namespace {
namespace formulas {
using namespace attune::dsl;
inline constexpr auto attention = softmax(mask(q * t(k) * rsqrt(depth), q_idx + 500 >= kv_idx)) * v;
}  // namespace formulas

constexpr std::size_t row = 32, length = 600, in_use = 569;

struct promised {
    generators::variant of{"my::attention", dsl::ir_of<formulas::attention>};
    std::vector<generators::listed_kernel> kernels;
    generators::jit_kernel kernel;

    promised(std::string_view level, element_type type, const char* shapes, bool finite)
        : kernels(generators::kernels_of(
              {&of, 1}, {.targets = {std::string(level)},
                         .dtypes = {type == element_type::f32 ? "f32" : "q:bf16,k:bf16,v:bf16,out:f32"},
                         .depths = {"32"},
                         .shapes = {shapes},
                         .finite = finite})),
          kernel(kernels.front()) {}

    /// Of two sequences the second is shorter.
    workload call(element_type type) const {
        workload made(
            of.graph,
            {.batches = 2, .heads = 4, .key_heads = 2, .queries = 5, .keys = length, .depth = 32, .value_depth = 32},
            5);
        made.set_lengths({static_cast<std::int32_t>(length), static_cast<std::int32_t>(in_use)});
        for (const char* const name : {"q", "k", "v"}) made.convert(name, type);
        return made;
    }
    std::size_t wrong(workload& call) const {
        call.reset_outputs();
        detail::call(kernel.table(), call.arguments(), {.threads = 2});
        const auto expected = call.expected();
        std::size_t found = 0, at = 0;
        support::for_each_offset(call.view("out"), [&](std::int64_t offset) {
            const double is = call["out"].reals[static_cast<std::size_t>(offset)];
            found += !(std::abs(is - expected["out"].values[at++]) < 1e-2);
        });
        return found;
    }
};

/// A channel of this key, of all heads of a sequence.
void put(workload& call, const char* name, std::size_t sequence, std::size_t key, float value) {
    support::owned_tensor& t = call[name];
    for (std::size_t head = 0; head < 2; ++head) {
        const std::size_t at = ((sequence * 2 + head) * length + key) * row + key % row;
        if (t.halves.empty())
            t.reals.at(at) = value;
        else
            t.halves.at(at) = bfloat16(value).bits;
    }
}

void for_each_kind(const auto& check) {
    for (const generators::level& each : testing::tested_levels())
        for (const element_type type : {element_type::f32, element_type::bf16})
            if (runs(each.name) && (!each.is_for_bf16() || type == element_type::bf16))
                for (const char* const shapes : {"prefill", "decode"}) check(each.name, type, shapes);
}

}  // namespace

TEST_CASE(
    "the promise of finite inputs is part of what a kernel is and of the graph's conventions, and covers no key beyond "
    "those in use",
    "[nan][finite]") {
    for_each_kind([](std::string_view level, element_type type, const char* shapes) {
        CAPTURE(level, name_of(type), shapes);
        constexpr std::size_t masked = 504;  // of all queries, in a block that they visit
        for (const bool finite : {false, true}) {
            CAPTURE(finite);
            const promised made(level, type, shapes, finite);
            for (const float value : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
                workload beyond = made.call(type);
                for (std::size_t key = in_use; key < length; ++key)
                    put(beyond, "k", 1, key, value), put(beyond, "v", 1, key, value);
                CHECK(made.wrong(beyond) == 0);
            }
            workload call = made.call(type);
            put(call, "v", 0, masked + 1, std::nanf(""));
            CHECK((made.wrong(call) > 0) == finite);  // nothing looks for it

            const auto said = generators::notes_of({&made.of, 1}, made.kernels).front().conventions;
            CHECK(std::ranges::any_of(said, [](const std::string& each) {
                      return each.starts_with("NaN and infinities: none, as FINITE of the build promises");
                  }) == finite);
        }
    });
}
