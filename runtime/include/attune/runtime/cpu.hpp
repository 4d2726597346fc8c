#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// What this CPU and its operating system can run. attune reads CPUID and XCR0 itself. A feature counts only if the
/// operating system also saves the registers that it uses.
namespace attune {

/// What CPUID and XGETBV returned; a test may fill in another machine's.
struct cpu_state {
    struct registers {
        std::uint32_t eax{}, ebx{}, ecx{}, edx{};
    };
    enum class family : std::uint8_t { other, x86_64, aarch64 } is{};
    registers leaf_1, leaf_7, leaf_7_1, leaf_80000001;  ///< zero where the CPU does not have the leaf
    std::uint64_t xcr0{};                               ///< zero without OSXSAVE
    bool (*may_use_tiles)(){};                          ///< asks the operating system; null: no
    std::string_view at_most{};                         ///< levels above it do not run; empty: no limit
    std::string_view model{};  ///< as `cpu_model_id` has it: whose measured schedules are taken; empty: nobody's
};

/// This machine's, read once. ATTUNE_MAX_LEVEL, read at the same time, hides the levels above the one that it names. If
/// it names no level, every call is refused. ATTUNE_CPU_MODEL replaces the CPU's model: a library with schedules of
/// several CPUs takes those of that model; "generic" takes none. A value that is not written as a model refuses every
/// call.
const cpu_state& this_cpu();

/// The model of this machine's CPU by its own numbers: "amd-25-1", "intel-6-143", "arm-0x41-8-3407". Files of measured
/// schedules are called so, for a name may differ inside a virtual machine. Empty where the CPU does not say.
std::string cpu_model_id();

/// Refuses a value of ATTUNE_CPU_MODEL unless it is "generic" or written as `cpu_model_id` writes a model.
void check_cpu_model(std::string_view name);

/// `cpu` with the levels above this one hidden. A name that is no level of such CPUs is refused as a value of
/// ATTUNE_MAX_LEVEL.
cpu_state limited_to(std::string_view level, cpu_state cpu);

/// The ISA levels that attune has a name for, least demanding first.
std::span<const std::string_view> cpu_levels();

/// How demanding a level is: its position in `cpu_levels`, or -1 for an unknown name.
int rank_of(std::string_view level);

/// What `level` needs and this machine lacks: "avx512f, avx512bw", "zmm registers saved by the operating system"; empty
/// if it runs.
std::string missing_for(std::string_view level, const cpu_state& cpu = this_cpu());

bool runs(std::string_view level, const cpu_state& cpu = this_cpu());

}  // namespace attune
