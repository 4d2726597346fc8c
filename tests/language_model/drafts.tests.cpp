// Drafts: how they are found, and that what the model makes of a tree of them is what it makes of each path in a row.
#include "drafts.hpp"
#include "model.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace {
using namespace language_model;
using tokens = std::vector<std::int32_t>;

/// The most that a logit of a tree may be off from that in a row. Caches round keys and values, whose last bits depend
/// on how many rows are multiplied at once.
struct kind {
    const char* name;
    float within;
};
constexpr kind kinds[] = {{"f32", 1e-4f}, ATTUNE_MORE_CACHES};

const model& tiny(const char* name) {
    static const gguf llama_file(std::string(ATTUNE_TINY_MODELS) + "/tiny_llama.gguf"),
        gemma_file(std::string(ATTUNE_TINY_MODELS) + "/tiny_gemma.gguf");
    static const model llama(llama_file, weight_type::f32, [](int) {}), gemma(gemma_file, weight_type::f32, [](int) {});
    return name == std::string("llama") ? llama : gemma;
}

/// Logits of each token of a step in which all sequences go on with their tokens in a row.
std::vector<float> in_a_row(const model& of, cache& past, std::vector<std::int32_t>& stored,
                            const std::vector<tokens>& all) {
    step s;
    for (std::size_t i = 0; i < all.size(); ++i) {
        s.tokens.insert(s.tokens.end(), all[i].begin(), all[i].end());
        s.starts.push_back(static_cast<std::int32_t>(s.tokens.size()));
        s.lengths.push_back(stored[i] += static_cast<std::int32_t>(all[i].size()));
    }
    return of(s, past, true);
}

/// The last row of logits behind a text that is read at once.
std::vector<float> behind(const model& of, const char* kind, const tokens& text) {
    const auto past = make_cache(kind, of.shape(), 1, 64);
    std::vector<std::int32_t> stored{0};
    const std::vector<float> all = in_a_row(of, *past, stored, {text});
    return {all.end() - of.shape().vocabulary, all.end()};
}

float difference(std::span<const float> got, const std::vector<float>& expected) {
    float most = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) most = std::max(most, std::abs(got[i] - expected[i]));
    return most;
}

draft_tree tree_of(const tokens& parents, std::int32_t first) {
    draft_tree made(first);
    for (std::size_t i = 1; i < parents.size(); ++i) made.grow(parents[i], first + static_cast<std::int32_t>(i));
    return made;
}

tokens path_to(const draft_tree& tree, std::int32_t draft) {
    tokens path;
    for (; draft >= 0; draft = tree.parents[static_cast<std::size_t>(draft)])
        path.insert(path.begin(), tree.tokens[static_cast<std::size_t>(draft)]);
    return path;
}

tokens joined(tokens first, const tokens& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

void check_trees(const char* name, const kind& of_cache) {
    INFO(name << ", cache " << of_cache.name);
    const model& of = tiny(name);
    const auto vocabulary = static_cast<std::size_t>(of.shape().vocabulary);
    const std::vector<tokens> prompts{{72, 115, 17, 40, 41, 42, 9, 88, 73, 31, 52}, {20, 21, 60}};
    const draft_tree trees[] = {tree_of({-1, 0, 1, 0, 3, 3, 4, 6, 0}, 90), tree_of({-1, 0, 0, 2, 2, 1}, 30)};
    const auto past = make_cache(of_cache.name, of.shape(), 2, 64);
    std::vector<std::int32_t> stored{0, 0};
    in_a_row(of, *past, stored, prompts);

    step s;
    s.most_drafts = 9;
    for (std::size_t i = 0; i < 2; ++i) {
        const auto drafts = static_cast<std::int32_t>(trees[i].tokens.size());
        s.tokens = joined(s.tokens, trees[i].tokens), s.levels = joined(s.levels, trees[i].levels);
        s.starts.push_back(static_cast<std::int32_t>(s.tokens.size()));
        s.lengths.push_back(stored[i] + drafts);
        for (std::int32_t draft = 0; draft < drafts; ++draft)
            for (std::int32_t other = 0; other < s.most_drafts; ++other) s.above.push_back(trees[i].sees(draft, other));
    }
    const std::vector<float> logits = of(s, *past, true);
    for (std::size_t i = 0; i < 2; ++i)
        for (std::size_t draft = 0; draft < trees[i].tokens.size(); ++draft) {
            const auto row =
                std::span(logits).subspan((static_cast<std::size_t>(s.starts[i]) + draft) * vocabulary, vocabulary);
            const tokens path = path_to(trees[i], static_cast<std::int32_t>(draft));
            CHECK(difference(row, behind(of, of_cache.name, joined(prompts[i], path))) <= of_cache.within);
        }

    // The path to draft 7 is accepted, of which but the root no draft stands where it would in a row.
    const tokens path = path_to(trees[0], 7);
    REQUIRE(path == tokens{90, 93, 94, 96, 97});
    for (const auto& [draft, level] : {std::pair(3, 1), {4, 2}, {6, 3}, {7, 4}})
        past->move(0, stored[0] + draft, stored[0] + level);
    stored[0] += static_cast<std::int32_t>(path.size());
    const std::vector<float> next = in_a_row(of, *past, stored, {{15}, {}});
    CHECK(difference(next, behind(of, of_cache.name, joined(joined(prompts[0], path), {15}))) <= of_cache.within);
}

}  // namespace

TEST_CASE("drafts are what followed the last tokens before", "[language_model]") {
    const tokens text{1, 2, 3, 7, 8, 5, 2, 3, 9, 4, 1, 2, 3};
    const draft_tree found = look_up(text, 6, 3);  // behind 1 2 3: 7 8 5; behind 2 3: 9 4 1, then 7 8 5 again
    CHECK(found.tokens == tokens{3, 7, 8, 5, 9, 4, 1});
    CHECK(found.parents == tokens{-1, 0, 1, 2, 0, 4, 5});
    CHECK(found.levels == tokens{0, 1, 2, 3, 1, 2, 3});
    CHECK(found.sees(6, 4));
    CHECK_FALSE(found.sees(6, 3));
    CHECK(look_up(text, 4, 3).tokens == tokens{3, 7, 8, 5, 9});
    CHECK(look_up(text, 0, 3).tokens == tokens{3});
    CHECK(look_up(tokens{1, 2, 3}, 6, 3).tokens == tokens{3});
    CHECK(look_up(tokens{1}, 6, 3).tokens == tokens{1});
    const draft_tree joint = look_up(tokens{6, 1, 2, 6, 1, 3, 6}, 6, 2);  // two ways on that begin alike
    CHECK(joint.tokens == tokens{6, 1, 3, 2});
    CHECK(joint.parents == tokens{-1, 0, 1, 1});
}

TEST_CASE("logits of a tree of drafts are those of its paths in a row", "[language_model]") {
    for (const kind& each : kinds)
        for (const char* const name : {"llama", "gemma"}) check_trees(name, each);
}
