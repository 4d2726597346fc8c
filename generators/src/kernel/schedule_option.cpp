#include "kernel/schedule_option.hpp"

#include <nlohmann/json.hpp>

#include <stdexcept>

namespace attune::generators {

schedule schedule_with(const schedule& base, const std::string& text) {
    if (text.empty()) return base;
    const auto given = nlohmann::json::parse(text, nullptr, false);
    if (!given.is_object())
        throw std::runtime_error("expected a schedule as a JSON object such as {\"key_block\": 32}, got \"" + text +
                                 "\"");
    auto fields = nlohmann::json::parse(to_json(base));
    fields.update(given);
    return schedule_from_json(fields.dump());
}

}  // namespace attune::generators
