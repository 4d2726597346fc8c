#include "kernel/schedule_option.hpp"

#include "base/about.hpp"

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

schedule schedule_for(const listed_kernel& kernel, const std::string& text, const std::string& option) {
    return about(kernel.of->name + ", " + option, [&] {
        const schedule s = schedule_with(kernel.request.schedule, text);
        check(s, *kernel.isa, kernel.request.depths.depth);
        return s;
    });
}

}  // namespace attune::generators
