#include "emit/kernel_cache.hpp"

#include "base/formatting.hpp"
#include "base/whole_file.hpp"

#include <chrono>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

namespace attune::generators::inline emit {
namespace {

namespace fs = std::filesystem;

/// 128 bits, of two FNV-1a hashes that start apart.
class digest {
public:
    void add(std::string_view bytes) {
        for (const char c : bytes) {
            const auto byte = static_cast<unsigned char>(c);
            first_ = (first_ ^ byte) * prime;
            second_ = (second_ ^ byte ^ 0x5cu) * prime;
        }
        first_ *= prime;  // where one part ends
        second_ = (second_ ^ 0xffu) * prime;
    }
    std::string text() const { return fmt::format("{:016x}{:016x}", first_, second_); }

private:
    static constexpr std::uint64_t prime = 0x100000001b3ull;
    std::uint64_t first_ = 0xcbf29ce484222325ull, second_ = 0x84222325cbf29ce4ull;
};

/// Nothing for a file that cannot be read.
std::optional<std::string> bytes_of(const fs::path& file) try {
    std::ifstream in(file, std::ios::binary);
    if (!in) return std::nullopt;
    std::string bytes(std::istreambuf_iterator<char>(in), {});
    if (in.bad()) return std::nullopt;
    return bytes;
} catch (const std::ios_base::failure&) {  // a folder, or a disk that fails in the middle
    return std::nullopt;
}

/// The beginning of an entry of the cache.
std::string heading(const std::string& key, std::string_view object) {
    digest all;
    all.add(key);
    all.add(object);
    return fmt::format("attune-kernels 1 {} {} {}\n", key, object.size(), all.text());
}

constexpr std::string_view ending = ".kernels";  ///< of an entry, after its key
constexpr std::size_t digits_of_key = 32, digits_of_part = 16;

/// The name that whole_file gives an entry until it is whole.
bool is_part(std::string_view name) {
    const auto digits = [](std::string_view text) {
        return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
    };
    constexpr std::size_t dot = digits_of_key + ending.size();
    return name.size() == dot + 1 + digits_of_part && digits(name.substr(0, digits_of_key)) &&
           name.substr(digits_of_key, ending.size()) == ending && name[dot] == '.' && digits(name.substr(dot + 1));
}

/// Removes what writers that were killed have left: parts that nobody has written to for an hour when `kept` was
/// written. Both times are the file system's, whatever the clocks of the machines that share it. A writer takes
/// seconds; one that was stopped for so long only keeps nothing.
void remove_abandoned(const fs::path& folder, const fs::path& kept) {
    std::error_code problem;
    const fs::file_time_type now = fs::last_write_time(kept, problem);
    if (problem) return;
    for (fs::directory_iterator at(folder, problem), end; !problem && at != end; at.increment(problem)) {
        std::error_code ignored;  // others remove, too
        if (!is_part(at->path().filename().string()) || !at->is_regular_file(ignored)) continue;
        const fs::file_time_type written = at->last_write_time(ignored);
        if (!ignored && now - written > std::chrono::hours(1)) fs::remove(at->path(), ignored);
    }
}

}  // namespace

std::string object_key(std::span<const listed_kernel> kernels, std::span<const std::string> code,
                       std::string_view how) {
    if (code.empty()) return {};
    digest all;
    all.add(how);
    for (const std::string& file : code) {
        const std::optional<std::string> bytes = bytes_of(file);
        if (!bytes) return {};
        all.add(*bytes);
    }
    for (const listed_kernel& kernel : kernels) {
        all.add(kernel.symbol);  // with the fingerprint of the graph
        all.add(kernel.request.target->halide);
        all.add(to_json(kernel.request.schedule));
        if (kernel.request.finite) all.add("finite");
        if (kernel.request.tf32_products > 0) all.add(fmt::format("tf32 {}", kernel.request.tf32_products));
    }
    return all.text();
}

kernel_cache::kernel_cache(fs::path folder) : folder_(std::move(folder)) {
    if (!folder_.empty() && folder_.is_relative())
        throw std::runtime_error(
            fmt::format("expected ATTUNE_KERNEL_CACHE, or --cache, as an absolute path, got \"{}\"; try \"{}\"",
                        folder_.string(), fs::absolute(folder_).lexically_normal().string()));
}

fs::path kernel_cache::place_of(const std::string& key) const {
    return folder_.empty() || key.empty() ? fs::path() : folder_ / (key + std::string(ending));
}

bool kernel_cache::fetch(const std::string& key, const fs::path& file, std::string& problem) const {
    const fs::path kept = place_of(key);
    std::error_code ignored;
    if (kept.empty() || !fs::exists(kept, ignored)) return false;
    const std::string entry = bytes_of(kept).value_or("");
    const std::size_t end = entry.find('\n');
    const std::string_view object = std::string_view(entry).substr(end == entry.npos ? entry.size() : end + 1);
    if (end == entry.npos || entry.substr(0, end + 1) != heading(key, object)) {
        problem = fmt::format("\"{}\" of the kernel cache is damaged: it is made anew", kept.string());
        return false;
    }
    write_whole(file, object);
    return true;
}

std::string kernel_cache::store(const std::string& key, const fs::path& file) const {
    const fs::path kept = place_of(key);
    if (kept.empty()) return {};
    try {
        fs::create_directories(folder_);
        const std::optional<std::string> object = bytes_of(file);
        if (!object) return fmt::format("not kept in the kernel cache: \"{}\" cannot be read", file.string());
        write_whole(kept, heading(key, *object) + *object);
        remove_abandoned(folder_, kept);
    } catch (const std::exception& problem) {
        return fmt::format("not kept in the kernel cache: {}", problem.what());
    }
    return {};
}

}  // namespace attune::generators::inline emit
