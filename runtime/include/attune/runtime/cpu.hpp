#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// What this CPU and its operating system can run. attune reads CPUID and XCR0 itself: a feature counts only if the
/// operating system also saves the registers that it uses.
namespace attune {

/// What CPUID and XGETBV returned; a test may fill it with another machine's.
struct cpu_state {
    struct registers {
        std::uint32_t eax{}, ebx{}, ecx{}, edx{};
    };
    enum class family : std::uint8_t { other, x86_64, aarch64 } is{};
    registers leaf_1, leaf_7, leaf_7_1, leaf_80000001;  ///< zero where the CPU does not have the leaf
    std::uint64_t xcr0{};                               ///< zero without OSXSAVE
    std::string_view at_most{};                         ///< levels beyond it do not run; empty: all do that can
};

/// This machine's, read once; ATTUNE_MAX_LEVEL, read with it, hides the levels beyond the one that it names. As long as
/// that is no level's name, every call is refused.
const cpu_state& this_cpu();

/// `cpu` with the levels beyond this one hidden; refuses what is no level of such CPUs as a value of ATTUNE_MAX_LEVEL.
cpu_state limited_to(std::string_view level, cpu_state cpu);

/// The ISA levels that attune has a name for, least demanding first.
std::span<const std::string_view> cpu_levels();

/// How demanding a level is: its position in `cpu_levels`, -1 for a name that is not there.
int rank_of(std::string_view level);

/// What `level` needs and this machine lacks: "avx512f, avx512bw", "zmm registers saved by the operating system"; empty
/// if it runs.
std::string missing_for(std::string_view level, const cpu_state& cpu = this_cpu());

bool runs(std::string_view level, const cpu_state& cpu = this_cpu());

}  // namespace attune
