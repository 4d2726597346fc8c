#pragma once
#include <filesystem>
#include <string_view>

namespace attune::generators::inline base {

/// A file that is there whole or not at all. It is written under a random name beside its own and renamed when it is
/// complete: neither a killed process nor another one that writes the same file, in whatever container, leaves a part
/// of it. A file that was never kept is removed.
class whole_file {
public:
    /// Throws std::runtime_error for a file that cannot be written, and for a path that is no regular file.
    explicit whole_file(std::filesystem::path file);
    ~whole_file();
    whole_file(const whole_file&) = delete;
    whole_file& operator=(const whole_file&) = delete;

    /// The path to write to, until `keep`.
    const std::filesystem::path& part() const { return part_; }
    /// Throws std::runtime_error if it cannot be renamed.
    void keep();

private:
    std::filesystem::path file_, part_;
};

/// A whole file of these bytes; on_disk: they are on the disk before the file is there.
void write_whole(const std::filesystem::path& file, std::string_view bytes, bool on_disk = false);

}  // namespace attune::generators::inline base
