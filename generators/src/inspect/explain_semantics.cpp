#include "inspect/explain_semantics.hpp"

#include "base/formatting.hpp"
#include "inspect/node_text.hpp"

#include <attune/ir/recurrence.hpp>
#include <attune/ir/stores.hpp>

#include <algorithm>

namespace attune::generators::inline inspect {
namespace {

/// q_idx - kv_idx, shifted or not, against a limit.
struct distance {
    int queries{}, keys{}, key_lengths{}, query_lengths{}, constant{};
    std::vector<std::string> limit;  ///< what else there is, with its sign as if moved to the right
    bool may_be_none{};              ///< a limit below 0 is none
    bool is_simple() const {
        return std::all_of(limit.begin(), limit.end(), [](const std::string& term) { return term.size() < 32; });
    }
};

/// The limit x of where(x < 0, without a limit, x), as window(...) says it; else the node itself.
int limit_of_window(const graph_ir& graph, int at, distance& d) {
    const instruction& node = graph.nodes[at];
    if (node.op != operation::where || graph.nodes[node.arguments[1]].op != operation::constant) return at;
    const instruction& outside = graph.nodes[node.arguments[0]];
    if (outside.op != operation::logical_or) return at;
    const instruction& below = graph.nodes[outside.arguments[0]];
    if (below.op != operation::less || below.arguments[0] != node.arguments[2]) return at;
    d.may_be_none = true;
    return node.arguments[2];
}

void add_terms(const graph_ir& graph, int at, int sign, distance& d) {
    at = limit_of_window(graph, at, d);
    const instruction& node = graph.nodes[at];
    const bool adds = node.op == operation::add, subtracts = node.op == operation::subtract;
    if (node.op == operation::negate) sign = -sign;
    if (adds || subtracts || node.op == operation::negate || node.op == operation::to_real)
        add_terms(graph, node.arguments[0], sign, d);
    if (adds || subtracts) add_terms(graph, node.arguments[1], adds ? sign : -sign, d);
    if (adds || subtracts || node.op == operation::negate || node.op == operation::to_real) return;
    if (node.op == operation::q_idx)
        d.queries += sign;
    else if (node.op == operation::kv_idx)
        d.keys += sign;
    else if (node.op == operation::key_length || node.op == operation::kv_lengths)
        d.key_lengths += sign;
    else if (node.op == operation::query_length)
        d.query_lengths += sign;
    else if (node.op == operation::constant && node.kind == kind::integer)
        d.constant += sign * static_cast<int>(node.integer);
    else
        d.limit.push_back(fmt::format("{}{}", sign > 0 ? '-' : '+', text_of(graph, at)));
}

std::string limit_text(const distance& d, int shift) {
    std::string text;
    for (const std::string& term : d.limit)
        text +=
            text.empty() ? (term[0] == '+' ? term.substr(1) : term) : fmt::format(" {} {}", term[0], term.substr(1));
    const int constant = shift - d.constant;
    if (text.empty()) return std::to_string(constant);
    return constant == 0 ? text : fmt::format("{} {} {}", text, constant < 0 ? '-' : '+', std::abs(constant));
}

/// A comparison of q_idx with kv_idx, said in words; nothing for others.
void add_comparison(const graph_ir& graph, const instruction& node, std::vector<choice>& all) {
    distance d;
    const bool less = node.op == operation::less || node.op == operation::less_equal,
               strict = node.op == operation::less || node.op == operation::greater;
    add_terms(graph, node.arguments[0], less ? 1 : -1, d);
    add_terms(graph, node.arguments[1], less ? -1 : 1, d);  // now: d <= 0, or d < 0
    if (d.queries * d.keys != -1 || !d.is_simple()) return;
    const bool last_meets_last = d.key_lengths == d.queries && d.query_lengths == -d.queries;
    if (!last_meets_last && (d.key_lengths != 0 || d.query_lengths != 0)) return;
    const std::string from = last_meets_last ? "its place from the end of the keys" : "its own position";
    const std::string limit = limit_text(d, strict ? -1 : 0);  // inclusive
    const std::string_view unless = d.may_be_none ? "; below 0 there is no limit" : "";
    if (d.queries < 0 && limit == "0")
        all.push_back({"alignment", last_meets_last ? "bottom-right: the last query meets the last key in use (as many "
                                                      "more keys come before the first query as there are more keys)"
                                                    : "top-left: query i sees no key after i"});
    else if (d.queries > 0)
        all.push_back(
            {"window",
             fmt::format("a query sees keys down to {} before {}, inclusive: {} + 1 keys with that position{}", limit,
                         from, limit, unless)});
    else
        all.push_back({"window", fmt::format("a query sees keys up to {} after {}, inclusive{}", limit, from, unless)});
}

bool uses(const graph_ir& graph, operation op) {
    return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const instruction& node) { return node.op == op; });
}

std::vector<choice> choices_of_gradient_of_recurrence() {
    return {
        {"order",
         "all tokens forwards and all of them backwards; the state before each chunk of 16 tokens and the cotangent "
         "behind it are kept"},
        {"chunks",
         "each makes its states and their cotangents again, token by token, and from them the cotangents of what "
         "its tokens read and write"},
        {"memory",
         "a thread keeps 2 x depth x value depth numbers for each chunk of the tokens, of one state at a time"},
        {"decays", "no decay is divided by; a log decay of -infinity is a decay of 0"}};
}

