#include "inspect/plan_text.hpp"

#include "base/about.hpp"
#include "base/formatting.hpp"
#include "inspect/kernel_name.hpp"
#include "inspect/node_text.hpp"
#include "plans/kernel_plan.hpp"

#include <attune/ir/recurrence.hpp>

#include <nlohmann/json.hpp>

#include <type_traits>

namespace attune::generators::inline inspect {
namespace {

using json = nlohmann::ordered_json;

std::string_view name_of(score_plan::lanes along) {
    switch (along) {
        case score_plan::lanes::queries: return "queries";
        case score_plan::lanes::keys: return "keys";
        case score_plan::lanes::channels: return "channels";
        case score_plan::lanes::fragments: return "fragments";
    }
    return {};
}

std::string_view name_of(owner of) {
    switch (of) {
        case owner::query: return "query";
        case owner::key: return "key";
        case owner::task: return "task";
    }
    return {};
}

std::string_view name_of(value_check check) {
    switch (check) {
        case value_check::none: return "none";
        case value_check::behind_last_key: return "those behind the last key";
        case value_check::masked_subblocks: return "those of masked sub-blocks";
        case value_check::each_pair: return "those of each pair";
        case value_check::sums: return "sums, of which a task is made again";
    }
    return {};
}

std::string_view name_of(maker by) {
    switch (by) {
        case maker::rows: return "rows";
        case maker::pairs: return "pairs";
        case maker::head_means: return "head means";
        case maker::columns: return "columns";
        case maker::tokens: return "tokens";
        case maker::precomputed: return "precomputed";
        case maker::sweep: return "sweep";
        case maker::chunk: return "chunk";
        case maker::state: return "state";
    }
    return {};
}

std::string_view name_of(pair_shape shape) {
    switch (shape) {
        case pair_shape::pairs: return "pairs";
        case pair_shape::head_means: return "head means";
        case pair_shape::columns: return "columns";
    }
    return {};
}

std::string_view name_of(masking hides) {
    switch (hides) {
        case masking::none: return "nothing";
        case masking::some: return "some pairs";
        case masking::window: return "all pairs but a window";
    }
    return {};
}

/// How products are made, with the numbers of that way.
std::string words_of(const multiplication& how) {
    return std::visit(
        []<class How>(const How& is) -> std::string {
            if constexpr (std::is_same_v<How, f32_products>)
                return is.of_codes ? "f32, of codes" : "f32";
            else if constexpr (std::is_same_v<How, bf16_pairs>)
                return "pairs of bf16";
            else if constexpr (std::is_same_v<How, bf16_tiles>)
                return fmt::format("tiles of {} x {} bf16", is.rows, is.elements);
            else if constexpr (std::is_same_v<How, warp_fragments>)
                return fmt::format("fragments of {}, {} x {} products of {}{}",
                                   is.of == element_type::f32 ? "tf32" : attune::name_of(is.of),
                                   is.of_warpgroup ? "64 x n" : "16 x 8", is.step(),
                                   is.of_warpgroup ? "a warpgroup" : "a warp",
                                   is.products == 1 ? "" : fmt::format(", {} for one of f32", is.products));
            else
                return (is.of_tiles
                            ? fmt::format("tiles of {} x {} bytes", rows_of_tile, bytes_of_tile)
                            : fmt::format("{} {} at a time", is.at_a_time, is.at_a_time == 4 ? "bytes" : "words")) +
                       (is.digits == 0 ? "" : fmt::format(", weights of {} digits", is.digits));
        },
        how);
}

/// A part of a formula, shortened if it is long.
std::string short_text(const graph_ir& graph, int node) {
    constexpr std::size_t most = 48;
    std::string text = text_of(graph, node);
    for (char& c : text)
        if (c == '\n') c = ' ';
    return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

json texts_of(const graph_ir& graph, const std::vector<int>& nodes) {
    json all = json::array();
    for (const int node : nodes) all.push_back(short_text(graph, node));
    return all;
}

json texts_of(const graph_ir& graph, const std::vector<precomputed_plan>& tensors) {
    json all = json::array();
    for (const precomputed_plan& each : tensors)
        all.push_back(short_text(graph, each.node) + (each.in_bytes ? ", in bytes" : ""));
    return all;
}

json json_of(const block_grid& grid) {
    return {{"queries", grid.queries},
            {"keys", grid.keys},
            {"subblocks", grid.subblocks},
            {"keys_of_subblock", grid.keys_of_subblock()},
            {"hides", name_of(grid.hides)}};
}

json json_of(const score_plan& scores, const graph_ir& graph) {
    json kept = json::array();
    for (const kept_node& each : scores.kept)
        kept.push_back({{"of", name_of(each.of)}, {"number", short_text(graph, each.node)}});
    for (const formed_rows& rows : scores.formed) {
        for (const kept_node& each : rows.kept)
            kept.push_back({{"of", name_of(each.of)}, {"number", short_text(graph, each.node)}});
        for (const int load : rows.placed)
            kept.push_back({{"of", name_of(owner::key)}, {"number", "the place of " + short_text(graph, load)}});
    }
    json object{{"in_lanes", name_of(scores.along)},
                {"products", words_of(scores.how)},
                {"queries", scores.queries},
                {"keys", scores.keys},
                {"written_out", scores.unroll},
                {"further_products", texts_of(graph, scores.further)},
                {"kept", kept},
                {"transposed", texts_of(graph, scores.turned)}};
    if (scores.keys_of_one_row > 0) object["keys_of_one_row"] = scores.keys_of_one_row;
    return object;
}

json json_of(const key_pass& pass, const graph_ir& graph) {
    json object{{"softmax", pass.core + 1}, {"scores", json_of(pass.scores, graph)}};
    if (const auto& values = pass.values)
        object["values"] = {{"products", words_of(values->how)},
                            {"channels", values->channels},
                            {"keys", values->keys},
                            {"in_lanes", values->vector},
                            {"chunk", values->chunk},
                            {"of_whole_block", values->of_whole_block},
                            {"looked_at", name_of(values->check)}};
    if (pass.values && pass.values->keys_of_one_row > 0)
        object["values"]["keys_of_one_row"] = pass.values->keys_of_one_row;
    object["row"] = {{"accumulators", pass.row.accumulators},
                     {"maximum", pass.row.maximum},
                     {"sum", pass.row.sum},
                     {"other_sums", texts_of(graph, pass.row.others)}};
    return object;
}

template <class Body> json json_of_body(const Body& body, const graph_ir& graph) {
    json object{{"grid", json_of(body.grid)}};
    if constexpr (std::is_same_v<Body, chunk_plan>) {
        object["chunk"] = {{"tokens", body.tokens},           {"rows", body.rows},
                           {"vectors", body.vectors},         {"solves", body.solves},
                           {"by_channels", body.by_channels}, {"backwards", is_gradient_of_recurrence(graph.nodes)}};
    } else if constexpr (std::is_same_v<Body, sweep_plan>) {
        object["sweep"] = {{"products", words_of(body.how)},
                           {"queries", body.queries},
                           {"keys", body.keys},
                           {"sum_rows", body.sum_rows},
                           {"sum_channels", body.sum_channels},
                           {"tiles", texts_of(graph, body.tiles)},
                           {"sums", body.sums},
                           {"flat_sums", body.flat_sums},
                           {"width", body.width},
                           {"copied", body.copied},
                           {"placed", body.placed},
                           {"multiplied", body.multiplied},
                           {"by_pair", body.by_pair}};
    } else if constexpr (std::is_same_v<Body, side_passes_plan>) {
        object["sides"] = json::array();
        for (const side_plan& side : body.sides)
            object["sides"].push_back(fmt::format(
                "{} of {}{}; {} threads of {} channels", side.sums.size(), side.of_queries ? "queries" : "keys",
                side.adds_heads ? ", of all heads of a group" : "", side.across, side.channels));
        object["tile"] = fmt::format("f32, {} queries x {} keys in registers", body.queries, body.keys);
        object["terms"] = fmt::format("{} copied, {} placed, {} pair by pair", body.copied, body.placed, body.by_pair);
    } else {
        object["softmaxes"] = json::array();
        for (const key_pass& each : body.cores) object["softmaxes"].push_back(json_of(each, graph));
        if constexpr (requires { body.again; })
            if (body.again) object["again"] = json::parse(to_json(*body.again));
        if constexpr (std::is_same_v<Body, decode_plan>) {
            object["splits"] = body.splits;
            object["tasks"] = body.tasks;
        }
    }
    return object;
}

json json_of(const kernel_bytes& bytes) {
    json buffers = json::object();
    for (const buffer& each : bytes.buffers) buffers[std::string(each.what)] = each.bytes;
    return {{"of_thread", bytes.of_thread},
            {"buffers", buffers},
            {"of_row", bytes.of_row},
            {"of_row_of_split", bytes.of_split_row},
            {"of_query", bytes.sums.of_query},
            {"of_key", bytes.sums.of_key},
            {"of_key_of_key_head", bytes.sums.of_key_head}};
}

json json_of(const listed_kernel& kernel) {
    const kernel_request& request = kernel.request;
    const kernel_plan plan = about(kernel.of->name, [&] { return plan_kernel(request); });
    const graph_ir& graph = request.graph();
    json object = named_object(kernel);
    object.update(std::visit([&](const auto& body) { return json_of_body(body, graph); }, plan.body));
    json pairs = json::array(), outputs = json::array(), passes = json::array();
    for (const pair_outputs& each : plan.pairs)
        pairs.push_back({{"shape", name_of(each.shape)}, {"scores", json_of(each.scores, graph)}});
    for (std::size_t i = 0; i < plan.outputs.size(); ++i)
        outputs.push_back(
            {{"name", graph.outputs[i].name}, {"by", name_of(plan.outputs[i].by)}, {"place", plan.outputs[i].place}});
    for (const pass_plan& each : plan.passes)
        passes.push_back({{"name", each.name}, {"on", each.on}, {"assumes", each.assumes}});
    object["pairs"] = pairs;
    object["computed_before"] = texts_of(graph, plan.before);
    object["computed_after"] = texts_of(graph, plan.after);
    object["precomputed"] = texts_of(graph, plan.precomputed);
    object["outputs"] = outputs;
    object["saved"] = plan.saved;
    object["passes"] = passes;
    object["bytes"] = json_of(plan.bytes);
    return object;
}

std::string string_of(const json& value) { return value.get<std::string>(); }

std::string joined(const json& list, std::string_view by) {
    std::string text;
    for (const auto& item : list) text += (text.empty() ? "" : std::string(by)) + string_of(item);
    return text;
}

std::string line(std::string_view label, std::string_view text) { return fmt::format("  {:<12}{}\n", label, text); }

std::string text_of_grid(const json& grid) {
    std::string text = fmt::format("{} queries x {} keys", grid["queries"].get<int>(), grid["keys"].get<int>());
    if (grid["subblocks"].get<int>() > 1)
        text += fmt::format(", {} sub-blocks of {} keys", grid["subblocks"].get<int>(),
                            grid["keys_of_subblock"].get<int>());
    return text + fmt::format("; the mask hides {}", string_of(grid["hides"]));
}

std::string of_one_row(const json& tile) {
    return tile.contains("keys_of_one_row") ? fmt::format(" (of one row {})", tile["keys_of_one_row"].get<int>()) : "";
}

std::string text_of_scores(std::string_view label, const json& scores, std::string_view of_queries = "queries") {
    std::string text =
        line(label,
             fmt::format("{} in lanes, {}, {} {} x {} keys{} in registers, {} channels written out",
                         string_of(scores["in_lanes"]), string_of(scores["products"]), scores["queries"].get<int>(),
                         of_queries, scores["keys"].get<int>(), of_one_row(scores), scores["written_out"].get<int>()));
    for (const auto& kept : scores["kept"])
        text += line("", fmt::format("kept of a {}: {}", string_of(kept["of"]), string_of(kept["number"])));
    if (!scores["further_products"].empty())
        text += line("", "further products: " + joined(scores["further_products"], "; "));
    if (!scores["transposed"].empty()) text += line("", "transposed: " + joined(scores["transposed"], "; "));
    return text;
}

/// In decode queries are stacked, as rows.
std::string text_of_softmax(const json& softmax, bool in_decode) {
    std::string text = text_of_scores("scores", softmax["scores"], in_decode ? "rows" : "queries");
    if (softmax.contains("values")) {
        const json& values = softmax["values"];
        const int lanes = values["in_lanes"].get<int>();
        text += line("values", fmt::format("{}{}, {} channels x {} keys{}{}, {} share a maximum; looked at: {}",
                                           lanes > 1 ? fmt::format("{} channels in lanes, ", lanes) : "",
                                           string_of(values["products"]), values["channels"].get<int>(),
                                           values["keys"].get<int>(), of_one_row(values),
                                           values["of_whole_block"].get<bool>() ? "" : " at a time from the cache",
                                           values["chunk"].get<int>(), string_of(values["looked_at"])));
    }
    const json& row = softmax["row"];
    std::string numbers = fmt::format("{} accumulators a chunk", row["accumulators"].get<int>());
    if (row["maximum"].get<bool>()) numbers += ", maximum";
    if (row["sum"].get<bool>()) numbers += ", sum";
    for (const auto& other : row["other_sums"]) numbers += ", sum of " + string_of(other);
    return text + line("row", numbers);
}

std::string text_of_sweep(const json& sweep) {
    return line("pairs", fmt::format("{}, {} queries x {} keys in registers", string_of(sweep["products"]),
                                     sweep["queries"].get<int>(), sweep["keys"].get<int>())) +
           line("sums", fmt::format("{} of {} channels, {} of one number; {} rows x {} channels in registers",
                                    sweep["sums"].get<int>() - sweep["flat_sums"].get<int>(), sweep["width"].get<int>(),
                                    sweep["flat_sums"].get<int>(), sweep["sum_rows"].get<int>(),
                                    sweep["sum_channels"].get<int>())) +
           line("terms",
                fmt::format("{} copied, {} placed, {} multiplied, {} pair by pair", sweep["copied"].get<int>(),
                            sweep["placed"].get<int>(), sweep["multiplied"].get<int>(), sweep["by_pair"].get<int>()));
}

std::string text_of_sides(const json& plan) {
    std::string text = line("pairs", string_of(plan["tile"]));
    for (const auto& side : plan["sides"]) text += line("sums", string_of(side));
    return text + line("terms", string_of(plan["terms"]));
}

std::string text_of_chunk(const json& chunk) {
    if (chunk["backwards"].get<bool>())
        return line("chunk",
                    fmt::format("{} tokens, one after the other, forwards and backwards; decays of {}",
                                chunk["tokens"].get<int>(), chunk["by_channels"].get<bool>() ? "channels" : "tokens"));
    return line("chunk", fmt::format("{} tokens, {} rows x {} vectors in registers, decays of {}{}",
                                     chunk["tokens"].get<int>(), chunk["rows"].get<int>(), chunk["vectors"].get<int>(),
                                     chunk["by_channels"].get<bool>() ? "channels" : "tokens",
                                     chunk["solves"].get<bool>() ? "; a triangular solve" : ""));
}

std::string text_of_bytes(const json& bytes) {
    std::string text = fmt::format("{} of a thread", bytes["of_thread"].get<std::size_t>());
    for (const auto& [key, what] : {std::pair("of_row", "of a row"),
                                    {"of_row_of_split", "of a row of a split"},
                                    {"of_query", "of a query"},
                                    {"of_key", "of a key of a head"},
                                    {"of_key_of_key_head", "of a key of a key head"}})
        if (const auto number = bytes[key].get<std::size_t>(); number > 0) text += fmt::format(", {} {}", number, what);
    std::string buffers;
    for (const auto& [what, number] : bytes["buffers"].items())
        buffers += fmt::format("{}{} {}", buffers.empty() ? "" : ", ", number.get<std::size_t>(), what);
    return line("bytes", text) + (buffers.empty() ? "" : line("", "a thread: " + buffers));
}

std::string text_of_plan(const json& plan) {
    std::string text = line("grid", text_of_grid(plan["grid"]));
    if (plan.contains("splits"))
        text += line("splits", fmt::format("{} at most; tasks {}", plan["splits"].get<int>(), plan["tasks"].dump()));
    if (plan.contains("softmaxes"))
        for (const auto& each : plan["softmaxes"]) text += text_of_softmax(each, plan.contains("splits"));
    if (plan.contains("again"))
        text +=
            line("again", fmt::format("{} queries x {} keys, f32, where sums are not finite",
                                      plan["again"]["query_block"].get<int>(), plan["again"]["key_block"].get<int>()));
    if (plan.contains("sweep")) text += text_of_sweep(plan["sweep"]);
    if (plan.contains("sides")) text += text_of_sides(plan);
    if (plan.contains("chunk")) text += text_of_chunk(plan["chunk"]);
    for (const auto& each : plan["pairs"]) text += text_of_scores(string_of(each["shape"]), each["scores"]);
    for (const auto& [key, label] :
         {std::pair("precomputed", "first"), {"computed_before", "before"}, {"computed_after", "after"}})
        if (!plan[key].empty()) text += line(label, joined(plan[key], "; "));
    std::string outputs;
    for (const auto& each : plan["outputs"])
        outputs += fmt::format("{}{} {} by {}", outputs.empty() ? "" : ", ", each["place"].get<int>(),
                               string_of(each["name"]), string_of(each["by"]));
    if (!plan["saved"].empty()) outputs += "; saved " + plan["saved"].dump();
    text += line("outputs", outputs);
    std::string_view label = "passes";
    for (const auto& each : plan["passes"]) {
        const std::string on = string_of(each["on"]);
        text += line(label, fmt::format("{}{}: {}", string_of(each["name"]), on.empty() ? "" : "(" + on + ")",
                                        string_of(each["assumes"])));
        label = "";
    }
    return text + text_of_bytes(plan["bytes"]);
}

}  // namespace

std::string plan_text(const listed_kernel& kernel) { return heading_of(kernel) + text_of_plan(json_of(kernel)); }

std::string plans_json(std::span<const listed_kernel> kernels) {
    json all = json::array();
    for (const listed_kernel& each : kernels) all.push_back(json_of(each));
    return all.dump(1) + "\n";
}

}  // namespace attune::generators::inline inspect
