#include "base/text.hpp"

#include <attune/runtime/explain.hpp>

#include <algorithm>
#include <limits>

namespace attune {
namespace {

std::string percent(std::int64_t part, std::int64_t all) {
    return all == 0 ? ""
                    : detail::say(" (", detail::in_short(100.0 * static_cast<double>(part) / static_cast<double>(all)),
                                  " %)");
}

}  // namespace

std::int64_t block_map::visited() const {
    return std::count_if(blocks.begin(), blocks.end(), [](std::uint8_t b) { return b != 0; });
}
std::int64_t block_map::unmasked() const { return std::count(blocks.begin(), blocks.end(), std::uint8_t{2}); }

std::int64_t block_map::pairs_visited(std::int64_t query_length, std::int64_t key_length) const {
    std::int64_t pairs = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        if (blocks[i] == 0) continue;
        const auto key = static_cast<std::int64_t>(i % static_cast<std::size_t>(key_blocks));
        const auto query = static_cast<std::int64_t>(i / static_cast<std::size_t>(key_blocks) %
                                                     static_cast<std::size_t>(query_blocks));
        pairs += std::min<std::int64_t>(query_block, query_length - query * query_block) *
                 std::min<std::int64_t>(key_block, key_length - key * key_block);
    }
    return pairs;
}

std::string explanation::text() const {
    using namespace detail;
    std::string all = say("variant   ", variant, "\n", formula);
    if (!all.ends_with('\n')) all += '\n';
    all += say("kernel    ", kernel, "\n", "target    ", target, ": ", why, "\n", "shapes    ", shapes, "\n");
    all += say("shape     batch ", batches, ", heads ", heads, " over ", key_heads, " key heads, ", query_length,
               " queries, ", key_length, " keys, depth ", depth, "x", value_depth, ", ",
               detail::types_of(query, key, value, output), "\n");
    if (calls > 1)
        all += say("calls     ", calls,
                   " on some batch elements or heads each, as tensors reach beyond 2^31 - 1 elements; shape, work and "
                   "memory are those of the first\n");
    std::string_view title = "packed    ";
    for (const packed_part& p : packed) {
        if (p.sequences == 0) {
            all += say(title, "no sequences\n");
            continue;
        }
        all += say(title, "sequences ", p.first, " to ", p.first + p.sequences - 1, ", queries each ", p.queries, ": ",
                   p.kernel, "\n");
        title = "          ";
    }
    title = "inputs    ";
    for (const auto* const list : {&inputs, &outputs}) {
        for (const argument& a : *list) {
            std::string axes;
            for (std::size_t i = 0; i < a.axes.size(); ++i) axes += say(i ? ", " : " (", a.axes[i], " ", a.shape[i]);
            all += say(title, a.name, ": ", name_of(a.element), " ", a.stands_for, axes, axes.empty() ? "\n" : ")\n");
            title = "          ";
        }
        title = "outputs   ";
    }
    all += say("blocks    ", blocks_visited, " of ", blocks, percent(blocks_visited, blocks), " visited, ",
               blocks_unmasked, " of them without a mask; ", query_block, " queries x ", key_block, " keys each\n");
    for (const condition& c : conditions) all += say("          ", c.text, ": ", c.skips, "\n");
    all += say("work      at most ", in_short(flops), " useful FLOPs; reads ",
               in_bytes(static_cast<std::uint64_t>(input_bytes)), ", writes ",
               in_bytes(static_cast<std::uint64_t>(output_bytes)), "\n");
    all += say("memory    at most ", in_bytes(scratch_bytes), " of scratch a thread, ", in_bytes(saved_bytes),
               " kept from one pass to the next, ", in_bytes(table_bytes), " of tables of conditions");
    if (tensor_bytes > 0)
        all += say(", ", in_bytes(tensor_bytes), " of tensors computed in full, ", in_bytes(packed_bytes),
                   " of packed weights");
    all += say("; ", in_bytes(workspace_bytes), " in all; ", in_bytes(stack_bytes), " of the caller's stack\n");
    if (key_splits)
        all +=
            say("splits    ", key_splits, " of the keys of each key head, ", in_bytes(split_bytes), " to be merged\n");
    if (sum_bytes > 0) all += say("sums      ", in_bytes(sum_bytes), " of all parts of the queries, to be added up\n");
    const bool invariant = deterministic || key_splits == 0;
    all += say("threads   ", threads,
               invariant
                   ? "; no bit of the result depends on their number or on the batch"
                   : "; no bit of the result depends on their number; on the batch, by the splits of the keys, it does",
               deterministic ? ", as was asked for" : "", "\n");
    title = "meaning   ";
    for (const std::string& sentence : semantics) all += say(title, sentence, "\n"), title = "          ";
    return all + say("schedule  ", schedule, "\n");
}

