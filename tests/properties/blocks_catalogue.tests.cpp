#include "blocks_lab.hpp"
#include "inspect/node_text.hpp"
#include "inspect/notes.hpp"

#include <attune/catalogue/biases.hpp>
#include <attune/catalogue/block_diffusion.hpp>
#include <attune/catalogue/causal.hpp>
#include <attune/catalogue/documents.hpp>
#include <attune/catalogue/jetspec.hpp>
#include <attune/catalogue/natten.hpp>
#include <attune/catalogue/prefixes.hpp>
#include <attune/catalogue/relative.hpp>
#include <attune/catalogue/selected.hpp>
#include <attune/catalogue/sliding_tiles.hpp>
#include <attune/catalogue/softcap.hpp>
#include <attune/catalogue/sparse_tiles.hpp>
#include <attune/catalogue/sparse_video.hpp>
#include <attune/catalogue/vision.hpp>
#include <attune/catalogue/windows.hpp>
#include <attune/dsl.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <random>

/// Every mask of the catalogue at 4096 queries and keys: which blocks are visited, against every pair.
namespace masks {

using namespace attune::dsl;
namespace c = attune::catalogue;

constexpr auto under(expression auto condition) { return softmax(mask(q * t(k), condition)) * v; }
template <attune::dsl::name Name> constexpr auto n = scalar<Name, i32>;

inline constexpr auto doc = input<"doc", i32>(position);
inline constexpr auto off = input<"off", i32>(axis<"document">);
inline constexpr auto cu = input<"cu", i32>(axis<"sequence">);
inline constexpr auto pre = input<"pre", i32>(axis<"document">);
inline constexpr auto is_global = input<"is_global", boolean>(position);
inline constexpr auto per_head = input<"per_head", i32>(head);
inline constexpr auto from = input<"from", i32>(query);
inline constexpr auto to = input<"to", i32>(query);
inline constexpr auto row_window = input<"row_window", i32>(query);
inline constexpr auto threshold = input<"threshold", i32>(key);
inline constexpr auto sizes = input<"sizes", i32>(axis<"tile">);
inline constexpr auto map = input<"map", boolean>(batch, head, axis<"query_tile">, axis<"tile">);
inline constexpr auto chosen = input<"choices", i32>(batch, head, axis<"query_tile">, axis<"choice">);
inline constexpr auto intervals = input<"intervals", i32>(axis<"image">, axis<"bound">);
inline constexpr auto ancestor = input<"ancestor", boolean>(axis<"node">, axis<"ancestor">);
inline constexpr auto dense = input<"dense", boolean>(batch, head, query, key);
inline constexpr auto bits = input<"bits", u8>(batch, query, axis<"byte">);
inline constexpr auto listed = input<"lists", i32>(batch, query, axis<"place">);
inline constexpr auto of_key = input<"of_key", f32>(axis<"row">);
inline constexpr auto near_k = input<"near_k", f32>(batch, key_head, axis<"near">, depth);
inline constexpr auto far_k = input<"far_k", f32>(batch, key_head, axis<"far">, depth);
inline constexpr auto local = [](auto a, auto b) { return a >= b; };

inline constexpr auto causal_mask = under(causal);
inline constexpr auto causal_last = under(causal_bottom_right);
inline constexpr auto causal_hidden = softmax(c::causal_score(q * t(k))) * v;
inline constexpr auto causal_offset = under(c::causal_with_offset(n<"offset">));
inline constexpr auto causal_of_length = under(c::causal_up_to(kv_lengths(b)));
inline constexpr auto mini_causal = under(c::mini_causal(n<"period">));
inline constexpr auto sliding_window = under(c::sliding_window(n<"w">));
inline constexpr auto last_keys = under(c::last_keys(n<"w">));
inline constexpr auto both_sides = under(window(n<"w">, n<"w">));
inline constexpr auto window_back = under(c::window_back(n<"w">));
inline constexpr auto dilated_window = under(c::dilated_window(n<"w">, n<"d">));
inline constexpr auto dilated_causal = under(c::dilated_causal(n<"w">, n<"d">));
inline constexpr auto global_window = under(c::global_window(n<"w">, is_global));
inline constexpr auto longformer = under(causal && c::global_window(n<"w">, is_global));
inline constexpr auto window_per_head = under(c::window_per_head(per_head));
inline constexpr auto key_threshold = under(c::key_threshold(threshold));
inline constexpr auto key_range = under(c::key_range(from, to));
inline constexpr auto same_document = under(c::same_document(doc));
inline constexpr auto document_causal = under(c::document(doc, off, local));
inline constexpr auto packed_causal = under(c::packed_causal(doc, off));
inline constexpr auto shared_prefix = under(c::shared_prefix(doc, off, pre));
inline constexpr auto block_diagonal = under(c::block_diagonal(n<"period">));
inline constexpr auto batchified = under(c::batchified(n<"period">, local));
inline constexpr auto same_sequence = under(c::same_sequence(cu, cu));
inline constexpr auto varlen = under(c::varlen(cu, cu, local));
inline constexpr auto varlen_causal = under(c::varlen_causal(cu, cu));
inline constexpr auto varlen_row_window = under(c::varlen_row_window(cu, cu, row_window));
inline constexpr auto varlen_document = under(c::varlen_document(cu, cu, doc, doc));
inline constexpr auto number_of_document = under(c::sequence_of(cu, q_idx) == c::sequence_of(cu, kv_idx));
inline constexpr auto prefix_lm = under(c::prefix_lm(n<"prefix">));
inline constexpr auto prefix_block = under(c::prefix_block(n<"prefix">));
inline constexpr auto natten = under(c::natten(n<"width">, n<"width">, n<"kernel">, n<"kernel">));
inline constexpr auto tiled_natten =
    under(c::tiled_natten(n<"width">, n<"width">, n<"kernel">, n<"kernel">, n<"tile">, n<"tile">));
inline constexpr auto morton_natten = under(c::morton_natten(n<"width">, n<"width">, n<"kernel">, n<"kernel">));
inline constexpr auto stand_alone = under(c::stand_alone(n<"width">, n<"radius">));
inline constexpr auto sliding_tiles_2d =
    under(c::sliding_tiles_2d(n<"width">, n<"width">, n<"window">, n<"window">, n<"tile">, n<"tile">));
inline constexpr auto sliding_tiles_3d = under(c::sliding_tiles_3d(
    n<"edge">, n<"edge">, n<"edge">, n<"tile">, n<"tile">, n<"tile">, n<"half">, n<"half">, n<"half">));
inline constexpr auto real_tokens = under(c::real_tokens(n<"tokens">, sizes));
inline constexpr auto tile_map = under(c::tile_map(n<"tokens">, map));
inline constexpr auto chosen_tiles = under(c::chosen_tiles(n<"tokens">, chosen));
inline constexpr auto spatial_head = under(c::spatial_head(n<"prefix">, n<"frame">, n<"one">, n<"one">, n<"tokens">));
inline constexpr auto temporal_head = under(c::temporal_head(n<"prefix">, n<"frames">, n<"frame">, n<"one">));
inline constexpr auto block_diffusion = under(c::block_diffusion(n<"half_length">, n<"tokens">));
inline constexpr auto draft_blocks = under(c::draft_blocks(n<"prefix">, n<"tokens">));
inline constexpr auto vision = under(c::vision_cross_attention(intervals, n<"tokens">));
inline constexpr auto tree_causal = under(c::tree_causal(n<"prefix">, n<"drafts">, ancestor));
inline constexpr auto draft_tree = under(c::draft_tree(ancestor));
inline constexpr auto dense_mask = under(c::dense_mask(dense));
inline constexpr auto packed_mask = under(c::packed_mask(bits));
inline constexpr auto joined = q * t(keys(c::joined_keys(near_k, far_k), c::joined_length(near_k, far_k)));
inline constexpr auto joined_keys = softmax(mask(joined, causal)) * v;
inline constexpr auto selected = softmax(c::selected(joined, near_k, listed, n<"w">, doc)) * v;
inline constexpr auto softcap_then_mask = softmax(c::softcap_then_mask(30.0, q* t(k), causal)) * v;
inline constexpr auto checkerboard = softmax(c::checkerboard(q * t(k))) * v;
inline constexpr auto conditional = softmax(c::conditional(q * t(k), cu, cu, n<"w">, of_key)) * v;
inline constexpr auto varlen_distance = softmax(c::varlen_distance_bias(q * t(k), cu, cu, 0.5, of_key)) * v;

}  // namespace masks

