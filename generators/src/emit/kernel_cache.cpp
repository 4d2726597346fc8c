#include "emit/kernel_cache.hpp"

#include "base/formatting.hpp"

#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string_view>

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

}  // namespace

std::string object_key(std::span<const listed_kernel> kernels, std::span<const std::string> code,
                       std::string_view how) {
    if (code.empty()) return {};
    digest all;
    all.add(ATTUNE_HALIDE_VERSION);
    all.add(how);
    for (const std::string& file : code) {
        std::ifstream in(file, std::ios::binary);
        if (!in) return {};
        all.add(std::string(std::istreambuf_iterator<char>(in), {}));
    }
    for (const listed_kernel& kernel : kernels) {
        all.add(kernel.symbol);  // with the fingerprint of the graph
        all.add(kernel.isa->halide);
        all.add(to_json(kernel.request.schedule));
    }
    return all.text();
}

fs::path kernel_cache::place_of(const std::string& key) const {
    return folder_.empty() || key.empty() ? fs::path() : folder_ / (key + ".o");
}

bool kernel_cache::fetch(const std::string& key, const fs::path& file) const {
    const fs::path kept = place_of(key);
    std::error_code problem;
    if (kept.empty() || !fs::exists(kept, problem)) return false;
    if (!fs::copy_file(kept, file, fs::copy_options::overwrite_existing, problem)) return false;
    fs::last_write_time(file, fs::file_time_type::clock::now(), problem);
    return true;
}

void kernel_cache::store(const std::string& key, const fs::path& file) const {
    const fs::path kept = place_of(key);
    if (kept.empty()) return;
    std::error_code problem;
    fs::create_directories(folder_, problem);
    const fs::path whole =
        folder_ / fmt::format("{}.{}", kept.filename().string(), getpid());  // another build may be at it, too
    if (fs::copy_file(file, whole, fs::copy_options::overwrite_existing, problem)) fs::rename(whole, kept, problem);
    if (problem) fs::remove(whole, problem);
}

}  // namespace attune::generators
