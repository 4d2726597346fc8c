#include "commands/schedule_option.hpp"

#include "base/about.hpp"
#include "base/formatting.hpp"

#include <nlohmann/json.hpp>

#include <stdexcept>

namespace attune::generators::inline commands {

namespace {

nlohmann::json object_from(const std::string& text) {
    auto given = nlohmann::json::parse(text, nullptr, false);
    if (!given.is_object())
        throw std::runtime_error("expected a schedule as a JSON object such as {\"key_block\": 32}, got \"" + text +
                                 "\"");
    return given;
}

}  // namespace

schedule schedule_with(const kernel_request& request, const std::string& text) {
    if (text.empty()) return request.schedule;
    auto fields = nlohmann::json::parse(to_json(request.schedule));
    fields.update(object_from(text));
    return schedule_from_json(fields.dump(), *request.target);
}

std::string_view purpose_named(const std::string& text) {
    const nlohmann::json given = object_from(text), named = given.value("shapes", nlohmann::json("prefill"));
    return purpose_from(named.is_string() ? named.get<std::string>() : named.dump());
}

schedule schedule_for(const variant& of, const kernel_request& request, const std::string& text,
                      const std::string& option) {
    return about(of.name + ", " + option, [&] {
        kernel_request under = request;
        under.schedule = schedule_with(request, text);
        check(under);
        return under.schedule;
    });
}

void use_schedule(std::vector<listed_kernel>& kernels, const std::string& fields) {
    if (fields.empty()) return;
    const std::string_view purpose = about("--schedule", [&] { return purpose_named(fields); });
    std::string others;
    bool used = false;
    for (listed_kernel& kernel : kernels) {
        if (const std::string_view other = purpose_of(kernel.request.schedule); other != purpose) {
            others = other;
            continue;
        }
        kernel.request.schedule = schedule_for(*kernel.of, kernel.request, fields, "--schedule");
        kernel.schedule_from = "--schedule", used = true;
    }
    if (!used && !others.empty())
        throw std::runtime_error(fmt::format(
            "--schedule: expected one for {}, as the kernels are, got one for {}; try it with \"shapes\": \"{}\"",
            others, purpose, others));
}

}  // namespace attune::generators::inline commands