using namespace attune;
using namespace attune::testing;

namespace {

constexpr int length = 4096;

lab_inputs inputs_of_masks() {
    lab_inputs in;
    in.queries = in.keys = length;
    std::mt19937 random(3);
    const auto any = [&](int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); };
    const auto table = [&](const char* name, std::vector<int> extents, const std::function<double(int)>& value) {
        lab_inputs::table& t = in.tables[name];
        int size = 1;
        for (int e : extents) size *= e;
        t.extents = std::move(extents);
        for (int i = 0; i < size; ++i) t.values.push_back(value(i));
    };
    std::vector<int> starts{0};
    while (starts.back() < length) starts.push_back(std::min(length, starts.back() + 60 + any(500)));
    const int documents = static_cast<int>(starts.size()) - 1;
    const auto document_at = [&](int i) {
        return static_cast<int>(std::upper_bound(starts.begin(), starts.end(), i) - starts.begin()) - 1;
    };
    table("doc", {length}, document_at);
    for (const char* name : {"off", "cu"})
        table(name, {documents + 1}, [&](int i) { return starts[static_cast<std::size_t>(i)]; });
    table("pre", {documents}, [](int i) { return i / 4 * 4; });
    table("is_global", {length}, [](int i) { return i % 700 == 3; });
    table("per_head", {1}, [](int i) { return 100 + 500 * i; });
    table("from", {length}, [&](int i) { return std::max(0, i / 2 - any(100)); });
    table("to", {length}, [&](int i) { return i / 2 + any(100); });
    table("row_window", {length}, [&](int) { return any(300); });
    table("threshold", {length}, [](int i) { return i % 1000 < 500 ? i - 5 : i + 5; });
    table("sizes", {length / 64}, [](int i) { return i % 3 == 2 ? 0 : 20 + i % 40; });
    table("map", {1, 1, length / 64, length / 64}, [&](int) { return any(8) == 0; });
    table("choices", {1, 1, length / 64, 6}, [&](int) { return any(length / 64); });
    table("intervals", {length / 64, 2}, [](int i) { return (i / 2) * 30 + (i % 2) * 700; });
    table("ancestor", {length, 32}, [&](int) { return any(3) == 0; });
    table("lists", {1, length, 4}, [&](int) { return any(64); });
    table("of_key", {length}, [](int i) { return i % 7; });
    table("near_k", {1, 1, length - 64, 4}, [](int) { return 0; });
    table("far_k", {1, 1, 64, 4}, [](int) { return 0; });
    table("dense", {1, 1, length, length}, [](int i) { return i / length % length >= i % length; });
    table("bits", {1, length, length / 8}, [](int i) { return i % 512 < i / 512 / 8 ? 255 : 0; });
    in.numbers = {{"offset", -300},
                  {"period", 200},
                  {"w", 256},
                  {"d", 4},
                  {"prefix", 300},
                  {"width", 64},
                  {"kernel", 13},
                  {"tile", 8},
                  {"radius", 5},
                  {"window", 24},
                  {"edge", 16},
                  {"half", 4},
                  {"tokens", 64},
                  {"frame", 512},
                  {"frames", 8},
                  {"one", 1},
                  {"half_length", length / 2},
                  {"drafts", 32}};
    return in;
}

