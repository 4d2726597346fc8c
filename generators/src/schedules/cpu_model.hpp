#pragma once
#include <string>

namespace attune::generators::inline schedules {

/// The CPU that schedules were measured on, by its model's numbers, because its name may differ inside a virtual
/// machine. Or the GPU, by its name.
struct cpu_model {
    std::string vendor;  ///< "amd", "intel", as CPUID abbreviates; "arm-0x41" on aarch64
    int family{}, model{};
    std::string name;  ///< its own name, for people: "AMD EPYC"
    bool is_device{};  ///< a GPU, "NVIDIA H200": it has a name only

    /// "amd-25-1", "nvidia-h200": a file's name without its ending, and a value of TUNED_FOR.
    std::string id() const;
    bool same_as(const cpu_model& other) const { return is_device == other.is_device && id() == other.id(); }
};

cpu_model this_cpu_model();

}  // namespace attune::generators::inline schedules
