// Recurrences against the golden files: by the reference evaluator.
#include "cases.hpp"

#include <attune/reference.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstdio>

using namespace attune;
using namespace attune::testing;
using support::file_tensor;
using support::tensor_file;

namespace {

std::vector<file_tensor> by_reference(const graph_ir& graph, const tensor_file& inputs) {
    std::vector<reference::argument> arguments;
    for (const file_tensor& t : inputs.tensors)
        arguments.push_back({t.name, tensor(t.element, static_cast<const void*>(t.bytes.data()), t.shape)});
    for (const auto& [name, number] : inputs.params) arguments.push_back({name, number});
    const auto depth = [&](const char* name) {
        const auto found = inputs.params.find(name);
        return found == inputs.params.end() ? std::int64_t{0} : static_cast<std::int64_t>(found->second);
    };
    const reference::options how{.depth = depth("D"), .value_depth = depth("Dv")};
    std::vector<file_tensor> made;
    for (const reference::array& output : reference::evaluate(graph, arguments, how).outputs) {
        file_tensor& t = made.emplace_back(file_tensor{output.name, element_type::f32, output.shape, {}});
        t.bytes.resize(output.values.size() * sizeof(float));
        for (std::size_t i = 0; i < output.values.size(); ++i) t.as<float>()[i] = static_cast<float>(output.values[i]);
    }
    return made;
}

void check(const std::filesystem::path& path, const evaluator& evaluate) {
    const tensor_file file = support::read_safetensors(path);
    std::string line;
    for (const difference& d : differences(file, outputs_of(file, evaluate))) {
        char text[96];
        std::snprintf(text, sizeof text, "  %s %.1e (tolerance %.0e)", d.output.c_str(), d.error, d.tolerance);
        line += text;
        INFO(path.filename().string() << ": " << d.output << ", error " << d.error << ", tolerance " << d.tolerance);
        CHECK(d.error <= d.tolerance);
    }
    std::printf("%-28s%s\n", path.stem().string().c_str(), line.c_str());
}

}  // namespace

TEST_CASE("the reference evaluator computes the golden states", "[state]") {
    const auto files = golden_state_files();
    for (const auto& path : files) check(path, by_reference);
    std::printf("%zu files of recurrent state, by the reference evaluator\n", files.size());
}
