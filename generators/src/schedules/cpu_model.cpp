#include "schedules/cpu_model.hpp"

#include <attune/runtime/cpu.hpp>

#include <cstdint>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace attune::generators::inline schedules {

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

namespace {

std::string name_of_this_cpu([[maybe_unused]] const std::string& id) {
#if defined(__x86_64__)
    std::string name;
    std::uint32_t words[4]{};
    for (std::uint32_t leaf = 0x80000002u; leaf <= 0x80000004u; ++leaf)
        if (__get_cpuid(leaf, &words[0], &words[1], &words[2], &words[3]))
            for (const std::uint32_t word : words) name.append(reinterpret_cast<const char*>(&word), sizeof word);
    name = name.c_str();  // up to the first zero
    while (!name.empty() && name.back() == ' ') name.pop_back();
    while (!name.empty() && name.front() == ' ') name.erase(0, 1);
    return name;
#else
    return id;
#endif
}

}  // namespace

cpu_model this_cpu_model() {
    const std::string id = attune::cpu_model_id();
    const std::size_t last = id.rfind('-'), before = last == id.npos ? last : id.rfind('-', last - 1);
    if (before == id.npos) return {"unknown", 0, 0, "unknown"};
    return {id.substr(0, before), std::stoi(id.substr(before + 1)), std::stoi(id.substr(last + 1)),
            name_of_this_cpu(id)};
}

}  // namespace attune::generators::inline schedules
