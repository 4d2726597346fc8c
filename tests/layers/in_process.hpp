#pragma once
#include "../generators/tested_levels.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/dsl/build.hpp>
#include <attune/runtime/cpu.hpp>

#include <functional>
#include <string>
#include <vector>

namespace attune::testing {

/// The ISA levels that tests look at here.
inline std::vector<std::string> levels_here() {
    std::vector<std::string> names;
    for (const generators::level& each : tested_levels()) names.emplace_back(each.name);
    return names;
}

/// A graph's kernel, compiled while the test runs; `cut` may change the default schedule.
class in_process {
public:
    in_process(std::string name, const graph_ir& graph, const std::string& depths, const std::string& level,
               const std::function<void(generators::cpu_prefill&)>& cut = {})
        : variant_{std::move(name), graph}, kernel_(listed(depths, level, cut)) {}
    const kernel_table& table() const { return kernel_.table(); }
    const generators::kernel_request& request() const { return request_; }

private:
    generators::listed_kernel listed(const std::string& depths, const std::string& level,
                                     const std::function<void(generators::cpu_prefill&)>& cut) {
        generators::listed_kernel made =
            generators::kernels_of({&variant_, 1}, {.targets = {level}, .dtypes = {"f32"}, .depths = {depths}}).front();
        if (cut) cut(std::get<generators::cpu_prefill>(made.request.schedule));
        request_ = made.request;
        return made;
    }

    generators::variant variant_;
    generators::kernel_request request_;
    generators::jit_kernel kernel_;
};

}  // namespace attune::testing
