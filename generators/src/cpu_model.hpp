#pragma once
#include <string>

namespace attune::generators {

/// Which CPU schedules were measured on: the model by its numbers, for names differ between a machine and its virtual halves.
struct cpu_model {
    std::string vendor;  ///< "amd", "intel", as CPUID abbreviates; "arm-0x41" on aarch64
    int family{}, model{};
    std::string name;    ///< what it calls itself, for people: "AMD EPYC"

    /// "amd-25-1": a file's name without its ending, and what TUNED_FOR says.
    std::string id() const;
    bool same_as(const cpu_model& other) const { return vendor == other.vendor && family == other.family && model == other.model; }
};

cpu_model this_cpu_model();

}  // namespace attune::generators
