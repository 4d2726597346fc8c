#include "base/text.hpp"

#include <attune/runtime/cpu.hpp>
#include <attune/runtime/error.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>

#if defined(__x86_64__)
#include <cpuid.h>
#else
#include <fstream>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace attune {
namespace {

constexpr std::array<std::string_view, 6> levels = {"x86-64-v2",      "x86-64-v3",     "x86-64-v4",
                                                    "x86-64-v4-bf16", "x86-64-v4-amx", "aarch64"};

enum where : std::uint8_t { leaf_1_ecx, leaf_7_ebx, leaf_7_ecx, leaf_7_edx, leaf_7_1_eax, leaf_80000001_ecx };

/// A CPUID bit and the x86-64 level from which on it is needed: the psABI's levels. Halide compiles v4-bf16 for Zen 4
/// (avx512_zen4), and LLVM uses all that has, SSE4a too: Intel's CPUs with avx512_bf16 do not run it. It compiles
/// v4-amx for Sapphire Rapids (avx512_sapphirerapids), which has all of that but SSE4a.
struct feature {
    std::string_view name;
    int level;
    where in;
    int bit;
    int up_to = 6;  ///< the last level that needs it
};
constexpr feature features[] = {
    {"sse3", 2, leaf_1_ecx, 0},
    {"ssse3", 2, leaf_1_ecx, 9},
    {"cx16", 2, leaf_1_ecx, 13},
    {"sse4.1", 2, leaf_1_ecx, 19},
    {"sse4.2", 2, leaf_1_ecx, 20},
    {"popcnt", 2, leaf_1_ecx, 23},
    {"lahf", 2, leaf_80000001_ecx, 0},
    {"fma", 3, leaf_1_ecx, 12},
    {"movbe", 3, leaf_1_ecx, 22},
    {"avx", 3, leaf_1_ecx, 28},
    {"f16c", 3, leaf_1_ecx, 29},
    {"bmi1", 3, leaf_7_ebx, 3},
    {"avx2", 3, leaf_7_ebx, 5},
    {"bmi2", 3, leaf_7_ebx, 8},
    {"lzcnt", 3, leaf_80000001_ecx, 5},
    {"avx512f", 4, leaf_7_ebx, 16},
    {"avx512dq", 4, leaf_7_ebx, 17},
    {"avx512cd", 4, leaf_7_ebx, 28},
    {"avx512bw", 4, leaf_7_ebx, 30},
    {"avx512vl", 4, leaf_7_ebx, 31},
    {"avx512_ifma", 5, leaf_7_ebx, 21},
    {"avx512_vbmi", 5, leaf_7_ecx, 1},
    {"avx512_vbmi2", 5, leaf_7_ecx, 6},
    {"avx512_vnni", 5, leaf_7_ecx, 11},
    {"avx512_bitalg", 5, leaf_7_ecx, 12},
    {"avx512_vpopcntdq", 5, leaf_7_ecx, 14},
    {"avx512_bf16", 5, leaf_7_1_eax, 5},
    {"gfni", 5, leaf_7_ecx, 8},
    {"vaes", 5, leaf_7_ecx, 9},
    {"vpclmulqdq", 5, leaf_7_ecx, 10},
    {"sse4a", 5, leaf_80000001_ecx, 6, 5},
    {"avx512_fp16", 6, leaf_7_edx, 23},
    {"movdiri", 6, leaf_7_ecx, 27},
    {"movdir64b", 6, leaf_7_ecx, 28},
    {"avx_vnni", 6, leaf_7_1_eax, 4},
    {"amx_tile", 6, leaf_7_edx, 24},
    {"amx_bf16", 6, leaf_7_edx, 22},
    {"amx_int8", 6, leaf_7_edx, 25},
};

constexpr std::uint64_t ymm_saved = 0x6;        // XCR0: SSE and AVX state
constexpr std::uint64_t zmm_saved = 0xe6;       // and opmask, upper halves of zmm0-15, zmm16-31
constexpr std::uint64_t tiles_saved = 0x60000;  // configuration and data of tiles

std::uint32_t word(const cpu_state& cpu, where in) {
    switch (in) {
        case leaf_1_ecx: return cpu.leaf_1.ecx;
        case leaf_7_ebx: return cpu.leaf_7.ebx;
        case leaf_7_ecx: return cpu.leaf_7.ecx;
        case leaf_7_edx: return cpu.leaf_7.edx;
        case leaf_7_1_eax: return cpu.leaf_7_1.eax;
        case leaf_80000001_ecx: return cpu.leaf_80000001.ecx;
    }
    return 0;
}

#if defined(__x86_64__)
/// Linux lets a process use tiles once it has asked, for all of its threads (Documentation/arch/x86/xstate.rst,
/// ARCH_REQ_XCOMP_PERM). Only programs with such a kernel ask: afterwards signals need larger stacks.
bool may_use_tiles() {
#if defined(__linux__)
    constexpr long ask = 0x1023, data_of_tiles = 18;
    static const bool may = syscall(SYS_arch_prctl, ask, data_of_tiles) == 0;
    return may;
#else
    return false;
#endif
}
#endif

cpu_state read_cpu() {
    cpu_state cpu;
#if defined(__x86_64__)
    cpu.is = cpu_state::family::x86_64;
    const auto read = [](unsigned leaf, unsigned subleaf, cpu_state::registers& r) {
        if (!__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx)) r = {};
    };
    read(1, 0, cpu.leaf_1);
    read(7, 0, cpu.leaf_7);
    if (cpu.leaf_7.eax >= 1) read(7, 1, cpu.leaf_7_1);
    read(0x80000001u, 0, cpu.leaf_80000001);
    constexpr std::uint32_t osxsave = 1u << 27;  // without it XGETBV faults
    if (cpu.leaf_1.ecx & osxsave) {
        std::uint32_t low = 0, high = 0;
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        cpu.xcr0 = std::uint64_t{high} << 32 | low;
    }
    cpu.may_use_tiles = may_use_tiles;
#elif defined(__aarch64__)
    cpu.is = cpu_state::family::aarch64;
#endif
    static std::string model;  // texts of it stay valid
    const char* const other = std::getenv("ATTUNE_CPU_MODEL");
    model = other && *other ? other : cpu_model_id();
    if (other && *other) check_cpu_model(model);
    cpu.model = model;
    const char* const most = std::getenv("ATTUNE_MAX_LEVEL");
    return most && *most ? limited_to(most, cpu) : cpu;
}