struct entry {
    const char* name;
    graph_ir graph;
    double limit;  ///< of visited blocks over those with a visible pair
};

/// Exact, or with quotients and remainders in several dimensions, or read at every pair: then all blocks that nothing
/// else hides are visited.
constexpr double exact = 1.05, divided = 1.25, unbounded = 1e9;

std::vector<entry> entries() {
    return {
        {"causal_mask", dsl::ir_of<masks::causal_mask>, exact},
        {"causal_last", dsl::ir_of<masks::causal_last>, exact},
        {"causal_hidden", dsl::ir_of<masks::causal_hidden>, exact},
        {"causal_offset", dsl::ir_of<masks::causal_offset>, exact},
        {"causal_of_length", dsl::ir_of<masks::causal_of_length>, exact},
        {"mini_causal", dsl::ir_of<masks::mini_causal>, divided},
        {"sliding_window", dsl::ir_of<masks::sliding_window>, exact},
        {"last_keys", dsl::ir_of<masks::last_keys>, exact},
        {"both_sides", dsl::ir_of<masks::both_sides>, exact},
        {"window_back", dsl::ir_of<masks::window_back>, exact},
        {"dilated_window", dsl::ir_of<masks::dilated_window>, divided},
        {"dilated_causal", dsl::ir_of<masks::dilated_causal>, divided},
        {"global_window", dsl::ir_of<masks::global_window>, exact},
        {"longformer", dsl::ir_of<masks::longformer>, exact},
        {"window_per_head", dsl::ir_of<masks::window_per_head>, exact},
        {"key_threshold", dsl::ir_of<masks::key_threshold>, exact},
        {"key_range", dsl::ir_of<masks::key_range>, exact},
        {"same_document", dsl::ir_of<masks::same_document>, exact},
        {"document_causal", dsl::ir_of<masks::document_causal>, exact},
        {"packed_causal", dsl::ir_of<masks::packed_causal>, exact},
        {"shared_prefix", dsl::ir_of<masks::shared_prefix>, exact},
        {"block_diagonal", dsl::ir_of<masks::block_diagonal>, divided},
        {"batchified", dsl::ir_of<masks::batchified>, divided},
        {"same_sequence", dsl::ir_of<masks::same_sequence>, exact},
        {"varlen", dsl::ir_of<masks::varlen>, exact},
        {"varlen_causal", dsl::ir_of<masks::varlen_causal>, exact},
        {"varlen_row_window", dsl::ir_of<masks::varlen_row_window>, exact},
        {"varlen_document", dsl::ir_of<masks::varlen_document>, exact},
        {"number_of_document", dsl::ir_of<masks::number_of_document>, exact},
        {"prefix_lm", dsl::ir_of<masks::prefix_lm>, exact},
        {"prefix_block", dsl::ir_of<masks::prefix_block>, exact},
        {"natten", dsl::ir_of<masks::natten>, divided},
        {"tiled_natten", dsl::ir_of<masks::tiled_natten>, divided},
        {"morton_natten", dsl::ir_of<masks::morton_natten>, divided},
        {"stand_alone", dsl::ir_of<masks::stand_alone>, divided},
        {"sliding_tiles_2d", dsl::ir_of<masks::sliding_tiles_2d>, divided},
        {"sliding_tiles_3d", dsl::ir_of<masks::sliding_tiles_3d>, divided},
        {"real_tokens", dsl::ir_of<masks::real_tokens>, divided},
        {"tile_map", dsl::ir_of<masks::tile_map>, divided},
        {"chosen_tiles", dsl::ir_of<masks::chosen_tiles>, divided},
        {"spatial_head", dsl::ir_of<masks::spatial_head>, divided},
        {"temporal_head", dsl::ir_of<masks::temporal_head>, divided},
        {"block_diffusion", dsl::ir_of<masks::block_diffusion>, divided},
        {"draft_blocks", dsl::ir_of<masks::draft_blocks>, divided},
        {"vision", dsl::ir_of<masks::vision>, divided},
        {"tree_causal", dsl::ir_of<masks::tree_causal>, unbounded},
        {"draft_tree", dsl::ir_of<masks::draft_tree>, unbounded},
        {"dense_mask", dsl::ir_of<masks::dense_mask>, unbounded},
        {"packed_mask", dsl::ir_of<masks::packed_mask>, unbounded},
        {"joined_keys", dsl::ir_of<masks::joined_keys>, exact},
        {"selected", dsl::ir_of<masks::selected>, exact},
        {"softcap_then_mask", dsl::ir_of<masks::softcap_then_mask>, exact},
        {"checkerboard", dsl::ir_of<masks::checkerboard>, exact},
        {"conditional", dsl::ir_of<masks::conditional>, exact},
        {"varlen_distance", dsl::ir_of<masks::varlen_distance>, exact},
    };
}

