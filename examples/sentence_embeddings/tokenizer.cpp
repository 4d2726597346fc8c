#include "tokenizer.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <stdexcept>

namespace sentence_embeddings {
namespace {

using character = utf8proc_int32_t;

constexpr std::string_view special_pieces[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

bool is_blank(character c) {
    if (c == '\t' || c == '\n' || c == '\r') return true;
    const auto category = utf8proc_category(c);
    return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

/// As is_blank, and the controls that separate: what text is stripped of at its ends.
bool is_blank_or_separator(character c) {
    return is_blank(c) || c == 0x0b || c == 0x0c || (c >= 0x1c && c <= 0x1f) || c == 0x85;
}

bool is_control(character c) {
    if (c == 0 || c == 0xfffd) return true;
    const auto category = utf8proc_category(c);
    return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO ||
           category == UTF8PROC_CATEGORY_CS;
}

/// ASCII's symbols count as punctuation too.
bool is_punctuation(character c) {
    if (c < 128) return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
    const auto category = utf8proc_category(c);
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

/// The blocks of Chinese characters, each of which is a word of its own; Hangul, Hiragana and Katakana are not among
/// them.
bool is_ideograph(character c) {
    constexpr std::pair<character, character> blocks[] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df},
                                                          {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf},
                                                          {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
    for (const auto& [first, last] : blocks)
        if (c >= first && c <= last) return true;
    return false;
}

void append(std::string& word, character c) {
    std::array<utf8proc_uint8_t, 4> bytes;
    const auto count = utf8proc_encode_char(c, bytes.data());
    word.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(count));
}

/// Calls `visit` with each character of the text, decomposed, without its accents and in lower case.
template <class Visit> void each_plain(character c, Visit&& visit) {
    std::array<character, 32> parts;
    int boundary = 0;
    const auto count = utf8proc_decompose_char(c, parts.data(), parts.size(), UTF8PROC_DECOMPOSE, &boundary);
    for (utf8proc_ssize_t i = 0; i < count; ++i)
        if (utf8proc_category(parts[static_cast<std::size_t>(i)]) != UTF8PROC_CATEGORY_MN)
            visit(utf8proc_tolower(parts[static_cast<std::size_t>(i)]));
}

/// Calls `visit` with each character of the text; bytes that are none are passed over.
template <class Visit> void each_character(std::string_view text, Visit&& visit) {
    const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
    const auto* const end = at + text.size();
    while (at < end) {
        character c;
        const auto bytes = utf8proc_iterate(at, end - at, &c);
        at += bytes > 0 ? bytes : 1;
        if (bytes > 0) visit(c);
    }
}

std::vector<std::string> words_of(std::string_view text) {
    std::vector<std::string> words;
    std::string word;
    const auto finish = [&] {
        if (!word.empty()) words.push_back(std::move(word));
        word.clear();
    };
    each_character(text, [&](character c) {
        if (is_blank(c)) return finish();
        if (is_control(c)) return;
        each_plain(c, [&](character plain) {
            const bool alone = is_punctuation(plain) || is_ideograph(c);
            if (alone) finish();
            append(word, plain);
            if (alone) finish();
        });
    });
    finish();
    return words;
}

std::size_t characters_in(std::string_view word) {
    std::size_t count = 0;
    for (const char byte : word) count += (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
    return count;
}

std::ifstream opened(const std::filesystem::path& path, const char* what) {
    std::ifstream in(path, std::ios::binary);
    if (!in || std::filesystem::is_directory(path))
        throw std::runtime_error(path.string() + ": expected " + what + ", got nothing that can be read");
    return in;
}

}  // namespace

std::vector<std::string> sentences_of(const std::filesystem::path& text) {
    std::ifstream in = opened(text, "a text, a sentence a line");
    std::vector<std::string> sentences;
    for (std::string line; std::getline(in, line);) {
        if (!line.empty() && line.back() == '\r') line.pop_back();
        bool blank = true;
        each_character(line, [&](character c) { blank = blank && is_blank_or_separator(c); });
        if (!blank) sentences.push_back(line);
    }
    if (sentences.empty())
        throw std::runtime_error(text.string() + ": expected a sentence a line, got no line that is not blank");
    return sentences;
}

tokenizer::tokenizer(const std::filesystem::path& vocabulary) : path_(vocabulary) {
    std::ifstream in = opened(vocabulary, "a vocabulary, a piece a line");
    std::string piece;
    for (; std::getline(in, piece); ++size_) {
        if (!piece.empty() && piece.back() == '\r') piece.pop_back();
        pieces_.emplace(piece, size_);
    }
    for (const std::string_view name : special_pieces) number_of(name);
    unknown_ = number_of("[UNK]"), begin_ = number_of("[CLS]"), end_ = number_of("[SEP]");
}

std::int32_t tokenizer::number_of(std::string_view piece) const {
    const auto found = pieces_.find(piece);
    if (found == pieces_.end())
        throw std::runtime_error(path_.string() + ": expected the piece " + std::string(piece) +
                                 ", as vocabularies of BERT models have it; got none");
    return found->second;
}

void tokenizer::cut_word(const std::string& word, std::vector<std::int32_t>& into) const {
    const std::size_t before = into.size();
    constexpr std::size_t longest_word = 100;  // characters; what is longer is unknown as a whole
    if (characters_in(word) <= longest_word) {
        std::string piece;
        std::size_t at = 0;
        while (at < word.size()) {
            std::size_t end = word.size();
            for (; end > at; --end) {
                piece.assign(at > 0 ? "##" : "").append(word, at, end - at);
                if (const auto found = pieces_.find(piece); found != pieces_.end()) {
                    into.push_back(found->second);
                    break;
                }
            }
            if (end == at) break;
            at = end;
        }
        if (at == word.size()) return;
    }
    into.resize(before);
    into.push_back(unknown_);
}

void tokenizer::cut(std::string_view text, std::vector<std::int32_t>& into, std::size_t longest) const {
    for (const std::string& word : words_of(text)) {
        if (into.size() >= longest) return;
        cut_word(word, into);
    }
}

std::vector<std::int32_t> tokenizer::operator()(std::string_view sentence, std::size_t longest) const {
    std::vector<std::int32_t> tokens{begin_};
    std::size_t done = 0;
    for (std::size_t at = sentence.find('['); at != std::string_view::npos; at = sentence.find('[', at + 1)) {
        for (const std::string_view name : special_pieces) {
            if (!sentence.substr(at).starts_with(name)) continue;
            cut(sentence.substr(done, at - done), tokens, longest);
            tokens.push_back(number_of(name));
            done = at + name.size();
        }
    }
    cut(sentence.substr(done), tokens, longest);
    tokens.resize(std::min(tokens.size(), longest - 1));
    tokens.push_back(end_);
    return tokens;
}

}  // namespace sentence_embeddings
