#include <attune/runtime/cpu.hpp>

#include <cstdint>
#include <initializer_list>

#if defined(__x86_64__)
#include <cpuid.h>
#else
#include <fstream>
#endif

namespace attune {

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
