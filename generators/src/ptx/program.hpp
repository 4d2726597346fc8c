#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace attune::generators::inline ptx {

/// A folder of its own among temporary ones, which is removed with all that it holds.
class scratch_folder {
public:
    scratch_folder();
    ~scratch_folder();
    scratch_folder(const scratch_folder&) = delete;
    scratch_folder& operator=(const scratch_folder&) = delete;
    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

struct program_end {
    int status;        ///< 0 if all was well
    std::string said;  ///< on both streams
};

/// Runs a program to its end, with its output in a file of `scratch`. Throws std::runtime_error if it cannot be
/// started.
program_end run_program(const std::vector<std::string>& words, const scratch_folder& scratch);

std::string bytes_of(const std::filesystem::path& file);
void write_bytes(const std::filesystem::path& file, const std::string& bytes);

}  // namespace attune::generators::inline ptx
