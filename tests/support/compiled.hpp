#pragma once
#include <attune/generators/main.hpp>
#include <attune/runtime/detail/kernel_table.hpp>

#include <deque>
#include <string>
#include <vector>

namespace attune::support {

/// Kernels compiled, linked and loaded while a test runs: for graphs that no header holds.
class compiled_graphs {
public:
    struct request {
        graph_ir graph;      ///< with a fingerprint of its own; must live as long as its kernels
        std::string depths;  ///< "64" or "64x32"
    };

    /// For the most demanding ISA level of this machine, in f32. Throws std::runtime_error with the generators'
    /// sentence.
    explicit compiled_graphs(const std::vector<request>& requests);
    ~compiled_graphs();
    compiled_graphs(const compiled_graphs&) = delete;
    compiled_graphs& operator=(const compiled_graphs&) = delete;

    const kernel_table& operator[](std::size_t i) const { return tables_.at(i); }

private:
    void* library_{};
    std::deque<generators::variant> variants_;
    std::deque<std::string> texts_;
    std::deque<kernel> kernels_;
    std::vector<kernel_table> tables_;
};

}  // namespace attune::support
