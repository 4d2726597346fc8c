#include "formula_case.hpp"

#include "../../properties/random_graph.hpp"

#include <attune/runtime/cpu.hpp>
#include "analysis/plan.hpp"

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

using attune::generators::cpu_decode, attune::generators::cpu_prefill, attune::generators::schedule;

class dice {
public:
    explicit dice(unsigned seed) : random_(seed * 2654435761u + 17) {}
    int from(int first, int last) { return std::uniform_int_distribution<int>(first, last)(random_); }
    bool one_in(int n) { return from(1, n) == 1; }
    /// Small numbers as often as large ones.
    int spread(int first, int last) {
        const double low = std::log(first), high = std::log(last + 1);
        return std::clamp(static_cast<int>(std::exp(low + (high - low) * from(0, 1000) / 1000.0)), first, last);
    }
    template <class List> auto any(const List& list) {
        return list[static_cast<std::size_t>(from(0, static_cast<int>(std::size(list)) - 1))];
    }

private:
    std::mt19937 random_;
};

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

/// Within all limits, and so small that it compiles in seconds.
schedule drawn_schedule(dice& draw, const formula_case& it) {
    constexpr std::array all_lanes{4, 8, 16};
    const attune::generators::variant variant = it.variant();
    const bool decodes = attune::generators::facts_of(it.graph.view())->decode_unsupported_reason.empty();
    const bool few = decodes && draw.one_in(3);
    const attune::generators::level& isa = attune::generators::level_named(it.level);
    const auto is_small = [](int vectors, const auto& s) {
        return vectors * s.key_tile * s.depth_unroll <= 96 && vectors * s.value_tile <= 32 && s.key_block <= 512;
    };
    for (int tries = 0; tries < 1000; ++tries) {
        const int lanes = draw.one_in(3) ? draw.any(all_lanes) : isa.lanes;
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
            if (s.key_block % 2 == 0 && can_use_bf16_dot(paired.kernel(variant).request)) s.pairing = 2;
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
    constexpr std::int64_t most = 24000;  // pairs, each of which the reference evaluates node by node
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

attune::generators::listed_kernel formula_case::kernel(const attune::generators::variant& variant) const {
    attune::generators::listed_kernel made = usual_kernel(*this, variant);
    made.request.schedule = cut;
    return made;
}

std::string formula_case::text() const {
    std::ostringstream to;
    to << "level " << level << ", elements " << types << ", " << shape.text() << ", " << threads << " threads"
       << (relaid ? ", relaid" : "") << (broadcast ? ", broadcast" : "");
    for (const auto& [name, length] : lengths)
        if (!name.empty()) to << ", " << name << ' ' << length;
    if (!kv_lengths.empty()) to << ", kv_lengths";
    for (const std::int32_t length : kv_lengths) to << ' ' << length;
    to << "\nschedule " << to_json(cut);
    return to.str();
}

schedule usual_schedule(const formula_case& of) {
    const attune::generators::variant variant = of.variant();
    return usual_kernel(of, variant).request.schedule;
}

void settle(formula_case& it) {
    if (it.has_input("block_table")) {
        std::int64_t& slot = it.lengths["slot"];
        slot = std::max<std::int64_t>(slot, 1);
        std::int64_t& seats = it.lengths["seat"] = (it.shape.keys + slot - 1) / slot;
        it.shape.keys = seats * slot;
        it.lengths["page"] = std::max<std::int64_t>(seats * it.shape.batches, 1);
    }
    it.lengths["joined"] = it.shape.heads * it.shape.value_depth;
    it.lengths[""] = it.lengths["width"];  // channels of tokens that come out
    if (it.kv_lengths.empty()) return;
    it.kv_lengths.resize(static_cast<std::size_t>(it.shape.batches), 1);
    for (std::int32_t& length : it.kv_lengths) length = std::min(length, static_cast<std::int32_t>(it.shape.keys));
}

formula_case drawn_case(unsigned seed) {
    dice draw(seed);
    formula_case it;
    it.seed = seed;
    it.graph = attune::testing::random_graph(seed);
    std::vector<std::string> here;
    for (const attune::generators::level& each : attune::generators::levels())
        if (!each.is_gpu && attune::runs(each.name)) here.emplace_back(each.name);
    if (here.empty()) throw std::runtime_error("no ISA level of attune's runs on this machine");
    it.level = draw.one_in(2) ? here.front() : draw.any(here);
    it.types = draw.any(all_types);
    constexpr std::array depths{2, 4, 8, 8, 16, 16, 20, 36};
    it.depth = draw.any(depths);
    it.value_depth = draw.one_in(2) ? it.depth : draw.spread(1, 40);
    it.cut = drawn_schedule(draw, it);
    it.shape = drawn_shape(draw, it);
    it.lengths = {{"entry", draw.spread(1, 60)}, {"byte", draw.spread(1, 50)},  {"choice", draw.from(1, 6)},
                  {"short", draw.from(1, 5)},    {"width", draw.spread(1, 40)}, {"slot", 1 << draw.from(0, 5)}};
    it.threads = draw.from(1, 4);
    it.relaid = !draw.one_in(4), it.broadcast = draw.one_in(3);
    settle(it);
    if (draw.one_in(2))
        for (std::int64_t b = 0; b < it.shape.batches; ++b)
            it.kv_lengths.push_back(draw.one_in(6) ? 0 : draw.from(0, static_cast<int>(it.shape.keys)));
    return it;
}

}  // namespace fuzz
