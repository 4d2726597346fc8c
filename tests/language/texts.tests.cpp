// The text of a graph is compared with a committed file; ATTUNE_UPDATE_TEXTS=1 writes the files anew.
#include "variants.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace {

template <const auto& Graph> void check_text(const std::string& name) {
    const std::filesystem::path file = std::filesystem::path(ATTUNE_TEXTS) / (name + ".txt");
    const std::string text = std::string(attune::dsl::description<Graph>) + "\n";
    if (std::getenv("ATTUNE_UPDATE_TEXTS")) std::ofstream(file) << text;
    std::ifstream in(file);
    INFO("expected text in " << file);
    REQUIRE(in);
    std::stringstream expected;
    expected << in.rdbuf();
    CHECK(text == expected.str());
}

}  // namespace

#define CHECK_TEXT(graph) \
    TEST_CASE("text of " #graph, "[language]") { check_text<variants::graph>(#graph); }
CHECK_TEXT(plain)
CHECK_TEXT(causal_attention)
CHECK_TEXT(bottom_right_window)
CHECK_TEXT(alibi)
CHECK_TEXT(alibi_by_formula)
CHECK_TEXT(capped)
CHECK_TEXT(documents)
CHECK_TEXT(longformer)
CHECK_TEXT(relative)
CHECK_TEXT(integers)
CHECK_TEXT(masked_by_where)
CHECK_TEXT(fractions)
CHECK_TEXT(padded)
CHECK_TEXT(two_outputs)
CHECK_TEXT(functions)
CHECK_TEXT(elementary)
CHECK_TEXT(rectifiers)
CHECK_TEXT(whole_numbers)
CHECK_TEXT(classified)
CHECK_TEXT(conditions)
CHECK_TEXT(bits)
CHECK_TEXT(paths)
CHECK_TEXT(packed_documents)
CHECK_TEXT(everywhere)
CHECK_TEXT(buckets)
CHECK_TEXT(signs)
CHECK_TEXT(rotary)
CHECK_TEXT(rotary_normalised)
CHECK_TEXT(dequantised)
CHECK_TEXT(quantised_queries)
CHECK_TEXT(selected)
CHECK_TEXT(sunk)
CHECK_TEXT(plus_one)
CHECK_TEXT(dropped)
CHECK_TEXT(sigmoid_attention)
CHECK_TEXT(rectified)
CHECK_TEXT(everything)
CHECK_TEXT(merged)
CHECK_TEXT(appended)
CHECK_TEXT(trained)
CHECK_TEXT(trained_layer)
CHECK_TEXT(sharded)
CHECK_TEXT(named_like_words)
CHECK_TEXT(stepped)
CHECK_TEXT(chosen_blocks)
CHECK_TEXT(differential)
