#include "card.hpp"

#include <array>
#include <charconv>
#include <cstdlib>
#include <stdexcept>

namespace ptx {
namespace {

constexpr std::array<card, 7> cards = {{
    {"sm_80", 8, 0, 108, 163u << 10, false},
    {"sm_86", 8, 6, 84, 99u << 10, false},
    {"sm_89", 8, 9, 128, 99u << 10, false},
    {"sm_90", 9, 0, 132, 227u << 10, false},
    {"sm_90a", 9, 0, 132, 227u << 10, true},
    {"sm_100", 10, 0, 148, 227u << 10, false},
    {"sm_120", 12, 0, 170, 99u << 10, false},
}};

}  // namespace

const card& card_of(std::string_view name) {
    std::string names;
    for (const card& each : cards) {
        if (each.name == name) return each;
        names += (names.empty() ? "" : ", ") + std::string(each.name);
    }
    throw std::invalid_argument("expected a card among " + names + ", got " + std::string(name));
}

const card& card_of_environment() {
    const char* const named = std::getenv("PTX_CARD");
    return card_of(named && *named ? named : "sm_90a");
}

std::string why_not(const card& on, std::string_view target) {
    int number = 0;
    const std::string_view digits = target.starts_with("sm_") ? target.substr(3) : std::string_view();
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    const std::string_view rest(end, static_cast<std::size_t>(digits.data() + digits.size() - end));
    if (problem != std::errc() || (!rest.empty() && rest != "a"))
        return "expected a target as sm_80, got " + std::string(target);
    const bool runs = rest.empty() ? number <= 10 * on.major + on.minor : target == on.name;
    return runs ? "" : "expected PTX that " + std::string(on.name) + " runs, got PTX for " + std::string(target);
}

}  // namespace ptx
