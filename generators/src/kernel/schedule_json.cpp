// The JSON of schedules.
#include "base/formatting.hpp"
#include "kernel/schedule_fields.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>

namespace attune::generators::inline kernel {
namespace {

std::string shown(const std::string& all) { return all.size() > 40 ? all.substr(0, 40) + "..." : all; }

template <class Cut> std::string field_names() {
    std::string names = "shapes";
    for (const auto& field : schedule_fields<Cut>::own) names += ", " + std::string(field.name);
    return names;
}

[[noreturn]] void refuse_value(const char* name, const char* wanted, const nlohmann::json& got) {
    const std::string text = got.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    throw std::runtime_error(fmt::format(
        "expected a schedule's \"{}\" to be {}, got {}; try what `explain --json` says", name, wanted, shown(text)));
}

int integer(const char* name, const nlohmann::json& value) {
    constexpr std::int64_t least = std::numeric_limits<int>::min(), most = std::numeric_limits<int>::max();
    const bool fits = value.is_number_unsigned() ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most)
                                                 : value.is_number_integer() && value.get<std::int64_t>() >= least;
    if (!fits) refuse_value(name, "an integer of 32 bits", value);
    return value.get<int>();
}

[[noreturn]] void refuse_absent(const char* name, const std::string& names) {
    throw std::runtime_error(fmt::format(
        "expected a schedule with the field \"{}\", got none; its fields are {}; try what `explain --json` says", name,
        names));
}

template <class Cut> schedule read_as(const nlohmann::json& object) {
    Cut s{};
    for (const auto& [name, member, most] : schedule_fields<Cut>::own) {
        const auto at = object.find(name);
        if (at == object.end()) refuse_absent(name, field_names<Cut>());
        s.*member = integer(name, *at);
    }
    for (const auto& [key, value] : object.items()) {
        const auto is_it = [&](const auto& field) { return key == field.name; };
        if (key == "shapes" || std::ranges::any_of(schedule_fields<Cut>::own, is_it)) continue;
        const auto foreign = std::ranges::find_if(schedule_fields<Cut>::foreign, is_it);
        if (foreign == std::end(schedule_fields<Cut>::foreign))
            throw std::runtime_error(fmt::format("expected a schedule with the fields {}, got \"{}\"; try without it",
                                                 field_names<Cut>(), key));
        const int got = integer(foreign->name, value);
        if (foreign->neutral && got != *foreign->neutral)
            refuse_field(foreign->name, fmt::format("{} {}", *foreign->neutral, foreign->where), got,
                         *foreign->neutral);
    }
    check_limits(s);
    return s;
}

/// value_chunk of prefill on CPUs was called chunk, as that of GPUs is.
nlohmann::json with_value_chunk(nlohmann::json object) {
    const auto before = object.find("chunk");
    if (before == object.end() || object.contains("value_chunk")) return object;
    object["value_chunk"] = *before;
    object.erase("chunk");
    return object;
}

}  // namespace

std::string to_json(const schedule& s) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    object["shapes"] = std::string(purpose_of(s));
    std::visit(
        [&object]<class Cut>(const Cut& cut) {
            for (const auto& [name, member, most] : schedule_fields<Cut>::own) object[name] = cut.*member;
        },
        s);
    return object.dump();
}

schedule schedule_from_json(std::string_view text, const level& target) {
    const auto object = nlohmann::json::parse(text, nullptr, false);
    const std::string names = target.is_gpu ? field_names<gpu_prefill>() : field_names<cpu_prefill>();
    if (!object.is_object())
        throw std::runtime_error(fmt::format(
            "expected a schedule as a JSON object with the fields {}, got {}; try what `explain --json` says", names,
            text.empty() ? "nothing" : shown(std::string(text))));
    const auto shapes = object.find("shapes");
    if (shapes == object.end()) refuse_absent("shapes", names);
    if (!shapes->is_string())
        refuse_value("shapes", "text, \"prefill\", \"decode\", \"gradient\" or \"recurrence\"", *shapes);
    const std::string_view purpose = purpose_from(shapes->get_ref<const std::string&>());
    const bool decode = purpose == name_of(shape_class::decode), prefill = purpose == name_of(shape_class::prefill);
    if (target.is_gpu && purpose == "recurrence")
        refuse_value("shapes", "\"prefill\", \"decode\" or \"gradient\" on a GPU", *shapes);
    if (target.is_gpu && purpose == "gradient") return read_as<gpu_gradient>(object);
    if (target.is_gpu && object.contains("warps"))  // of tensor cores alone
        return decode ? read_as<gpu_tensor_decode>(object) : read_as<gpu_tensor_prefill>(object);
    if (target.is_gpu) return decode ? read_as<gpu_decode>(object) : read_as<gpu_prefill>(object);
    if (!decode && !prefill)
        return purpose == "gradient" ? read_as<cpu_gradient>(object) : read_as<cpu_recurrence>(object);
    return decode ? read_as<cpu_decode>(object) : read_as<cpu_prefill>(with_value_chunk(object));
}

}  // namespace attune::generators::inline kernel
