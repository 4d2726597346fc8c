#pragma once
#include <stdexcept>
#include <string>
#include <string_view>

namespace attune::generators::inline base {

/// Returns the result of `work`. A sentence that it throws then begins with its subject, a graph or a file, unless it
/// does so already. The exception is std::runtime_error, or std::logic_error if it was one.
template <class Work> decltype(auto) about(std::string_view what, Work work) {
    try {
        return work();
    } catch (const std::runtime_error& problem) {
        if (std::string_view(problem.what()).starts_with(what)) throw;
        throw std::runtime_error(std::string(what) + ": " + problem.what());
    } catch (const std::logic_error& problem) {
        if (std::string_view(problem.what()).starts_with(what)) throw;
        throw std::logic_error(std::string(what) + ": " + problem.what());
    }
}

}  // namespace attune::generators::inline base