bool is_aarch64(std::string_view level) { return level == "aarch64"; }

}  // namespace

const cpu_state& this_cpu() {
    static const cpu_state cpu = read_cpu();  // after an exception the next call reads again
    return cpu;
}

namespace {

/// maker-family-model, the last two in digits; makers are "amd", "arm-0x41".
bool is_model(std::string_view name) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    std::size_t end = name.size();
    for (int numbers = 0; numbers < 2; ++numbers) {
        const std::size_t last = end;
        while (end > 0 && is_digit(name[end - 1])) --end;
        if (end == last || end == 0 || name[--end] != '-') return false;
    }
    for (std::size_t i = 0; i < end; ++i)
        if (const char c = name[i]; !is_digit(c) && c != '-' && (c < 'a' || c > 'z')) return false;
    return end > 0;
}

}  // namespace

void check_cpu_model(std::string_view name) {
    if (name != "generic" && !is_model(name))
        detail::fail("a model of CPU (maker-family-model, such as amd-25-1; generic) in ATTUNE_CPU_MODEL", name,
                     "the name of a file of schedules, or leaving it unset");
}

cpu_state limited_to(std::string_view level, cpu_state cpu) {
    std::string known;
    for (const std::string_view each : levels) {
        if (is_aarch64(each) != (cpu.is == cpu_state::family::aarch64)) continue;
        if (each == level) return cpu.at_most = each, cpu;  // not `level`, which may not last
        detail::add_part(known, each, "; ");
    }
    detail::fail(detail::say("a level of CPUs of this kind (", known, ") in ATTUNE_MAX_LEVEL"), level,
                 "one of these, or leaving it unset");
}

