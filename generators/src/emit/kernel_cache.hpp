#pragma once
#include "kernel/kernel_list.hpp"

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace attune::generators {

/// A digest of all that an object of kernels is made of: the kernels' graphs, types, depths, schedules and target,
/// Halide's version, the generators' own code and `how`, what else was said of the compilation. `code` are the files
/// that hold that code; empty if there are none or one cannot be read.
std::string object_key(std::span<const listed_kernel> kernels, std::span<const std::string> code, std::string_view how);

/// Compiled objects, kept by their keys: a second build folder compiles nothing again.
class kernel_cache {
public:
    /// Without a folder nothing is kept.
    explicit kernel_cache(std::filesystem::path folder) : folder_(std::move(folder)) {}

    /// Copies the object of this key to `file` if it is there.
    bool fetch(const std::string& key, const std::filesystem::path& file) const;
    /// Keeps `file` as the object of this key. What cannot be kept is not: it is no error.
    void store(const std::string& key, const std::filesystem::path& file) const;

private:
    std::filesystem::path place_of(const std::string& key) const;

    std::filesystem::path folder_;
};

}  // namespace attune::generators
