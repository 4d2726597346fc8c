#include "base/text.hpp"

#include <attune/runtime/detail/choice.hpp>
#include <attune/runtime/error.hpp>

#include <algorithm>
#include <limits>
#include <tuple>

namespace attune::detail {
namespace {

bool fits(element_type compiled, const std::optional<element_type>& asked) { return !asked || *asked == compiled; }

bool types_fit(const kernel& k, const kernel_request& r) {
    return fits(k.query, r.query) && fits(k.key, r.key) && fits(k.value, r.value) && fits(k.output, r.output);
}
bool depths_fit(const kernel& k, const kernel_request& r) {
    return (!r.depth || *r.depth == k.depth) && (!r.value_depth || *r.value_depth == k.value_depth);
}

std::string types_of(const kernel& k) { return detail::types_of(k.query, k.key, k.value, k.output); }
std::string types_of(const kernel_request& r) {
    std::string result;
    const auto add = [&](std::string_view name, const std::optional<element_type>& type) {
        if (type) add_part(result, say(name, ":", name_of(*type)), ",");
    };
    add("q", r.query), add("k", r.key), add("v", r.value), add("out", r.output);
    return result;
}
std::string depths_of(const kernel& k) { return say(k.depth, "x", k.value_depth); }
std::string depths_of(const kernel_request& r) {
    if (r.depth && r.value_depth) return say(*r.depth, "x", *r.value_depth);
    return r.depth ? std::to_string(*r.depth) : say("a value depth of ", r.value_depth ? *r.value_depth : 0);
}

/// How far a number of queries is from those that a kernel serves, how many it serves, and whether its schedule is
/// everybody's: the least one is chosen.
std::tuple<std::int64_t, std::int64_t, bool> distance(const kernel& k, std::int64_t queries) {
    const std::int64_t from = k.from_queries, to = k.to_queries;
    return {queries < from ? from - queries : queries > to ? queries - to : 0, to - from, k.cpus == nullptr};
}
std::string served(const kernel& k) {
    const bool no_end = k.to_queries == std::numeric_limits<int>::max();
    return say(name_of(k.shapes), ", for ",
               no_end && k.from_queries <= 1 ? "any number of"
               : no_end                      ? say(k.from_queries, " and more")
                                             : say(k.from_queries, " to ", k.to_queries),
               " queries", k.cpus ? say(", with a schedule measured on ", k.cpus) : std::string());
}

/// What differs between the kernels for which `keep` holds: "f32; bf16".
template <class Keep, class Name> std::string compiled(const kernel_table& table, Keep keep, Name name) {
    std::string result;
    for (const kernel& k : table.kernels)
        if (keep(k)) add_part(result, name(k), "; ");
    return result;
}

void check_types_and_depths(const kernel_table& table, const kernel_request& asked) {
    const auto everything = [](const kernel&) { return true; };
    const auto right_types = [&](const kernel& k) { return types_fit(k, asked); };
    const auto right_shape = [&](const kernel& k) { return types_fit(k, asked) && depths_fit(k, asked); };

    if (std::none_of(table.kernels.begin(), table.kernels.end(), right_types))
        fail(say("element types that ", table.variant, " was compiled for (",
                 compiled(table, everything, [](const kernel& k) { return types_of(k); }), ")"),
             types_of(asked), "adding them to DTYPES in attune_add_variant, or converting the tensors");
    if (std::none_of(table.kernels.begin(), table.kernels.end(), right_shape))
        fail(say("depths (depth x value depth) that ", table.variant, " was compiled for (",
                 compiled(table, right_types, [](const kernel& k) { return depths_of(k); }), ")"),
             depths_of(asked), "adding them to DEPTHS in attune_add_variant");

    const auto refuse_several = [&](std::string_view name, int kernel::* depth) {
        const auto first = std::find_if(table.kernels.begin(), table.kernels.end(), right_shape);
        if (std::any_of(first, table.kernels.end(),
                        [&](const kernel& k) { return right_shape(k) && k.*depth != (*first).*depth; }))
            fail(say("a tensor of the call that has the ", name, ", or kernels of one ", name),
                 say("depths (depth x value depth) ",
                     compiled(table, right_shape, [](const kernel& k) { return depths_of(k); })),
                 "an input with that axis, or one of them in DEPTHS of attune_add_variant");
    };
    if (!asked.depth && asked.depth_matters) refuse_several("depth", &kernel::depth);
    if (!asked.value_depth && asked.value_depth_matters) refuse_several("value depth", &kernel::value_depth);
}

/// Of the target that was asked for, which is not linked or does not run here.
[[noreturn]] void refuse_asked(const kernel_table& table, const kernel_request& asked, const std::string& linked,
                               const std::string& lacks, const std::string& runnable) {
    const std::string others = runnable.empty() ? "adding a level that this CPU runs to TARGETS in attune_add_variant"
                                                : say(runnable, ", which are linked and run here, or leaving it unset");
    if (lacks.empty() && is_device(asked.target))
        fail(say("kernels of ", table.variant, " for ", asked.target, ", as ", asked.forced_by, " asks for them"),
             say("those of ", linked),
             say("adding ", asked.target, " to TARGETS in attune_add_variant, or tensors of the host and ", others));
    if (lacks.empty())
        fail(say("one of the linked levels of ", table.variant, " (", linked, ") in ", asked.forced_by),
             std::string(asked.target), others);
    if (is_device(asked.target))
        fail(say("a machine that runs ", asked.target, " kernels, as ", asked.forced_by, " asks"), lacks, others);
    fail(say("a level that this CPU runs in ", asked.forced_by), lacks, others);
}

}  // namespace

bool is_device(std::string_view target) { return target == "cuda" || target == "opencl" || target == "vulkan"; }

std::string missing_here(const kernel_table& table, const kernel& k, const cpu_state& cpu) {
    if (!is_device(k.target)) return missing_for(k.target, cpu);
    return table.devices ? table.devices->missing(k.target) : "attune::gpu in the program";
}

bool is_meant_for(const kernel& k, const cpu_state& cpu) {
    if (k.cpus == nullptr) return true;
    for (std::string_view rest = k.cpus; !rest.empty();) {
        const std::size_t comma = std::min(rest.find(','), rest.size());
        if (rest.substr(0, comma) == cpu.model) return true;
        rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    return false;
}

choice choose(const kernel_table& table, const kernel_request& asked, const cpu_state& cpu, bool explain) {
    check_types_and_depths(table, asked);
    const auto right_shape = [&](const kernel& k) { return types_fit(k, asked) && depths_fit(k, asked); };
    const auto target = [](const kernel& k) { return std::string(k.target); };

    choice result;
    // A GPU has to be asked for: by name, or by tensors that lie there.
    const auto asked_for = [&](const kernel& k) {
        return right_shape(k) && (asked.target.empty() ? !is_device(k.target) : asked.target == k.target);
    };
    const auto missing = [&](const kernel& k) { return missing_here(table, k, cpu); };
    const auto runs = [&](const kernel& k) {
        return is_device(k.target) ? missing(k).empty() : attune::runs(k.target, cpu);
    };
    for (const kernel& k : table.kernels)
        if (asked_for(k) && is_meant_for(k, cpu) && runs(k) &&
            (!result.chosen || rank_of(k.target) > rank_of(result.chosen->target)))
            result.chosen = &k;
    if (result.chosen && asked.queries)
        for (const kernel& k : table.kernels) {
            const bool level = rank_of(k.target) == rank_of(result.chosen->target);
            if (level && asked_for(k) && is_meant_for(k, cpu) &&
                distance(k, *asked.queries) < distance(*result.chosen, *asked.queries))
                result.chosen = &k;
        }
    if (result.chosen && !explain) return result;

    const std::string linked = compiled(table, right_shape, target);
    const std::string lacks = compiled(
        table, [&](const kernel& k) { return asked_for(k) && !runs(k); },
        [&](const kernel& k) { return say(k.target, ": lacks ", missing(k)); });
    if (!result.chosen && asked.target.empty() && std::none_of(table.kernels.begin(), table.kernels.end(), asked_for))
        fail(say("a kernel for the CPU among the linked ones of ", table.variant, " (", linked, ")"), "none",
             "attune::options::target, which a GPU has to be asked for by, or an ISA level in TARGETS of "
             "attune_add_variant");
    if (!result.chosen && asked.target.empty())
        fail(say("a CPU for one of the linked kernels of ", table.variant, " (", linked, ")"),
             say("this one (", lacks, ")"),
             "adding a less demanding level, such as x86-64-v2, to TARGETS in attune_add_variant");
    if (!result.chosen) {
        const std::string runnable =
            compiled(table, [&](const kernel& k) { return right_shape(k) && runs(k); }, target);
        refuse_asked(table, asked, linked, lacks, runnable);
    }
    result.why = asked.target.empty()
                     ? say("the most demanding level of those linked (", linked, ") that this CPU runs")
                     : say("asked for by ", asked.forced_by);
    if (!lacks.empty()) result.why += say("; ", lacks);
    result.why_shapes = served(*result.chosen);
    std::string others;
    for (const kernel& k : table.kernels)
        if (&k != result.chosen && asked_for(k) && rank_of(k.target) == rank_of(result.chosen->target))
            add_part(others, served(k), "; ");
    if (!others.empty()) result.why_shapes += say(" (also linked: ", others, ")");
    return result;
}

}  // namespace attune::detail
