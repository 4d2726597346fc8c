#include "peers.hpp"

#include "attention_gym.hpp"
#include "flex_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace peers {
namespace {

constexpr entry all[] = {
#include "entries.inc"  // written by CMakeLists.txt
};

}  // namespace

std::span<const entry> entries() { return all; }

const attune::support::tensor_file& torch_numbers() {
    static const attune::support::tensor_file file = attune::support::read_safetensors(ATTUNE_TORCH_NUMBERS);
    return file;
}

std::vector<attune::reference::argument> arguments_of(const entry& each) {
    std::vector<attune::reference::argument> arguments;
    for (const attune::input_declaration& input : each.graph.inputs) {
        if (input.is_scalar) {
            arguments.push_back({input.name, torch_numbers().params.at(std::string(input.name))});
        } else {
            const attune::support::file_tensor& of = torch_numbers()[input.name];
            arguments.push_back({input.name, attune::tensor(of.element, of.bytes.data(), of.shape)});
        }
    }
    return arguments;
}

double difference(const attune::reference::array& got, const entry& of) {
    const std::string name = std::string(of.name) + (got.name == "out" ? "" : "." + got.name);
    const attune::support::file_tensor& expected = torch_numbers()[name];
    constexpr double infinite = std::numeric_limits<double>::infinity();
    if (static_cast<std::int64_t>(got.values.size()) != expected.count()) return infinite;
    double worst = 0, largest = 1;
    for (std::size_t i = 0; i < got.values.size(); ++i) {
        const double theirs = expected.as<float>()[i], ours = got.values[i];
        if (ours == theirs) continue;
        if (!std::isfinite(theirs) || !std::isfinite(ours)) return infinite;
        worst = std::max(worst, std::abs(ours - theirs)), largest = std::max(largest, std::abs(theirs));
    }
    return worst / largest;
}

}  // namespace peers
