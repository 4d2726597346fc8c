#include <attune/generators/schedule.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

namespace attune::generators {
namespace {

constexpr std::pair<const char*, int schedule::*> fields[] = {
    {"lanes", &schedule::lanes},
    {"query_block", &schedule::query_block},
    {"key_block", &schedule::key_block},
    {"query_tile", &schedule::query_tile},
    {"depth_unroll", &schedule::depth_unroll},
    {"key_tile", &schedule::key_tile},
    {"value_tile", &schedule::value_tile},
    {"chunk", &schedule::chunk},
    {"key_splits", &schedule::key_splits},
    {"pairing", &schedule::pairing},
};

std::string field_names() {
    std::string names = "shapes";
    for (const auto& [name, member] : fields) names += ", " + std::string(name);
    return names;
}

/// The chunk that leaves least of itself unused at the end of the depth; of equals one of whole vectors, then the longer one.
int fitting_chunk(int value_depth, int tile, int lanes) {
    constexpr int longest = 16;
    int best = tile, best_cost = 2 * value_depth + 2 * tile;
    for (int chunk = tile; chunk <= longest; chunk += tile) {
        const int waste = (chunk - value_depth % chunk) % chunk, cost = 2 * waste + (chunk % lanes != 0);
        if (cost <= best_cost) best = chunk, best_cost = cost;
    }
    return best;
}

}  // namespace

masking masking_of(const listing& graph) {
    std::vector<bool> required(graph.nodes.size());  // hold for every visible pair
    masking found = masking::none;
    const auto index_of = [&](int node, operation index) {
        const instruction& at = graph.nodes[node];
        return at.op == index ||
               (at.op == operation::add && (graph.nodes[at.arguments[0]].op == index || graph.nodes[at.arguments[1]].op == index));
    };
    for (int n = static_cast<int>(graph.nodes.size()) - 1; n >= 0; --n) {
        const instruction& node = graph.nodes[n];
        if (node.op == operation::mask) {
            found = std::max(found, masking::some);
            required[node.arguments[1]] = true;
        }
        if (!required[n]) continue;
        if (node.op == operation::logical_and) required[node.arguments[0]] = required[node.arguments[1]] = true;
        // q_idx - kv_idx <= width
        if (node.op != operation::less && node.op != operation::less_equal) continue;
        const instruction &distance = graph.nodes[node.arguments[0]], &width = graph.nodes[node.arguments[1]];
        if (distance.op == operation::subtract && index_of(distance.arguments[0], operation::q_idx) &&
            index_of(distance.arguments[1], operation::kv_idx) && width.op == operation::constant && width.integer <= 1024)
            found = masking::window;
    }
    return found;
}

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
    // Two tiles of queries keep the grain of skipping fine; keys are read again for each at no cost that could be measured.
    s.query_block = depth + value_depth > 512 ? s.query_tile : std::max(48, s.query_tile);
    // Where something is hidden a fine grain leaves less of it in the blocks that are visited. Where nothing is, twice as many keys as these are within 2 % on
    // long calls, and make calls of fewer keys than a block twice as slow.
    s.key_block = hides == masking::none ? 128 : 64;
    return s;
}

void check(const schedule& s, int depth) {
    const auto refuse = [](const std::string& rule) { throw std::runtime_error("a schedule needs " + rule); };
    for (const auto& [name, member] : fields)
        if (s.*member < 1) refuse(std::string(name) + " >= 1, got " + std::to_string(s.*member));
    if (s.shapes == shape_class::decode) {
        if (s.chunk != 1) refuse("chunk to be 1 in decode");
        if (s.lanes % s.key_tile != 0) refuse("lanes to be a multiple of key_tile in decode");
        if (s.key_block % s.lanes != 0 || s.key_block % s.value_tile != 0) refuse("key_block to be a multiple of lanes and of value_tile in decode");
        return;
    }
    const auto multiple = [&](int schedule::*whole, int schedule::*part, const char* text) {
        if (s.*whole % (s.*part) != 0) refuse(text);
    };
    if (s.shapes == shape_class::prefill && s.key_splits != 1) refuse("key_splits to be 1 in prefill, got " + std::to_string(s.key_splits));
    if (s.pairing > 2) refuse("pairing to be 1 or 2, got " + std::to_string(s.pairing));
    if (s.pairing == 2 && (depth % 2 != 0 || s.key_block % 2 != 0 || s.shapes != shape_class::prefill)) refuse("an even depth and key_block, and prefill, for a pairing of 2");
    multiple(&schedule::query_tile, &schedule::lanes, "query_tile to be a multiple of lanes");
    multiple(&schedule::query_block, &schedule::query_tile, "query_block to be a multiple of query_tile");
    if (depth % s.depth_unroll != 0)
        refuse("depth_unroll to divide the depth, " + std::to_string(depth) + ", got " + std::to_string(s.depth_unroll));
    multiple(&schedule::key_block, &schedule::key_tile, "key_block to be a multiple of key_tile");
    multiple(&schedule::chunk, &schedule::value_tile, "chunk to be a multiple of value_tile");
}

std::string to_json(const schedule& s) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    object["shapes"] = std::string(name_of(s.shapes));
    for (const auto& [name, member] : fields) object[name] = s.*member;
    return object.dump();
}

schedule schedule_from_json(std::string_view text) {
    const auto object = nlohmann::json::parse(text, nullptr, false);
    if (!object.is_object()) throw std::runtime_error("expected a schedule as a JSON object with the fields " + field_names());
    schedule s{};
    const auto shapes = object.find("shapes");
    if (shapes == object.end()) throw std::runtime_error("a schedule lacks the field \"shapes\"");
    if (!shapes->is_string()) throw std::runtime_error("the schedule's field \"shapes\" is not a string");
    s.shapes = shape_class_from(shapes->get<std::string>());
    for (const auto& [name, member] : fields) {
        const auto at = object.find(name);
        if (at == object.end()) throw std::runtime_error("a schedule lacks the field \"" + std::string(name) + "\"");
        if (!at->is_number_integer()) throw std::runtime_error("the schedule's field \"" + std::string(name) + "\" is not an integer");
        constexpr std::int64_t least = std::numeric_limits<int>::min(), most = std::numeric_limits<int>::max();
        if (at->is_number_unsigned() ? at->get<std::uint64_t>() > static_cast<std::uint64_t>(most) : at->get<std::int64_t>() < least)
            throw std::runtime_error("the schedule's field \"" + std::string(name) + "\" is beyond what a number of 32 bits holds");
        s.*member = at->get<int>();
    }
    for (const auto& [key, value] : object.items()) {
        bool known = key == "shapes";
        for (const auto& [name, member] : fields) known |= key == name;
        if (!known) throw std::runtime_error("a schedule has no field \"" + key + "\"; its fields are " + field_names());
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
