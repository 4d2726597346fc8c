#include "call/run/notices.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace attune::detail {

namespace {
constexpr std::string_view top_left = "alignment: top-left";
}

/// By the first sentence about it, and that by its first letter: each call with fewer queries than keys asks this.
bool is_top_left(const kernel_table& table) {
    for (const char* const said : table.notes.conventions)
        if (*said == 'a') return std::strncmp(said, top_left.data(), top_left.size()) == 0;
    return false;
}

std::string what_causal_counts(std::int64_t queries) {
    return say("causal counts both from the first, so no query sees a key after ", queries - 1,
               "; if the queries are the last ones, as over a cache, write causal_bottom_right");
}

namespace {

bool may_have_few_queries(const kernel_table& table, const bound_call& call) {
    const std::int64_t queries = call.shape()[axis_kind::query];
    return queries > 0 && queries < call.shape()[axis_kind::key] && is_top_left(table);
}

bool has_few_queries(const bound_call& call) {
    return call.shape()[axis_kind::query] < call.longest_keys() && !call.nothing_to_do();
}

void notice(const kernel_table& table, const bound_call& call) {
    if (was_noticed.exchange(true)) return;
    const char* const asked = std::getenv("ATTUNE_NOTICES");
    if (asked && std::string_view(asked) == "0") return;
    const std::int64_t queries = call.shape()[axis_kind::query];
    const std::string line =
        say("attune: a call of ", table.variant, " has fewer queries than keys (", queries, " and ",
            call.longest_keys(), "): ", what_causal_counts(queries), " (said once; ATTUNE_NOTICES=0 keeps it back)\n");
    std::fputs(line.c_str(), stderr);
}

}  // namespace

void note_few_queries(const kernel_table& table, const bound_call& call) {
    if (was_noticed.load(std::memory_order_relaxed)) return;
    if (may_have_few_queries(table, call) && has_few_queries(call)) notice(table, call);
}

void note_few_queries(const kernel_table& table, const packed_call& call) {
    if (was_noticed.load(std::memory_order_relaxed) || call.parts().empty()) return;
    const auto queries = [](const packed_call::part& each) { return each.call->shape()[axis_kind::query]; };
    const auto most = std::ranges::max_element(call.parts(), {}, queries);
    for (const packed_call::part& each : call.parts()) {
        const bound_call& of = *each.call;
        if (!may_have_few_queries(table, of)) continue;
        const bool by_length = of.given().kv_lengths != nullptr;
        if (has_few_queries(of) && (by_length || queries(*most) < of.longest_keys())) return notice(table, of);
    }
}

}  // namespace attune::detail
