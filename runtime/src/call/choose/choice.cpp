#include "base/text.hpp"

#include <attune/runtime/detail/choice.hpp>
#include <attune/runtime/error.hpp>

#include <algorithm>
#include <charconv>
#include <cstdlib>
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

/// How far a number of queries is from those that a kernel serves, how many it serves, how little it asks of rows and
/// of cards, and whether its schedule is everybody's: the least one is chosen.
std::tuple<std::int64_t, std::int64_t, int, int, bool> distance(const kernel& k, std::int64_t queries) {
    const std::int64_t from = k.from_queries, to = k.to_queries;
    return {queries < from ? from - queries
            : queries > to ? queries - to
                           : 0,
            to - from, -k.row_alignment, -k.capability, k.cpus == nullptr};
}
std::string served(const kernel& k) {
    const bool no_end = k.to_queries == std::numeric_limits<int>::max();
    return say(name_of(k.shapes), ", for ",
               no_end && k.from_queries <= 1 ? "any number of"
               : no_end                      ? say(k.from_queries, " and more")
                                             : say(k.from_queries, " to ", k.to_queries),
               " queries", k.cpus ? say(", with a schedule measured on ", k.cpus) : std::string(),
               k.row_alignment
                   ? say(", by tensor cores, which take rows that begin at multiples of ", k.row_alignment, " bytes")
                   : std::string(),
               k.capability ? say(" and cards of compute capability ", k.capability / 10, ".", k.capability % 10)
                            : std::string());
}

/// Whether something holds of a model of CPU on which a kernel's schedule was measured.
template <class Holds> bool any_model(const kernel& k, Holds holds) {
    for (std::string_view rest = k.cpus ? k.cpus : ""; !rest.empty();) {
        const std::string_view model = rest.substr(0, rest.find(','));
        if (holds(model)) return true;
        rest.remove_prefix(std::min(model.size() + 1, rest.size()));
    }
    return false;
}
bool was_measured_on(const kernel& k, std::string_view model) {
    return any_model(k, [&](std::string_view each) { return each == model; });
}

/// How far the numbers of two models of one maker and family are apart; of others nothing. Arm's parts have no order.
std::optional<int> steps_between(std::string_view one, std::string_view other) {
    const auto number = [](std::string_view model) -> std::optional<int> {
        const std::string_view digits = model.substr(model.rfind('-') + 1);
        int n = 0;
        const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
        return problem == std::errc() && end == digits.data() + digits.size() ? std::optional(n) : std::nullopt;
    };
    const auto family = [](std::string_view model) { return model.substr(0, model.rfind('-') + 1); };
    const auto a = number(one), b = number(other);
    if (!a || !b || family(one) != family(other) || one.starts_with("arm-")) return {};
    return std::abs(*a - *b);
}

/// The model whose schedules this one takes: itself if the table has a kernel for it, else the nearest of its maker and
/// family among the kernels for which `keep` holds. Empty: none.
template <class Keep> std::string_view model_taken(const kernel_table& table, std::string_view own, Keep keep) {
    std::string_view nearest;
    int steps = std::numeric_limits<int>::max();
    for (const kernel& k : table.kernels) {
        if (was_measured_on(k, own)) return own;
        if (k.cpus == nullptr || !keep(k)) continue;
        any_model(k, [&](std::string_view model) {
            const auto between = steps_between(model, own);
            if (between && *between < steps) nearest = model, steps = *between;
            return false;
        });
    }
    return nearest;
}

/// The kernel of the most demanding level among those for which `keep` holds; null: there is none.
template <class Keep> const kernel* most_demanding(const kernel_table& table, Keep keep) {
    const kernel* chosen = nullptr;
    for (const kernel& k : table.kernels)
        if (keep(k) && (!chosen || rank_of(k.target) > rank_of(chosen->target))) chosen = &k;
    return chosen;
}

/// The kernel nearest to a number of queries among those for which `keep` holds; `first` unless another one is nearer.
/// Without a number, one with a measured schedule.
template <class Keep>
const kernel* nearest_of(const kernel_table& table, const kernel& first, const std::optional<std::int64_t>& queries,
                         Keep keep) {
    const kernel* chosen = &first;
    const auto is_better = [&](const kernel& k) {
        return queries ? distance(k, *queries) < distance(*chosen, *queries)
                       : k.cpus != nullptr && chosen->cpus == nullptr;
    };
    for (const kernel& k : table.kernels)
        if (keep(k) && is_better(k)) chosen = &k;
    return chosen;
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

/// Refuses the target that was asked for, which is not linked or does not run here.
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
    return table.devices ? table.devices->missing(k.target, k.capability) : "attune::gpu in the program";
}

choice choose(const kernel_table& table, const kernel_request& asked, const cpu_state& cpu, bool explain) {
    check_types_and_depths(table, asked);
    const auto right_shape = [&](const kernel& k) { return types_fit(k, asked) && depths_fit(k, asked); };
    const auto target = [](const kernel& k) { return std::string(k.target); };

    choice result;
    // A GPU has to be asked for: by name, or by tensors that lie there.
    const auto of_target = [&](const kernel& k) {
        return right_shape(k) && (asked.target.empty() ? !is_device(k.target) : asked.target == k.target);
    };
    const auto asked_for = [&](const kernel& k) { return of_target(k) && k.row_alignment <= asked.row_alignment; };
    const auto missing = [&](const kernel& k) { return missing_here(table, k, cpu); };
    const auto runs = [&](const kernel& k) {
        return is_device(k.target) ? missing(k).empty() : attune::runs(k.target, cpu);
    };
    // First the level, by kernels for any of its CPUs or for this one; then the schedule.
    result.chosen = most_demanding(table, [&](const kernel& k) {
        return asked_for(k) && (k.cpus == nullptr || was_measured_on(k, cpu.model)) && runs(k);
    });
    if (result.chosen) {
        const auto rank = rank_of(result.chosen->target);
        const auto is_there = [&](const kernel& k) {
            return rank_of(k.target) == rank && asked_for(k) && (k.capability == 0 || runs(k));
        };
        const std::string_view model = model_taken(table, cpu.model, is_there);
        result.chosen = nearest_of(table, *result.chosen, asked.queries, [&](const kernel& k) {
            return is_there(k) && (k.cpus == nullptr || was_measured_on(k, model));
        });
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
    if (result.chosen->cpus && !was_measured_on(*result.chosen, cpu.model))
        result.why_shapes += say(", the measured model nearest to this CPU, ", cpu.model);
    std::string others;
    for (const kernel& k : table.kernels)
        if (&k != result.chosen && of_target(k) && rank_of(k.target) == rank_of(result.chosen->target))
            add_part(others, served(k), "; ");
    if (!others.empty()) result.why_shapes += say(" (also linked: ", others, ")");
    return result;
}

}  // namespace attune::detail
