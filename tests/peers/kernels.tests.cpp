#include "peers.hpp"

#include "tuner/jit_kernel.hpp"

#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/runtime/run.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <deque>
#include <string>

// The kernels of every entry, compiled in process for the most demanding level of this machine: for many queries and
// for few, against PyTorch's numbers.
namespace {

std::string level_here() {
    for (const attune::generators::level& each : attune::generators::levels())
        if (attune::runs(each.name)) return std::string(each.name);
    return "x86-64-v2";
}

using attune::detail::named_argument;

std::vector<named_argument> call_of(const peers::entry& each) {
    std::vector<named_argument> arguments;
    for (const attune::reference::argument& given : peers::arguments_of(each)) {
        named_argument made{.name = given.name};
        if (const double* number = std::get_if<double>(&given.value)) {
            for (const attune::input_declaration& input : each.graph.inputs)
                if (input.name == given.name)
                    made.is = input.element == attune::element_type::i32 ? named_argument::form::integer
                                                                         : named_argument::form::real;
            made.integer = static_cast<std::int64_t>(*number), made.real = *number;
        } else {
            made.is = named_argument::form::view, made.view = std::get<attune::tensor>(given.value);
        }
        arguments.push_back(made);
    }
    return arguments;
}

void check(const peers::entry& each, const attune::generators::listed_kernel& listed) {
    const attune::generators::jit_kernel kernel(listed);
    std::vector<named_argument> arguments = call_of(each);
    std::deque<std::vector<float>> made;
    for (const attune::output_declaration& output : each.graph.outputs) {
        const std::vector<std::int64_t> shape =
            output.name == "out" ? std::vector<std::int64_t>{2, 2, 14, 4} : std::vector<std::int64_t>{2, 2, 14};
        std::int64_t size = 1;
        for (const std::int64_t extent : shape) size *= extent;
        made.emplace_back(static_cast<std::size_t>(size), std::nanf(""));
        arguments.push_back(
            {.name = output.name, .is = named_argument::form::view, .view = attune::tensor(made.back().data(), shape)});
    }
    attune::detail::call(kernel.table(), arguments, {.threads = 2});
    for (std::size_t i = 0; i < made.size(); ++i) {
        attune::reference::array got{.name = std::string(each.graph.outputs[i].name), .shape = {}, .values = {}};
        got.values.assign(made[i].begin(), made[i].end());
        INFO(got.name);
        CHECK(peers::difference(got, each) < 2e-5);
    }
}

void check_kernels(const peers::entry& each) {
    INFO(each.name);
    const attune::generators::variant variant{std::string(each.name), each.graph};
    for (const auto& listed : attune::generators::kernels_of(
             {&variant, 1},
             {.targets = {level_here()}, .dtypes = {"f32"}, .depths = {"4"}, .shapes = {"prefill", "decode"}})) {
        INFO(listed.symbol);
        check(each, listed);
    }
}

}  // namespace

TEST_CASE("kernels of every function of the peers' suites compute what PyTorch does") {
    for (const peers::entry& each : peers::entries()) check_kernels(each);
}
