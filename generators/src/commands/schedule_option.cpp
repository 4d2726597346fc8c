#include "commands/schedule_option.hpp"

#include "base/about.hpp"
#include "base/formatting.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
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

/// Whether a schedule's type has all fields of an object.
bool has_fields(const schedule& cut, const nlohmann::json& object) {
    const auto own = nlohmann::json::parse(to_json(cut));
    return std::ranges::all_of(object.items(), [&](const auto& field) { return own.contains(field.key()); });
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

/// A library has kernels of one purpose whose schedules have other fields: by tensor cores, and beside them.
void use_schedule(std::vector<listed_kernel>& kernels, const std::string& fields) {
    if (fields.empty()) return;
    const auto given = about("--schedule", [&] { return object_from(fields); });
    const std::string_view purpose = about("--schedule", [&] { return purpose_named(fields); });
    std::string others;
    bool used = false;
    const auto use = [&](listed_kernel& kernel) {
        kernel.request.schedule = schedule_for(*kernel.of, kernel.request, fields, "--schedule");
        kernel.schedule_from = "--schedule", used = true;
    };
    const bool has_one = std::ranges::any_of(kernels, [&](const listed_kernel& kernel) {
        return purpose_of(kernel.request.schedule) == purpose && has_fields(kernel.request.schedule, given);
    });
    for (listed_kernel& kernel : kernels) {
        if (const std::string_view other = purpose_of(kernel.request.schedule); other != purpose)
            others = other;
        else if (!has_one || has_fields(kernel.request.schedule, given))
            use(kernel);
    }
    if (!used && !others.empty())
        throw std::runtime_error(fmt::format(
            "--schedule: expected one for {}, as the kernels are, got one for {}; try it with \"shapes\": \"{}\"",
            others, purpose, others));
}

}  // namespace attune::generators::inline commands
