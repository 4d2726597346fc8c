#pragma once
#include "kernel_list.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace attune::generators {

/// Compiled objects, kept by what they are made of: the kernels' graphs, types, depths, schedules and target, and the generators' own code. A variant
/// header whose graphs did not change, or a second build folder, compiles nothing again.
class kernel_cache {
public:
    /// `code` is the file that holds the generators' code, `how` what else was said of the compilation. Without a folder or such a file nothing is kept.
    kernel_cache(const std::filesystem::path& folder, const std::filesystem::path& code, std::string_view how);

    /// Copies the object of these kernels to `file` if it is there.
    bool fetch(std::span<const listed_kernel> kernels, const std::filesystem::path& file) const;
    /// Keeps `file` as the object of these kernels. What cannot be kept is not: it is no error.
    void store(std::span<const listed_kernel> kernels, const std::filesystem::path& file) const;

private:
    std::filesystem::path place_of(std::span<const listed_kernel> kernels) const;

    std::filesystem::path folder_;
    std::string code_;  ///< the hash of its bytes, and how they were told to compile
};

}  // namespace attune::generators