generators::variant_notes notes_of(const entry& e) {
    const generators::variant of{std::string("masks::") + e.name, e.graph};
    const auto kernels = generators::kernels_of({&of, 1}, {.targets = {"x86-64-v3"}, .depths = {"64"}});
    return generators::notes_of({&of, 1}, kernels).at(0);
}

/// A graph in which one of the conditions hides pairs, and nothing else does.
class one_condition {
public:
    one_condition(const graph_ir& of, const std::string& condition)
        : graph_(of), nodes_(of.nodes.begin(), of.nodes.end()) {
        int scores = -1, found = -1;
        bool negated = false;
        for (int at = 0; at < static_cast<int>(of.nodes.size()); ++at) {
            const instruction& n = of.nodes[at];
            if (n.op == operation::contract) scores = at;
            if (n.kind != kind::condition) continue;
            const std::string text = generators::text_of(of, at);
            if (text == condition) found = at, negated = false;
            if ("!(" + text + ")" == condition) found = at, negated = true;
        }
        REQUIRE(scores >= 0);
        REQUIRE(found >= 0);
        if (negated) found = add(operation::logical_not, kind::condition, found);
        output_.node =
            node_at(add(operation::log_sum_exp, kind::row, add(operation::mask, kind::scores, scores, found)));
        prune();
        graph_.nodes = nodes_, graph_.outputs = {&output_, 1};
    }
    one_condition(const one_condition&) = delete;
    const graph_ir& graph() const { return graph_; }

private:
    template <class... At> int add(operation op, kind is, At... arguments) {
        nodes_.push_back(
            {.op = op, .kind = is, .argument_count = sizeof...(arguments), .arguments = {node_at(arguments)...}});
        return static_cast<int>(nodes_.size()) - 1;
    }

