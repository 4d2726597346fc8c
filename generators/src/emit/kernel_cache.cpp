#include "emit/kernel_cache.hpp"

#include "base/formatting.hpp"
#include "base/whole_file.hpp"

#include <cstdint>
#include <exception>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

namespace attune::generators {
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

/// What an entry of the cache begins with.
std::string heading(const std::string& key, std::string_view object) {
    digest all;
    all.add(key);
    all.add(object);
    return fmt::format("attune-kernels 1 {} {} {}\n", key, object.size(), all.text());
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
    return folder_.empty() || key.empty() ? fs::path() : folder_ / (key + ".kernels");
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
    } catch (const std::exception& problem) {
        return fmt::format("not kept in the kernel cache: {}", problem.what());
    }
    return {};
}

}  // namespace attune::generators
