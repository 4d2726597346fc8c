#pragma once
#include <attune/runtime/run.hpp>

#include <map>
#include <string>
#include <vector>

namespace attune::testing {

struct variant {
    std::string name;
    graph_ir graph;
    const kernel_table* kernels;
    std::map<std::string, double> numbers;  ///< its scalars, `scale` aside
};

template <const auto& Graph> variant variant_of(std::string name, std::map<std::string, double> numbers = {}) {
    return {std::move(name), dsl::ir_of<Graph>, &detail::table_of<Graph>(), std::move(numbers)};
}

/// Those of variants.hpp.
const std::vector<variant>& variants();

/// The ISA levels and devices that kernels are linked for and that run on this machine.
std::vector<std::string> levels_here(const kernel_table& table);

}  // namespace attune::testing