    /// Nodes of which the output is not made.
    void prune() {
        std::vector<int> place(nodes_.size(), -1);
        place.back() = 0;
        const auto used = [&](node_id at) -> int& { return place[static_cast<std::size_t>(at)]; };
        for (std::size_t at = nodes_.size(); at-- > 0;)
            for (std::size_t i = 0; place[at] == 0 && i < nodes_[at].argument_count; ++i)
                used(nodes_[at].arguments[i]) = 0;
        std::vector<instruction> kept;
        for (std::size_t at = 0; at < nodes_.size(); ++at) {
            if (place[at] < 0) continue;
            place[at] = static_cast<int>(kept.size());
            instruction& n = kept.emplace_back(nodes_[at]);
            for (std::size_t i = 0; i < n.argument_count; ++i) n.arguments[i] = node_at(used(n.arguments[i]));
        }
        output_.node = node_at(kept.size() - 1);
        nodes_ = std::move(kept);
    }

    graph_ir graph_;
    std::vector<instruction> nodes_;
    output_declaration output_{.name = "lse", .node = no_node};
};

/// The sentence about a condition, against the blocks of a graph that it alone decides.
void judge(const std::string& why, const lab_count& found) {
    CHECK(found.wrongly_skipped == 0);
    CHECK(found.wrongly_unmasked == 0);
    if (why.starts_with("skips nothing: "))
        CHECK(found.visited == found.blocks);
    else
        CHECK((found.visited < found.blocks || found.ideal == found.blocks));  // unless there is none to skip
    if (why.ends_with("visited blocks are masked pair by pair")) CHECK(found.must == 0);
}

}  // namespace

TEST_CASE("of every mask of the catalogue, blocks with a visible pair are visited, and few others") {
    const lab_inputs inputs = inputs_of_masks();
    std::printf("%-20s %9s %7s %7s %8s %7s %7s\n", "mask", "key block", "ideal", "visited", "", "whole", "no mask");
    for (const entry& e : entries()) {
        INFO(e.name);
        const generators::schedule cut = usual_schedule(e.graph);
        const lab_count found = count_blocks(e.graph, cut, inputs);
        std::printf("%-20s %9d %7d %7d %8.3f %7d %7d%s\n", e.name, generators::blocks_of(cut).key_block,
                    static_cast<int>(found.ideal), static_cast<int>(found.visited), found.excess(),
                    static_cast<int>(found.whole), static_cast<int>(found.must),
                    e.limit == unbounded ? "  (read at every pair)" : "");
        CHECK(found.wrongly_skipped == 0);
        CHECK(found.wrongly_unmasked == 0);
        CHECK(found.excess() <= e.limit);
        const auto conditions = notes_of(e).conditions;
        if (conditions.empty()) CHECK(found.visited == found.blocks);
        for (const auto& [text, why] : conditions) {
            INFO(text << ": " << why);
            judge(why,
                  conditions.size() == 1 ? found : count_blocks(one_condition(e.graph, text).graph(), cut, inputs));
        }
    }
}