std::span<const std::string_view> cpu_levels() { return levels; }

int rank_of(std::string_view level) {
    const auto at = std::find(levels.begin(), levels.end(), level);
    return at == levels.end() ? -1 : static_cast<int>(at - levels.begin());
}

namespace {

/// Calls `lacks` with each thing that `level` needs and `cpu` does not have.
template <class Lacks> void each_missing(std::string_view level, const cpu_state& cpu, Lacks lacks) {
    const int rank = rank_of(level);
    if (rank < 0) return lacks("a device or level that this build knows");
    if (is_aarch64(level)) {
        if (cpu.is != cpu_state::family::aarch64) lacks("an aarch64 CPU");  // its vectors are always there
        return;
    }
    if (cpu.is != cpu_state::family::x86_64) return lacks("an x86-64 CPU");
    for (const feature& f : features)
        if (f.level <= rank + 2 && f.up_to >= rank + 2 && !(word(cpu, f.in) >> f.bit & 1u)) lacks(f.name);
    if (rank >= 1 && (cpu.xcr0 & ymm_saved) != ymm_saved)
        lacks("ymm registers saved by the operating system");
    else if (rank >= 2 && (cpu.xcr0 & zmm_saved) != zmm_saved)
        lacks("zmm registers saved by the operating system");
    if (!cpu.at_most.empty() && rank > rank_of(cpu.at_most)) return lacks("a higher ATTUNE_MAX_LEVEL");
    if (level != "x86-64-v4-amx") return;
    if ((cpu.xcr0 & tiles_saved) != tiles_saved)
        lacks("tile registers saved by the operating system");
    else if (!cpu.may_use_tiles || !cpu.may_use_tiles())
        lacks("the operating system's permission to use tile registers");
}

}  // namespace

std::string missing_for(std::string_view level, const cpu_state& cpu) {
    std::string missing;
    each_missing(level, cpu, [&](std::string_view what) { detail::add_part(missing, what); });
    return missing;
}

bool runs(std::string_view level, const cpu_state& cpu) {
    bool all = true;
    each_missing(level, cpu, [&](std::string_view) { all = false; });
    return all;
}

#if defined(__x86_64__)

std::string cpu_model_id() {
    std::uint32_t words[4]{};
    if (!__get_cpuid(0, &words[0], &words[1], &words[2], &words[3])) return {};
    std::string maker;
    for (const int i : {1, 3, 2}) maker.append(reinterpret_cast<const char*>(&words[i]), sizeof words[i]);
    std::string vendor;
    for (const char c : maker)
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) vendor += static_cast<char>(c | 0x20);
    if (maker == "AuthenticAMD") vendor = "amd";
    if (maker == "GenuineIntel") vendor = "intel";
    if (!__get_cpuid(1, &words[0], &words[1], &words[2], &words[3])) return {};
    const std::uint32_t version = words[0];
    std::uint32_t family = version >> 8 & 0xf, model = version >> 4 & 0xf;
    if (family == 6 || family == 15) model += version >> 12 & 0xf0;
    if (family == 15) family += version >> 20 & 0xff;
    return vendor + "-" + std::to_string(family) + "-" + std::to_string(model);
}

#else

std::string cpu_model_id() {
    std::string implementer, architecture, part;
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        const auto colon = line.find(": ");
        if (colon == line.npos) continue;
        const std::string value = line.substr(colon + 2);
        if (line.starts_with("CPU implementer")) implementer = value;
        if (line.starts_with("CPU architecture")) architecture = value;
        if (line.starts_with("CPU part")) part = value;
    }
    if (implementer.empty() || architecture.empty() || part.empty()) return {};
    try {
        return "arm-" + implementer + "-" + std::to_string(std::stoi(architecture)) + "-" +
               std::to_string(std::stoi(part, nullptr, 16));
    } catch (const std::exception&) {
        return {};  // another kernel's words
    }
}

#endif

}  // namespace attune
