#include "drawing.hpp"

#include "../../properties/random_graph.hpp"
#include "../../shards/cut_call.hpp"

#include <attune/ir/recurrence.hpp>
#include <attune/runtime/cpu.hpp>
#include "analysis/plan.hpp"
#include "call/run/packed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <sstream>
#include <stdexcept>

namespace fuzz {
namespace {

using attune::element_type, attune::testing::drawn_graph;
using attune::generators::cpu_decode, attune::generators::cpu_gradient, attune::generators::cpu_prefill,
    attune::generators::schedule;

constexpr std::array all_types{"f32",
                               "f32",
                               "f32",
                               "f32",
                               "bf16",
                               "f16",
                               "bf16",
                               "f16",
                               "q:f32,k:bf16,v:bf16",
                               "q:f32,k:f16,v:f16",
                               "q:bf16,k:bf16,v:bf16,out:f32",
                               "q:bf16,k:f16,v:f32,out:f16"};

cpu_prefill drawn_prefill(dice& draw, int lanes, int depth) {
    cpu_prefill s{};
    s.lanes = lanes;
    s.query_tile = lanes * draw.spread(1, 4);
    s.query_block = s.query_tile * draw.spread(1, 4);
    s.key_tile = draw.spread(1, 12);
    s.key_block = s.key_tile * draw.spread(1, 24);
    s.value_tile = draw.spread(1, 8);
    s.chunk = s.value_tile * draw.spread(1, 4);
    s.depth_unroll = std::gcd(depth, draw.from(1, 8));
    return s;
}

cpu_decode drawn_decode(dice& draw, int lanes) {
    cpu_decode s{};
    s.lanes = lanes;
    s.query_block = draw.spread(1, 32);
    s.query_tile = draw.spread(1, 8);
    s.key_tile = std::gcd(lanes, 1 << draw.from(0, 4));
    s.value_tile = draw.spread(1, 8);
    s.key_block = std::lcm(lanes, s.value_tile) * draw.spread(1, 4);
    s.depth_unroll = draw.spread(1, 8);
    s.key_splits = draw.spread(1, 32);
    return s;
}

cpu_gradient drawn_gradient(dice& draw, int lanes, const attune::generators::depth_pair& depths) {
    cpu_gradient s{};
    s.lanes = lanes;
    s.query_tile = lanes * draw.spread(1, 4);
    s.key_tile = draw.spread(1, 8);
    s.block = std::lcm(s.query_tile, s.key_tile) * draw.spread(1, 4);
    s.depth_unroll = std::gcd(depths.depth, draw.from(1, 8));
    s.sum_channels = lanes * std::gcd(width_of_sums(lanes, depths) / lanes, draw.from(1, 8));
    s.sum_rows = std::gcd(s.block, draw.from(1, 16));
    return s;
}

/// Within all limits, and so small that it compiles in seconds.
schedule drawn_schedule(dice& draw, const formula_case& it) {
    constexpr std::array all_lanes{4, 8, 16};
    const drawn_graph compiled = it.compiled();
    const attune::generators::variant variant{"fuzzed", compiled.view()};
    const auto facts = attune::generators::facts_of(compiled.view());
    const bool decodes = facts->decode_unsupported_reason.empty();
    const bool few = decodes && draw.one_in(3);
    const attune::generators::level& isa = attune::generators::level_named(it.level);
    const auto is_small = [](int vectors, const auto& s) {
        return vectors * s.key_tile * s.depth_unroll <= 96 && vectors * s.value_tile <= 32 && s.key_block <= 512;
    };
    for (int tries = 0; tries < 1000; ++tries) {
        const int lanes = draw.one_in(3) ? draw.any(all_lanes) : isa.lanes;
        if (facts->gradient) {
            const cpu_gradient s = drawn_gradient(draw, lanes, {it.depth, it.value_depth});
            const bool small = s.query_tile / lanes * s.key_tile * s.depth_unroll <= 96 &&
                               s.sum_rows * s.sum_channels / lanes <= 32 && s.block <= 256;
            if (!small) continue;
            check(s, {it.depth, it.value_depth});
            return s;
        }
        if (few) {
            const cpu_decode s = drawn_decode(draw, lanes);
            if (!is_small(s.query_tile, s)) continue;
            check(s, {it.depth, it.value_depth});
            return s;
        }
        cpu_prefill s = drawn_prefill(draw, lanes, it.depth);
        if (!is_small(s.query_tile / lanes, s)) continue;
        if (draw.one_in(2)) {
            formula_case paired = it;
            paired.cut = s;
            if (s.key_block % 2 == 0 && widest_pairing(paired.kernel(variant).request) > 1) s.pairing = 2;
        }
        check(s, {it.depth, it.value_depth});
        return s;
    }
    throw std::logic_error("no schedule was found within the limits");
}

attune::support::shape drawn_shape(dice& draw, const formula_case& it) {
    const bool few = decodes(it.cut);
    const auto [query_block, key_block] = blocks_of(it.cut);
    const int queries = std::min(query_block, 64), keys = std::min(key_block, 128);
    attune::support::shape s;
    s.batches = draw.from(1, 3);
    s.key_heads = draw.from(1, 3);
    s.heads = s.key_heads * draw.from(1, 3);
    s.queries = few && !draw.one_in(6) ? draw.from(1, 6)
                : draw.one_in(8)       ? 1
                                       : std::max(1, draw.from(1, 2) * queries + draw.from(-queries, 5));
    s.keys = draw.one_in(12) ? draw.from(0, 2) : std::max(1, draw.from(1, 3) * keys + draw.from(-keys, 5));
    s.depth = it.depth, s.value_depth = it.value_depth;
    // Pairs, each of which the reference evaluates node by node; a gradient channel by channel, too.
    const std::int64_t most = it.kernel_of.made == pass::none ? 24000 : 4000;
    if (!it.graph.stores.empty()) s.keys = std::max(s.keys, s.queries);
    if (it.extreme && draw.one_in(8)) (draw.one_in(3) ? s.batches : draw.one_in(2) ? s.queries : s.keys) = 0;
    while (s.batches * s.heads * s.queries * s.keys > most)
        if (s.batches > 1)
            --s.batches;
        else if (s.key_heads > 1)
            s.heads -= s.heads / s.key_heads, --s.key_heads;
        else if (s.queries > s.keys)
            s.queries = (s.queries + 1) / 2;
        else
            s.keys = (s.keys + 1) / 2;
    return s;
}

/// Under the default schedule for the case's class of shapes.
attune::generators::listed_kernel usual_kernel(const formula_case& of, const attune::generators::variant& variant) {
    const std::string depths = fmt::format("{}x{}", of.depth, of.value_depth);
    return attune::generators::kernels_of({&variant, 1}, {.targets = {of.level},
                                                          .dtypes = {of.types},
                                                          .depths = {depths},
                                                          .shapes = {std::string(name_of(shapes_of(of.cut)))}})
        .at(0);
}

}  // namespace

bool formula_case::has_input(std::string_view name) const {
    return std::ranges::any_of(graph.inputs, [&](const auto& d) { return d.name == name; });
}

bool formula_case::stores_to(std::string_view input) const {
    return std::ranges::any_of(graph.stores, [&](const attune::store_declaration& s) {
        const attune::instruction& place = graph.nodes[s.element];
        const attune::instruction& tensor = graph.nodes[place.arguments[0]];
        return graph.inputs[static_cast<std::size_t>(tensor.input)].name == input;
    });
}

attune::generators::listed_kernel formula_case::kernel(const attune::generators::variant& variant) const {
    attune::generators::listed_kernel made = usual_kernel(*this, variant);
    made.request.schedule = cut;
    return made;
}

std::string formula_case::text() const {
    std::ostringstream to;
    to << "level " << level << ", elements " << types << ", " << shape.text() << ", " << threads << " threads"
       << (relaid ? ", relaid" : "") << (broadcast ? ", broadcast" : "") << (hidden_nan ? ", NaN in hidden keys" : "");
    for (const auto& [name, length] : lengths)
        if (!name.empty()) to << ", " << name << ' ' << length;
    if (!kv_lengths.empty()) to << ", kv_lengths";
    for (const std::int32_t length : kv_lengths) to << ' ' << length;
    if (!cu_seqlens_q.empty()) to << ", cu_seqlens_q";
    for (const std::int32_t start : cu_seqlens_q) to << ' ' << start;
    to << "\nof " << kernel_of.text(graph) << ", schedule " << to_json(cut);
    return to.str();
}

std::string formula_case::kind() const {
    const std::string_view of = has_recurrences(graph.nodes) ? "recurrent "
                                : !graph.stores.empty()      ? "storing "
                                : graph.precomputes()        ? "choosing "
                                : extreme                    ? "extreme "
                                                             : "";
    return std::string(cu_seqlens_q.empty() ? "" : "packed ").append(of).append(name_of(kernel_of.made));
}

schedule usual_schedule(const formula_case& of) {
    const drawn_graph compiled = of.compiled();
    const attune::generators::variant variant{"fuzzed", compiled.view()};
    return usual_kernel(of, variant).request.schedule;
}

namespace {

/// As many sequences as batch elements, from queries 0 to the last one of the shape.
void settle_packing(formula_case& it) {
    std::vector<std::int32_t>& starts = it.cu_seqlens_q;
    if (starts.empty()) return;
    const auto queries = static_cast<std::int32_t>(it.shape.queries);
    starts.resize(static_cast<std::size_t>(it.shape.batches) + 1, queries);
    for (std::int32_t& start : starts) start = std::min(start, queries);
    starts.front() = 0, starts.back() = queries;
}

}  // namespace

bool settle(formula_case& it) try {
    const drawn_graph compiled = it.compiled();
    if (!it.cu_seqlens_q.empty() && attune::detail::needs_whole_batch(compiled.view())) return false;
    if (!it.graph.stores.empty()) it.shape.keys = std::max(it.shape.keys, it.shape.queries);
    if (it.has_input("block_table")) {
        std::int64_t& slot = it.lengths["slot"];
        slot = std::max<std::int64_t>(slot, 1);
        std::int64_t& seats = it.lengths["seat"] = (it.shape.keys + slot - 1) / slot;
        it.shape.keys = seats * slot;
        it.lengths["page"] = std::max<std::int64_t>(seats * it.shape.batches, 1);
    }
    it.lengths["block"] = std::max<std::int64_t>(it.shape.keys, 1);
    it.lengths["joined"] = it.shape.heads * it.shape.value_depth;
    it.lengths[""] = it.lengths["width"];  // channels of tokens that come out
    settle_packing(it);
    if (it.kv_lengths.empty()) return true;
    it.kv_lengths.resize(static_cast<std::size_t>(it.shape.batches), 1);
    const auto fewest = static_cast<std::int32_t>(it.graph.stores.empty() ? 0 : it.shape.queries);
    for (std::int32_t& length : it.kv_lengths)
        length = std::clamp(length, fewest, static_cast<std::int32_t>(it.shape.keys));
    return true;
} catch (const std::invalid_argument&) {
    return false;
}

namespace {

/// Other integers, and numbers of the call in twice as many bits, where the graph has 32.
void draw_elements(dice& draw, drawn_graph& graph) {
    constexpr std::array integers{element_type::i32, element_type::i32, element_type::i64, element_type::i16};
    for (attune::input_declaration& d : graph.inputs)
        if (!d.is_scalar && d.element == element_type::i32 && !d.name.starts_with("extreme_"))
            d.element = draw.any(integers);
        else if (d.is_scalar && d.element == element_type::f32 && draw.one_in(2))
            d.element = element_type::f64;
}

template <class T> std::vector<T> some_of(dice& draw, const std::vector<T>& all) {
    std::vector<T> some;
    for (const T& each : all)
        if (draw.one_in(2)) some.push_back(each);
    return some;
}

/// Whether it has a kernel: not every gradient has.
bool can_be_compiled(const formula_case& it) try {
    const drawn_graph compiled = it.compiled();
    (void)attune::generators::facts_of(compiled.view());
    return true;
} catch (const std::exception&) {
    return false;
}

/// Another graph for the case, or one that is left as it was.
void draw_gradient(dice& draw, formula_case& it) {
    formula_case made = it;
    if (!make_differentiable(made.graph)) return;
    made.kernel_of.made = pass::gradient;
    std::vector<std::string_view> outputs;
    for (const auto& o : made.graph.outputs) outputs.push_back(o.name);
    if (draw.one_in(2)) made.kernel_of.of = some_of(draw, outputs);
    const std::vector<std::string_view> tensors = tensors_of_reals(made.graph);
    for (int tries = 0; tries < 6; ++tries) {
        if (can_be_compiled(made)) return void(it = std::move(made));
        made.kernel_of.wrt = some_of(draw, tensors);
    }
}

void draw_shard(formula_case& it) {
    formula_case made = it;
    made.graph.keep_one_core();
    if (!attune::testing::make_shardable(made.graph)) return;
    made.kernel_of.made = pass::shard;
    if (can_be_compiled(made)) it = std::move(made);
}

bool stores_a_formula(const drawn_graph& graph) {
    return std::ranges::any_of(graph.stores, [&](const attune::store_declaration& s) {
        return graph.nodes[s.value].op == attune::operation::multiply;
    });
}

std::string drawn_types(dice& draw, const formula_case& it) {
    constexpr std::array of_one{"f32", "f32", "bf16", "f16"};
    // Results of shards' calls are not rounded on the way. Nor is a formula that is stored in k or v: its last bit
    // would decide which of two halves is the nearest.
    if (it.kernel_of.made == pass::shard || stores_a_formula(it.graph)) return "f32";
    return it.kernel_of.made == pass::gradient ? draw.any(of_one) : draw.any(all_types);
}

}  // namespace

void draw_packing(dice& draw, formula_case& it) {
    const drawn_graph compiled = it.compiled();
    if (it.kernel_of.made == pass::shard || attune::detail::needs_whole_batch(compiled.view())) return;
    if (it.stores_to("key_pages") || it.stores_to("value_pages")) return;  // one memory of all sequences
    const auto queries = static_cast<int>(it.shape.queries);
    for (std::int64_t b = 0; b <= it.shape.batches; ++b) it.cu_seqlens_q.push_back(draw.from(0, queries));
    std::ranges::sort(it.cu_seqlens_q);
}

std::string drawn_level(dice& draw) {
    std::vector<std::string> here;
    for (const attune::generators::level& each : attune::generators::levels())
        if (!each.is_gpu && attune::runs(each.name)) here.emplace_back(each.name);
    if (here.empty()) throw std::runtime_error("no ISA level of attune's runs on this machine");
    return draw.one_in(2) ? here.front() : draw.any(here);
}

bool move_to(std::string_view target, formula_case& it) {
    if (it.kernel_of.made != pass::none || it.graph.precomputes() || has_recurrences(it.graph.nodes)) return false;
    it.level = target;
    it.cut = usual_schedule(it);
    return true;
}

formula_case drawn_case(unsigned seed) {
    dice draw(seed);
    formula_case it;
    it.seed = seed;
    const int what = draw.from(0, 7);
    using attune::testing::beside;
    const beside more = what == 3 || what == 4 ? beside::choices
                        : what == 5            ? beside::stores
                        : what == 7            ? beside::extremes
                                               : beside::nothing;
    it.extreme = more == beside::extremes;
    it.graph = attune::testing::random_graph(seed, more);
    draw_elements(draw, it.graph);
    if (what < 2) draw_gradient(draw, it);
    if (what == 2) draw_shard(it);
    it.level = drawn_level(draw);
    it.types = drawn_types(draw, it);
    constexpr std::array depths{2, 4, 8, 8, 16, 16, 20, 36};
    it.depth = draw.any(depths);
    it.value_depth = draw.one_in(2) ? it.depth : draw.spread(1, 40);
    it.cut = drawn_schedule(draw, it);
    it.shape = drawn_shape(draw, it);
    it.lengths = {{"entry", draw.spread(1, 60)}, {"byte", draw.spread(1, 50)},  {"choice", draw.from(1, 6)},
                  {"short", draw.from(1, 5)},    {"width", draw.spread(1, 40)}, {"slot", 1 << draw.from(0, 5)}};
    it.threads = draw.from(1, 4);
    it.relaid = !draw.one_in(4);
    it.broadcast = it.kernel_of.made == pass::none && draw.one_in(3);
    it.hidden_nan = draw.one_in(2);
    if (draw.one_in(3) && it.shape.batches > 0) draw_packing(draw, it);
    settle(it);
    if (draw.one_in(2))
        for (std::int64_t b = 0; b < it.shape.batches; ++b)
            it.kv_lengths.push_back(draw.one_in(6) ? 0 : draw.from(0, static_cast<int>(it.shape.keys)));
    settle(it);
    return it;
}

}  // namespace fuzz
