#pragma once
#include "kernel/kernel_list.hpp"

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace attune::generators::inline emit {

/// A digest of everything that determines an object of kernels: the kernels' graphs, types, depths, schedules and
/// target, the generators' own code, and `how`, that is Halide's version and the options of the compilation. `code` are
/// the files with that code. Empty if there are none or one cannot be read.
std::string object_key(std::span<const listed_kernel> kernels, std::span<const std::string> code, std::string_view how);

/// Compiled objects, kept by their keys, so that a second build folder compiles nothing again. An entry begins with a
/// line of its key, length and digest, which are compared when it is taken. Builds may share the folder, even in
/// containers.
class kernel_cache {
public:
    /// Without a folder nothing is kept. Throws std::runtime_error for a relative path: builds have many folders.
    explicit kernel_cache(std::filesystem::path folder);

    /// Copies the object of this key to `file` if there is one. A damaged entry counts as none, and `problem` says so
    /// in a sentence.
    bool fetch(const std::string& key, const std::filesystem::path& file, std::string& problem) const;
    /// Keeps `file` as the object of this key. If it cannot be kept, which is no error, returns why; else "". Removes
    /// half-written files of killed processes that are an hour old.
    std::string store(const std::string& key, const std::filesystem::path& file) const;

private:
    std::filesystem::path place_of(const std::string& key) const;

    std::filesystem::path folder_;
};

}  // namespace attune::generators::inline emit
