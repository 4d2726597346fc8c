// Sentences of a text, and their pieces of a vocabulary; numbers as the tokenizers of models give them.
#include "tokenizer.hpp"
#include "model_file.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <stdexcept>

using namespace sentence_embeddings;
using namespace sentence_embeddings::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

const std::vector<std::string> pieces = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##aff", "##able",
                                         "a",     "##ff",  "naive", "cafe",  "東",     "京", "は",    "!",
                                         "'",     "don",   "t",     "$",     "^",      "—",  "。",    "[",
                                         "]",     "b",     "##b",   "ε",     "ᄒ",     "##ᅡ"};

tokenizer small() {
    const auto path = file_named("vocab.txt");
    std::string text;
    for (const std::string& piece : pieces) text += piece + "\n";
    write(path, text);
    return tokenizer(path);
}

/// The pieces between [CLS] and [SEP], as text.
std::string cut(const std::string& sentence, std::size_t longest = 256) {
    static const tokenizer pieces_of = small();
    const std::vector<std::int32_t> numbers = pieces_of(sentence, longest);
    REQUIRE(numbers.size() >= 2);
    CHECK(pieces.at(static_cast<std::size_t>(numbers.front())) == "[CLS]");
    CHECK(pieces.at(static_cast<std::size_t>(numbers.back())) == "[SEP]");
    std::string text;
    for (std::size_t i = 1; i + 1 < numbers.size(); ++i)
        text += (i > 1 ? " " : "") + pieces.at(static_cast<std::size_t>(numbers[i]));
    return text;
}

std::vector<std::string> lines_of(const std::string& text) {
    const auto path = file_named("text.txt");
    write(path, text);
    return sentences_of(path);
}

}  // namespace

TEST_CASE("tokenizer: a word is the longest pieces that it starts with, or unknown as a whole") {
    CHECK(cut("unaffable") == "un ##aff ##able");
    CHECK(cut("aff") == "a ##ff");
    CHECK(cut("unaffx a") == "[UNK] a");
    CHECK(cut(std::string(100, 'b')).size() == 1 + 99 * 4);
    CHECK(cut(std::string(101, 'b')) == "[UNK]");
    CHECK(cut("") == "");
}

TEST_CASE("tokenizer: lower case, without accents, composed or not") {
    CHECK(cut("NAÏVE Café") == "naive cafe");
    CHECK(cut("nai\xcc\x88ve cafe\xcc\x81") == "naive cafe");
    CHECK(cut("\xce\x88") == "ε");           // a capital epsilon with an accent
    CHECK(cut("\xed\x95\x98") == "ᄒ ##ᅡ");  // a Hangul syllable comes apart
}

TEST_CASE("tokenizer: each ideograph is a word, kana are not") {
    CHECK(cut("東京は") == "東 京 は");
    CHECK(cut("a東b") == "a 東 b");
    CHECK(cut("はは") == "[UNK]");
}

TEST_CASE("tokenizer: punctuation and the symbols of ASCII stand alone") {
    CHECK(cut("don't!") == "don ' t !");
    CHECK(cut("a$b^a") == "a $ b ^ a");
    CHECK(cut("a—b。") == "a — b 。");
    CHECK(cut("a+b") == "a [UNK] b");
}

TEST_CASE("tokenizer: blanks of any kind separate, controls and broken bytes vanish") {
    CHECK(cut("  a \t b\xc2\xa0"
              "a\xe3\x80\x80"
              "b  ") == "a b a b");
    CHECK(cut("a\x01"
              "\xe2\x80\x8b\xef\xbb\xbf"
              "ff") == "a ##ff");
    CHECK(cut("a\xff\xc3"
              "ff") == "a ##ff");
    CHECK(cut(std::string("a\0b", 3)) == "a ##b");
}

TEST_CASE("tokenizer: special pieces in a sentence are themselves") {
    CHECK(cut("a[MASK]b [SEP]") == "a [MASK] b [SEP]");
    CHECK(cut("[[MASK]]") == "[ [MASK] ]");
    CHECK(cut("[mask]") == "[ [UNK] ]");
}

TEST_CASE("tokenizer: a sentence is cut off behind so many pieces") {
    std::string many;
    for (int i = 0; i < 300; ++i) many += "a ";
    CHECK(small()(many, 256).size() == 256);
    CHECK(cut("unaffable a", 4) == "un ##aff");
    CHECK(cut("unaffable a", 5) == "un ##aff ##able");
    CHECK(cut("unaffable a", 6) == "un ##aff ##able a");
    CHECK(cut("a [MASK] b", 4) == "a [MASK]");
    CHECK(cut("a b", 2) == "");
}

TEST_CASE("tokenizer: vocabularies with line ends of either kind; those of other models are refused") {
    const auto path = file_named("other.txt");
    write(path, "[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\n[MASK]\r\na\r\n");
    const tokenizer other(path);
    CHECK(other.size() == 6);
    CHECK(other("a b", 256) == std::vector<std::int32_t>{2, 5, 1, 3});
    write(path, "[PAD]\n[UNK]\n[CLS]\n[MASK]\na\n");
    const auto refuses = [](const std::filesystem::path& file, const std::string& sentence) {
        CHECK_THROWS_MATCHES(tokenizer(file), std::runtime_error,
                             MessageMatches(ContainsSubstring(file.string() + ": expected " + sentence)));
    };
    refuses(path, "the piece [SEP], as vocabularies of BERT models have it; got none");
    refuses(path.parent_path(), "a vocabulary, a piece a line, got nothing that can be read");
}

TEST_CASE("sentences: lines that are not blank, whatever ends them") {
    CHECK(lines_of("one\n\n  two \r\n \t \r\n\xe3\x80\x80\xc2\xa0\nthree") ==
          std::vector<std::string>{"one", "  two ", "three"});
    const auto nothing = MessageMatches(ContainsSubstring("expected a sentence a line, got no line that is not blank"));
    CHECK_THROWS_MATCHES(lines_of(""), std::runtime_error, nothing);
    CHECK_THROWS_MATCHES(lines_of(" \n\t\n"), std::runtime_error, nothing);
    CHECK_THROWS_MATCHES(
        sentences_of(file_named("absent.txt")), std::runtime_error,
        MessageMatches(ContainsSubstring("expected a text, a sentence a line, got nothing that can be read")));
}
