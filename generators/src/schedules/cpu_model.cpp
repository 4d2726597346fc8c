#include "schedules/cpu_model.hpp"

#include <cstdint>
#include <cstring>
#include <fstream>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace attune::generators {

std::string cpu_model::id() const {
    if (!is_device) return vendor + "-" + std::to_string(family) + "-" + std::to_string(model);
    std::string words;  // in small letters and digits, with lines between
    for (const char c : name) {
        const bool large = c >= 'A' && c <= 'Z', part = large || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (part)
            words += large ? static_cast<char>(c | 0x20) : c;
        else if (!words.empty() && words.back() != '-')
            words += '-';
    }
    while (!words.empty() && words.back() == '-') words.pop_back();
    return words;
}

#if defined(__x86_64__)

cpu_model this_cpu_model() {
    cpu_model cpu;
    std::uint32_t words[4]{};
    const auto text_of = [&](std::initializer_list<int> order) {
        std::string text;
        for (const int i : order) text.append(reinterpret_cast<const char*>(&words[i]), sizeof words[i]);
        return text;
    };
    __get_cpuid(0, &words[0], &words[1], &words[2], &words[3]);
    const std::string vendor = text_of({1, 3, 2});
    for (const char c : vendor)
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) cpu.vendor += static_cast<char>(c | 0x20);
    if (vendor == "AuthenticAMD") cpu.vendor = "amd";
    if (vendor == "GenuineIntel") cpu.vendor = "intel";
    __get_cpuid(1, &words[0], &words[1], &words[2], &words[3]);
    const std::uint32_t version = words[0];
    cpu.family = static_cast<int>(version >> 8 & 0xf), cpu.model = static_cast<int>(version >> 4 & 0xf);
    if (cpu.family == 6 || cpu.family == 15) cpu.model += static_cast<int>(version >> 12 & 0xf0);
    if (cpu.family == 15) cpu.family += static_cast<int>(version >> 20 & 0xff);
    for (std::uint32_t leaf = 0x80000002u; leaf <= 0x80000004u; ++leaf)
        if (__get_cpuid(leaf, &words[0], &words[1], &words[2], &words[3])) cpu.name += text_of({0, 1, 2, 3});
    cpu.name = cpu.name.c_str();  // up to the first zero
    while (!cpu.name.empty() && cpu.name.back() == ' ') cpu.name.pop_back();
    while (!cpu.name.empty() && cpu.name.front() == ' ') cpu.name.erase(0, 1);
    return cpu;
}

#else

cpu_model this_cpu_model() {
    cpu_model cpu{"unknown", 0, 0, "unknown"};
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        const auto colon = line.find(": ");
        if (colon == line.npos) continue;
        const std::string value = line.substr(colon + 2);
        if (line.starts_with("CPU implementer")) cpu.vendor = "arm-" + value;
        if (line.starts_with("CPU architecture")) cpu.family = std::stoi(value);
        if (line.starts_with("CPU part"))
            cpu.model = std::stoi(value, nullptr, 16), cpu.name = cpu.vendor + " part " + value;
    }
    return cpu;
}

#endif

}  // namespace attune::generators
