// The text of a graph is compared with what is committed in texts.txt; ATTUNE_UPDATE_TEXTS=1 writes that file anew.
#include "variants.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

namespace {

using text_by_graph = std::map<std::string, std::string>;

const std::string heading = "=== ";  // and the graph's name, before the lines of its text

text_by_graph read_texts() {
    text_by_graph texts;
    std::ifstream file(ATTUNE_TEXTS);
    std::string* text = nullptr;
    for (std::string line; std::getline(file, line);)
        if (line.starts_with(heading))
            text = &texts[line.substr(heading.size())];
        else if (text && !line.empty())
            *text += line + "\n";
    return texts;
}

void write_texts(const text_by_graph& texts) {
    std::ofstream file(ATTUNE_TEXTS);
    for (const char* between = ""; const auto& [name, text] : texts) {
        file << between << heading << name << "\n" << text;
        between = "\n";
    }
}

template <const auto& Graph> void check_text(const std::string& name) {
    const std::string text = std::string(attune::dsl::description<Graph>) + "\n";
    text_by_graph texts = read_texts();
    if (std::getenv("ATTUNE_UPDATE_TEXTS")) {
        texts[name] = text;
        write_texts(texts);
    }
    INFO("expected the text of " << name << " in " << ATTUNE_TEXTS);
    REQUIRE(texts.contains(name));
    CHECK(text == texts[name]);
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
CHECK_TEXT(quantised_blocks)
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
CHECK_TEXT(gated_delta)
CHECK_TEXT(retained)
CHECK_TEXT(before_token)
CHECK_TEXT(convolved)
