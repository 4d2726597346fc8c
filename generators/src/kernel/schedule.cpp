#include "kernel/schedule.hpp"

#include "base/formatting.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

namespace attune::generators {
namespace {

struct field {
    const char* name;
    int schedule::* member;
    int most;  ///< far beyond what is of use: what is written out compiles for hours, what is not fills memory
};
constexpr field fields[] = {
    {"lanes", &schedule::lanes, 16},
    {"query_block", &schedule::query_block, 4096},
    {"key_block", &schedule::key_block, 4096},
    {"query_tile", &schedule::query_tile, 256},
    {"depth_unroll", &schedule::depth_unroll, 64},
    {"key_tile", &schedule::key_tile, 64},
    {"value_tile", &schedule::value_tile, 256},
    {"chunk", &schedule::chunk, 4096},
    {"key_splits", &schedule::key_splits, 1024},  // on a GPU each has its weight in shared memory when they are merged
    {"pairing", &schedule::pairing, 2},
};
constexpr int most_written_out = 1024;  ///< vectors that are multiplied and added, in a loop's body
constexpr int most_gpu_threads = 1024;  ///< of a block

std::string field_names() {
    std::string names = "shapes";
    for (const auto& [name, member, most] : fields) names += ", " + std::string(name);
    return names;
}

/// The chunk that leaves least of itself unused at the end of the depth; of equals one of whole vectors, then the
/// longer one.
int fitting_chunk(int value_depth, int tile, int lanes) {
    constexpr int longest = 16;
    int best = tile, best_cost = 2 * value_depth + 2 * tile;
    for (int chunk = tile; chunk <= longest; chunk += tile) {
        const int waste = (chunk - value_depth % chunk) % chunk, cost = 2 * waste + (chunk % lanes != 0);
        if (cost <= best_cost) best = chunk, best_cost = cost;
    }
    return best;
}

[[noreturn]] void refuse(const std::string& field, const std::string& rule, int got, int instead) {
    throw std::runtime_error(
        fmt::format("expected a schedule's {} to be {}, got {}; try {}", field, rule, got, std::max(instead, 1)));
}

void multiple(const char* name, int whole, const char* part_name, int part, const char* where = "") {
    if (whole % part != 0)
        refuse(name, fmt::format("a multiple of {}, {}{}", part_name, part, where), whole, whole / part * part);
}

void at_most(const char* name, int got, int most, const char* beside) {
    if (got > most) refuse(name, fmt::format("{} at most beside its {}", most, beside), got, most);
}

void check_gpu_decode(const schedule& s) {
    multiple("key_block", s.key_block, "the threads that share a key", 8, ", in decode");
    multiple("key_block", s.key_block, "key_tile", s.key_tile);
    if (s.pairing != 1) refuse("pairing", "1 in decode", s.pairing, 1);
    at_most("key_block", s.key_block, most_gpu_threads / 8 * s.key_tile, "key_tile");
}

void check_decode(const schedule& s) {
    if (s.chunk != 1) refuse("chunk", "1 in decode", s.chunk, 1);
    if (s.pairing != 1) refuse("pairing", "1 in decode", s.pairing, 1);
    if (s.lanes % s.key_tile != 0)
        refuse("key_tile", fmt::format("a divisor of lanes, {}, in decode", s.lanes), s.key_tile,
               std::gcd(s.lanes, s.key_tile));
    multiple("key_block", s.key_block, "lanes", s.lanes, ", in decode");
    multiple("key_block", s.key_block, "value_tile", s.value_tile, ", in decode");
}

void check_prefill(const schedule& s, int depth) {
    if (s.key_splits != 1) refuse("key_splits", "1 in prefill", s.key_splits, 1);
    if (s.pairing == 2 && depth % 2 != 0)
        refuse("pairing", fmt::format("1 where the depth, {}, is odd", depth), s.pairing, 1);
    if (s.pairing == 2) multiple("key_block", s.key_block, "pairing", s.pairing);
    multiple("query_tile", s.query_tile, "lanes", s.lanes);
    multiple("query_block", s.query_block, "query_tile", s.query_tile);
    if (depth % s.depth_unroll != 0)
        refuse("depth_unroll", fmt::format("a divisor of the depth, {}", depth), s.depth_unroll,
               std::gcd(depth, s.depth_unroll));
    multiple("key_block", s.key_block, "key_tile", s.key_tile);
    multiple("chunk", s.chunk, "value_tile", s.value_tile);
    if (s.lanes == 1)  // of a GPU
        at_most("key_block", s.key_block, most_gpu_threads / (s.query_block / s.query_tile) * s.key_tile,
                "key_tile, query_block and query_tile");
}

}  // namespace

shape_class shape_class_from(std::string_view text) {
    for (const shape_class c : {shape_class::prefill, shape_class::decode})
        if (text == name_of(c)) return c;
    throw std::runtime_error("expected a class of shapes, prefill or decode, got \"" + std::string(text) + "\"");
}

schedule decode_schedule(const level& isa, masking hides) {
    schedule s{};
    s.shapes = shape_class::decode;
    s.lanes = isa.lanes;
    s.query_block = 16;
    s.key_block = hides == masking::window ? 64 : 128;
    s.query_tile = 4;
    s.depth_unroll = 2;
    s.key_tile = isa.registers >= 32 ? 4 : 2;  // sums of query_tile x key_tile, in registers
    s.value_tile = s.key_tile;
    s.chunk = 1;
    s.key_splits = 16;
    return s;
}

schedule default_schedule(const level& isa, int depth, int value_depth, masking hides) {
    schedule s{};
    s.lanes = isa.lanes;
    s.key_splits = 1;
    const bool wide = isa.registers >= 32;
    // Accumulators fill the register file but for the operands: 3 x 8 of 32, 3 x 4 of 16.
    s.query_tile = 3 * isa.lanes;
    s.key_tile = wide ? 8 : 4;
    s.value_tile = value_depth < s.key_tile ? value_depth : s.key_tile;
    s.chunk = fitting_chunk(value_depth, s.value_tile, isa.lanes);
    s.depth_unroll = depth % 4 == 0 ? 4 : depth % 2 == 0 ? 2 : 1;
    // Two tiles of queries keep the grain of skipping fine; keys are read again for each at no cost that could be
    // measured.
    s.query_block = depth + value_depth >= 512 ? s.query_tile : std::max(48, s.query_tile);
    // Where something is masked a fine grain leaves less of it in the blocks that are visited, windows above all. Where
    // nothing is, twice as many keys as these are within 2 % on long calls, and make calls of fewer keys than a block
    // twice as slow.
    s.key_block = hides == masking::none ? 128 : 64;
    // On 8 lanes, measured: a diagonal is met by one tile at a time; of a longer block of keys only sub-blocks are
    // visited there. 5 to 8 % on causal calls of 100 to 1000 queries.
    if (isa.lanes == 8 && hides == masking::some) s.query_block = s.query_tile, s.key_block = 128;
    // So shallow that sums of a whole row fit beside its keys: tiles of more queries and fewer keys cost less in
    // between.
    if (isa.lanes == 8 && hides == masking::none && depth <= 32 && value_depth == 32) {
        s.query_tile = 32, s.query_block = 64;
        s.key_tile = s.value_tile = 2, s.chunk = value_depth;
    }
    return s;
}

void check_limits(const schedule& s) {
    for (const auto& [name, member, most] : fields) {
        if (s.*member < 1) refuse(name, "1 or more", s.*member, 1);
        if (s.*member > most) refuse(name, fmt::format("{} at most", most), s.*member, most);
    }
    if (std::ranges::none_of(levels(), [&](const level& isa) { return isa.lanes == s.lanes; }))
        refuse("lanes", "those of a level, 4, 8 or 16, or 1 on a GPU", s.lanes,
               static_cast<int>(std::bit_floor(static_cast<unsigned>(s.lanes))));
}

void check(const schedule& s, int depth) {
    check_limits(s);
    if (s.shapes == shape_class::prefill)
        check_prefill(s, depth);
    else if (s.lanes == 1)
        check_gpu_decode(s);
    else
        check_decode(s);
    const bool vectors_of_queries = s.shapes == shape_class::prefill && s.lanes > 1;
    const int vectors = vectors_of_queries ? s.query_tile / s.lanes : s.query_tile;
    at_most("key_tile", s.key_tile, most_written_out / (vectors * s.depth_unroll), "query_tile and depth_unroll");
    at_most("value_tile", s.value_tile, most_written_out / vectors, "query_tile");
}

void check(const schedule& s, const level& isa, int depth) {
    if ((s.lanes == 1) != (isa.lanes == 1))
        refuse("lanes", isa.lanes == 1 ? "1 on a GPU" : "more than 1 on a CPU", s.lanes, isa.lanes);
    check(s, depth);
}

std::string to_json(const schedule& s) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    object["shapes"] = std::string(name_of(s.shapes));
    for (const auto& [name, member, most] : fields) object[name] = s.*member;
    return object.dump();
}