std::string explanation::json() const {
    using detail::quoted;
    const auto argument_json = [](const argument& a) {
        detail::json_object j;
        j.add("name", a.name), j.add("is", a.stands_for), j.add("element", name_of(a.element));
        j.add_list("axes", a.axes, [](const std::string& axis) { return quoted(axis); });
        j.add_list("shape", a.shape, [](std::int64_t extent) { return std::to_string(extent); });
        return j.text();
    };
    detail::json_object j;
    j.add("variant", variant), j.add("formula", formula), j.add("kernel", kernel), j.add("target", target),
        j.add("why", why), j.add("shapes", shapes);
    j.add("batches", batches), j.add("heads", heads), j.add("key_heads", key_heads),
        j.add("query_length", query_length), j.add("key_length", key_length);
    j.add("depth", depth), j.add("value_depth", value_depth);
    j.add("element_types", detail::types_of(query, key, value, output));
    j.add("calls", calls);
    j.add_list("packed", packed, [](const packed_part& p) {
        detail::json_object j;
        j.add("first", p.first), j.add("sequences", p.sequences), j.add("queries", p.queries),
            j.add("kernel", p.kernel);
        return j.text();
    });
    j.add_list("inputs", inputs, argument_json), j.add_list("outputs", outputs, argument_json);
    j.add("query_block", query_block), j.add("key_block", key_block);
    j.add("blocks", blocks), j.add("blocks_visited", blocks_visited), j.add("blocks_unmasked", blocks_unmasked);
    j.add_list("conditions", conditions, [](const condition& c) {
        detail::json_object j;
        j.add("text", c.text), j.add("skips", c.skips);
        return j.text();
    });
    j.add_list("semantics", semantics, [](const std::string& sentence) { return quoted(sentence); });
    j.add("flops", flops), j.add("input_bytes", input_bytes), j.add("output_bytes", output_bytes);
    j.add("scratch_bytes", scratch_bytes), j.add("saved_bytes", saved_bytes), j.add("key_splits", key_splits),
        j.add("split_bytes", split_bytes), j.add("sum_bytes", sum_bytes);
    j.add("table_bytes", table_bytes), j.add("tensor_bytes", tensor_bytes), j.add("packed_bytes", packed_bytes),
        j.add("workspace_bytes", workspace_bytes), j.add("stack_bytes", stack_bytes);
    j.add("threads", threads), j.add("deterministic", deterministic);
    j.add_raw("schedule", schedule.empty() ? "null" : schedule);
    return j.text();
}

namespace {
std::string queries_of(const kernel_list::entry& e) {
    if (e.to_queries == std::numeric_limits<int>::max())
        return e.from_queries <= 1 ? "" : detail::say(" from ", e.from_queries, " queries");
    return detail::say(" ", e.from_queries, "..", e.to_queries, " queries");
}
}  // namespace

std::string kernel_list::text() const {
    std::string result = detail::say("kernels of ", variant, "\n");
    for (const entry& e : entries)
        result +=
            detail::say(e.chosen ? "  * " : "    ", e.target, "  ", detail::types_of(e.query, e.key, e.value, e.output),
                        "  ", e.depth, "x", e.value_depth, "  ", e.shapes, queries_of(e),
                        e.cpus.empty() ? std::string() : detail::say(", measured on ", e.cpus), "  ",
                        !e.missing.empty() ? detail::say("does not run here: lacks ", e.missing)
                        : e.chosen         ? detail::say("chosen: ", e.why)
                                           : "runs here",
                        "\n");
    return result;
}

std::string kernel_list::json() const {
    detail::json_object j;
    j.add("variant", variant);
    j.add_list("kernels", entries, [](const entry& e) {
        detail::json_object j;
        j.add("symbol", e.symbol), j.add("target", e.target),
            j.add("element_types", detail::types_of(e.query, e.key, e.value, e.output));
        j.add("depth", e.depth), j.add("value_depth", e.value_depth), j.add("shapes", e.shapes),
            j.add("from_queries", e.from_queries);
        j.add("cpus", e.cpus);
        j.add("to_queries", e.to_queries), j.add("runs", e.missing.empty());
        j.add("missing", e.missing), j.add("chosen", e.chosen), j.add("why", e.why);
        return j.text();
    });
    return j.text();
}

}  // namespace attune