std::vector<choice> choices_of_recurrence(const graph_ir& graph) {
    if (is_gradient_of_recurrence(graph.nodes)) return choices_of_gradient_of_recurrence();
    const recurrence_arguments of = form_of_recurrence(graph.nodes);
    std::vector<choice> all{
        {"order", "a token reads the state that the token before it left; there is no mask"},
        {"chunks",
         "tokens go through a state 16 at a time, in calls of few tokens 4 or one at a time: a chunk is products "
         "of matrices"}};
    if (of.has_second_pair() || !is_constant(graph.nodes[of.erase], 0))
        all.push_back({"solve",
                       "what the tokens of a chunk write depends on each other: a triangular system, solved by "
                       "forward substitution"});
    all.push_back({"decays",
                   "no decay is divided by; a log decay of -infinity is a decay of 0, which forgets a state "
                   "that is finite"});
    all.push_back({"states", "f32; one in and one out may be the same memory; an empty sequence keeps its state"});
    return all;
}

}  // namespace

std::vector<choice> choices_of(const graph_ir& graph) {
    if (has_recurrences(graph.nodes)) return choices_of_recurrence(graph);
    std::vector<choice> all, distances;
    bool masks = uses(graph, operation::mask), sink = false;
    for (const instruction& node : graph.nodes) {
        if (node.op == operation::less || node.op == operation::less_equal || node.op == operation::greater ||
            node.op == operation::greater_equal)
            add_comparison(graph, node, distances);
        if (node.op == operation::constant && node.kind == kind::real && node.number == -HUGE_VAL) masks = true;
        if (node.op == operation::softmax && node.argument_count == 2) {
            all.push_back({"sink", text_of(graph, node.arguments[1]) +
                                       " joins the denominator only, as a further key whose value is 0"});
            sink = true;
        }
        if (node.op == operation::log_sum_exp && node.argument_count == 2) sink = true;
    }
    for (const choice& each : distances)  // the same may be said in several places
        if (std::none_of(all.begin(), all.end(), [&](const choice& c) { return c.says == each.says; }))
            all.push_back(each);
    if (uses(graph, operation::mask))
        all.push_back({"order",
                       "modifications of the scores, then the mask, then what makes them weights; a masked pair weighs "
                       "exactly 0"});
    if (uses(graph, operation::unnormalized))
        all.push_back({"weights", "the scores themselves, not normalised; 0 where masked"});
    if (uses(graph, operation::softmax) || uses(graph, operation::log_sum_exp))
        all.push_back({"empty rows", !uses(graph, operation::log_sum_exp) ? "a row without a visible key is 0"
                                     : sink ? "a row without a visible key is 0, its log-sum-exp the sink"
                                            : "a row without a visible key is 0, its log-sum-exp -infinity"});
    if (uses(graph, operation::log_sum_exp))
        all.push_back(
            {"log-sum-exp", "natural logarithm, of the scores as softmax sees them: scaled, modified, masked"});
    if (masks || std::any_of(graph.inputs.begin(), graph.inputs.end(),
                             [](const input_declaration& i) { return !i.is_scalar && i.element == element_type::f32; }))
        all.push_back({"infinities",
                       "-infinity, in where(...) or in a float input, means masked; every finite value is a score"});
    const auto has_axis = [&](axis_kind axis) {
        return std::any_of(graph.inputs.begin(), graph.inputs.end(), [&](const input_declaration& i) {
            return std::any_of(i.axes.begin(), i.axes.begin() + i.rank,
                               [&](const axis_declaration& a) { return a.kind == axis; });
        });
    };
    if (has_axis(axis_kind::key_head)) all.push_back({"heads", "query head h reads key head h / (heads / key_heads)"});
    std::string stored;
    each_stored(graph, [&](std::size_t input) {
        stored += (stored.empty() ? "" : " and ") + std::string(graph.inputs[input].name);
    });
    if (!stored.empty())
        all.push_back({"stores", "what is stored to " + stored + " is written before anything else is computed"});
    all.push_back(
        {"key lengths", "kv_lengths(b), where it is passed, ends the keys of batch element b: nothing beyond is read"});
    all.push_back({"broadcasting",
                   "an input's axis of extent 1 repeats; indices are checked at the call, but those of both positions, "
                   "which are clamped"});
    return all;
}

std::string alignment_to_look_at(const graph_ir& graph, std::span<const std::string> shapes) {
    const bool over_a_cache = !graph.stores.empty() || std::ranges::all_of(shapes, [](const std::string& each) {
        return each.starts_with("decode");
    });
    const auto is_top_left = [](const choice& c) { return c.about == "alignment" && c.says.starts_with("top-left"); };
    return over_a_cache && std::ranges::any_of(choices_of(graph), is_top_left)
               ? "causal counts from the first key, and the queries of a cache are the last; try causal_bottom_right"
               : "";
}

}  // namespace attune::generators::inline inspect