schedule schedule_from_json(std::string_view text) {
    const auto object = nlohmann::json::parse(text, nullptr, false);
    const auto shown = [](const std::string& all) { return all.size() > 40 ? all.substr(0, 40) + "..." : all; };
    if (!object.is_object())
        throw std::runtime_error(fmt::format(
            "expected a schedule as a JSON object with the fields {}, got {}; try what `explain --json` says",
            field_names(), text.empty() ? "nothing" : shown(std::string(text))));
    const auto field = [&](const char* name) {
        const auto at = object.find(name);
        if (at == object.end())
            throw std::runtime_error(
                fmt::format("expected a schedule with the field \"{}\", got none; its fields are {}; try what `explain "
                            "--json` says",
                            name, field_names()));
        return *at;
    };
    const auto refuse = [&](const char* name, const char* wanted) {
        const std::string got = field(name).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
        throw std::runtime_error(fmt::format(
            "expected a schedule's \"{}\" to be {}, got {}; try what `explain --json` says", name, wanted, shown(got)));
    };
    schedule s{};
    const auto shapes = field("shapes");
    if (!shapes.is_string()) refuse("shapes", "text, \"prefill\" or \"decode\"");
    s.shapes = shape_class_from(shapes.get<std::string>());
    for (const auto& [name, member, limit] : fields) {
        const auto value = field(name);
        constexpr std::int64_t least = std::numeric_limits<int>::min(), most = std::numeric_limits<int>::max();
        const bool fits = value.is_number_unsigned() ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most)
                                                     : value.is_number_integer() && value.get<std::int64_t>() >= least;
        if (!fits) refuse(name, "an integer of 32 bits");
        s.*member = value.get<int>();
    }
    for (const auto& [key, value] : object.items()) {
        bool known = key == "shapes";
        for (const auto& [name, member, most] : fields) known |= key == name;
        if (!known)
            throw std::runtime_error(
                fmt::format("expected a schedule with the fields {}, got \"{}\"; try without it", field_names(), key));
    }
    return s;
}

std::size_t scratch_bytes(const schedule& s, int depth, int value_depth) {
    const std::size_t queries = s.query_block, chunks = (value_depth + s.chunk - 1) / s.chunk;
    const std::size_t state = queries * chunks * (s.chunk + 2), packed_queries = queries * depth, rows = 2 * queries;
    const std::size_t tile = s.query_tile, scores_and_weights = 2 * tile * s.key_block, sums = tile * (s.chunk + 2);
    const std::size_t turned = std::size_t(s.lanes) * (s.lanes + s.query_block);
    return sizeof(float) * (state + packed_queries + rows + scores_and_weights + sums + turned);
}

}  // namespace attune::generators
