#include "tokenizer.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <limits>
#include <queue>

namespace language_model {
namespace {

constexpr std::int64_t control = 3, user_defined = 4, of_a_byte = 6;  // kinds of tokens, as llama.cpp numbers them
constexpr double never = std::numeric_limits<double>::infinity();
constexpr std::string_view blank = "\u2581";  // what SentencePiece writes for a space

struct character {
    utf8proc_int32_t code;  // -1: a byte that begins no character
    std::size_t bytes;
};
character first_of(std::string_view text) {
    utf8proc_int32_t code = -1;
    const auto bytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                        static_cast<utf8proc_ssize_t>(text.size()), &code);
    return bytes > 0 ? character{code, static_cast<std::size_t>(bytes)} : character{-1, 1};
}
std::string utf8(utf8proc_int32_t code) {
    std::array<utf8proc_uint8_t, 4> bytes{};
    const auto count = utf8proc_encode_char(code, bytes.data());
    return {reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(count)};
}

enum class sort { letter, number, space, other };
sort sort_of(utf8proc_int32_t code) {
    if (code < 0) return sort::other;
    const auto category = utf8proc_category(code);
    if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) return sort::letter;
    if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) return sort::number;
    const bool separates = category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP;
    return separates || (code >= 9 && code <= 13) || code == 0x85 ? sort::space : sort::other;
}

/// <0x00> to <0xFF>
bool is_byte(std::string_view piece) {
    const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); };
    return piece.size() == 6 && piece.starts_with("<0x") && is_digit(piece[3]) && is_digit(piece[4]) && piece[5] == '>';
}

/// The bytes that the next characters of a sort take.
std::size_t run_of(std::string_view text, sort of) {
    std::size_t at = 0;
    while (at < text.size()) {
        const character next = first_of(text.substr(at));
        if (sort_of(next.code) != of) break;
        at += next.bytes;
    }
    return at;
}

/// GPT-2's words, after each number became a word of its own: 's, 't, 're, 've, 'm, 'll, 'd; a space, or none, before
/// letters, or before neither letters, numbers nor spaces; spaces up to the last one before something else.
std::size_t word_of(std::string_view text) {
    for (const std::string_view each : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
        if (text.starts_with(each)) return each.size();
    const std::size_t space = text.front() == ' ' ? 1 : 0;
    if (space < text.size()) {
        const sort of = sort_of(first_of(text.substr(space)).code);
        if (of == sort::letter || of == sort::other) return space + run_of(text.substr(space), of);
    }
    const character first = first_of(text);
    if (sort_of(first.code) == sort::number) return first.bytes;
    const std::size_t spaces = run_of(text, sort::space);
    if (spaces == text.size() || sort_of(first_of(text.substr(spaces)).code) == sort::number) return spaces;
    std::size_t last = spaces - 1;
    while (last > 0 && (text[last] & 0xc0) == 0x80) --last;
    return last > 0 ? last : spaces;
}

/// The characters by which GPT-2 writes bytes, and back: those that print stand for themselves.
struct byte_names {
    std::array<std::string, 256> of;
    std::unordered_map<utf8proc_int32_t, char> byte_of;
    byte_names() {
        utf8proc_int32_t next = 256;
        for (int byte = 0; byte < 256; ++byte) {
            const bool prints = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
            const auto code = prints ? byte : next++;
            of[static_cast<std::size_t>(byte)] = utf8(code);
            byte_of[code] = static_cast<char>(byte);
        }
    }
};
const byte_names& names() {
    static const byte_names all;
    return all;
}

}  // namespace

tokenizer::tokenizer(const gguf& file)
    : pieces_(file.get<std::vector<std::string_view>>("tokenizer.ggml.tokens")),
      kinds_(file.get<std::vector<std::int64_t>>("tokenizer.ggml.token_type")),
      end_(static_cast<std::int32_t>(file.get<std::int64_t>("tokenizer.ggml.eos_token_id"))) {
    if (pieces_.empty() || kinds_.size() != pieces_.size())
        file.refuse("expected a token_type for each of " + std::to_string(pieces_.size()) + " tokens, got " +
                    std::to_string(kinds_.size()));
    const auto model = file.get<std::string_view>("tokenizer.ggml.model");
    const auto words = file.get<std::string_view>("tokenizer.ggml.pre", "default");
    if (model == "llama") {
        scores_ = &file.get<std::vector<double>>("tokenizer.ggml.scores");
        if (scores_->size() != pieces_.size()) file.refuse("expected a score for each token, got others");
        if (file.get<std::int64_t>("tokenizer.ggml.add_space_prefix", 1) != 0)
            file.refuse("expected the tokens of a Gemma, which put no space before a text, got others");
    } else if (model == "gpt2" && words == "smollm") {
        for (const std::string_view each : file.get<std::vector<std::string_view>>("tokenizer.ggml.merges"))
            ranks_.emplace(each, static_cast<std::int32_t>(ranks_.size()));
    } else {
        file.refuse("expected the tokens of a SmolLM or a Gemma, got tokenizer.ggml.model " + std::string(model) +
                    " with " + std::string(words) + " words");
    }
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
        number_of_.emplace(pieces_[i], static_cast<std::int32_t>(i));
        if (kinds_[i] == of_a_byte && !is_byte(pieces_[i]))
            file.refuse("expected tokens of bytes as <0x00> to <0xFF>, got " + std::string(pieces_[i]));
        if (kinds_[i] == control || kinds_[i] == user_defined)
            longest_special_ = std::max(longest_special_, pieces_[i].size());
    }
    // Where the file does not say it, as llama.cpp does.
    if (file.get<std::int64_t>("tokenizer.ggml.add_bos_token", model == "llama") != 0) {
        begin_ = static_cast<std::int32_t>(file.get<std::int64_t>("tokenizer.ggml.bos_token_id"));
        if (begin_ < 0 || static_cast<std::size_t>(begin_) >= pieces_.size())
            file.refuse("expected bos_token_id to be a token, got " + std::to_string(begin_));
    }
}

std::vector<std::int32_t> tokenizer::operator()(std::string_view text) const {
    std::vector<std::int32_t> tokens;
    if (begin_ >= 0) tokens.push_back(begin_);
    std::size_t begin = 0;  // of the text since the last special token
    for (std::size_t at = 0; at < text.size();) {
        const auto special = [&](std::size_t bytes) {
            const auto found = number_of_.find(text.substr(at, bytes));
            if (found == number_of_.end()) return -1;
            const auto kind = kinds_[static_cast<std::size_t>(found->second)];
            return kind == control || kind == user_defined ? found->second : -1;
        };
        std::size_t bytes = std::min(longest_special_, text.size() - at);
        while (bytes > 0 && special(bytes) < 0) --bytes;
        if (bytes == 0) {
            ++at;
            continue;
        }
        cut(text.substr(begin, at - begin), tokens);
        tokens.push_back(special(bytes));
        begin = at += bytes;
    }
    cut(text.substr(begin), tokens);
    return tokens;
}

void tokenizer::cut(std::string_view text, std::vector<std::int32_t>& into) const {
    if (scores_ == nullptr) return cut_words(text, into);
    std::string written;
    for (const char each : text) written += each == ' ' ? std::string(blank) : std::string(1, each);
    merge(written, into);
}

void tokenizer::cut_words(std::string_view text, std::vector<std::int32_t>& into) const {
    while (!text.empty()) {
        const std::size_t bytes = word_of(text);
        std::string written;
        for (const char each : text.substr(0, bytes)) written += names().of[static_cast<unsigned char>(each)];
        merge(written, into);
        text.remove_prefix(bytes);
    }
}

double tokenizer::rank_of(std::string_view left, std::string_view right) const {
    if (scores_ == nullptr) {
        const auto found = ranks_.find(std::string(left) + ' ' + std::string(right));
        return found == ranks_.end() ? never : found->second;
    }
    const auto found = number_of_.find(std::string_view(left.data(), left.size() + right.size()));  // side by side
    return found == number_of_.end() ? never : -(*scores_)[static_cast<std::size_t>(found->second)];
}

/// Of all neighbours those of the least rank become one, of equal ones the first, until none are left.
void tokenizer::merge(std::string_view word, std::vector<std::int32_t>& into) const {
    struct part {
        std::string_view text;  // empty: it belongs to an earlier one
        std::size_t before, behind;
    };
    std::vector<part> parts;
    for (std::size_t at = 0; at < word.size(); at += parts.back().text.size())
        parts.push_back({word.substr(at, first_of(word.substr(at)).bytes), parts.size() - 1, parts.size() + 1});
    struct pair {
        double rank;
        std::size_t left, bytes;  // of both
        bool operator<(const pair& other) const { return rank != other.rank ? rank > other.rank : left > other.left; }
    };
    std::priority_queue<pair> pairs;
    const auto look = [&](std::size_t left) {
        if (left >= parts.size() || parts[left].behind >= parts.size()) return;
        const std::string_view right = parts[parts[left].behind].text;
        const double rank = rank_of(parts[left].text, right);
        if (rank != never) pairs.push({rank, left, parts[left].text.size() + right.size()});
    };
    for (std::size_t i = 0; i < parts.size(); ++i) look(i);
    while (!pairs.empty()) {
        const pair best = pairs.top();
        pairs.pop();
        part& left = parts[best.left];
        if (left.text.empty() || left.behind >= parts.size()) continue;
        part& right = parts[left.behind];
        if (left.text.size() + right.text.size() != best.bytes) continue;  // one of them has grown since
        left.text = std::string_view(left.text.data(), best.bytes);
        right.text = {};
        left.behind = right.behind;
        if (left.behind < parts.size()) parts[left.behind].before = best.left;
        look(best.left);
        look(left.before);
    }
    for (const part& each : parts) {
        if (each.text.empty()) continue;
        const auto found = number_of_.find(each.text);
        if (found != number_of_.end()) {
            into.push_back(found->second);
            continue;
        }
        constexpr char digits[] = "0123456789ABCDEF";
        for (const char byte : each.text) {
            const auto number = static_cast<unsigned char>(byte);
            const std::string name = std::string("<0x") + digits[number >> 4] + digits[number & 15] + ">";
            const auto piece = number_of_.find(name);
            if (piece != number_of_.end()) into.push_back(piece->second);
        }
    }
}

std::string tokenizer::text_of(std::int32_t token) const {
    const auto at = static_cast<std::size_t>(token);
    std::string_view piece = pieces_.at(at);
    if (kinds_[at] == control) return {};
    if (kinds_[at] == of_a_byte) return {static_cast<char>(std::stoi(std::string(piece.substr(3, 2)), nullptr, 16))};
    std::string text;
    while (!piece.empty()) {
        const character next = first_of(piece);
        if (scores_ != nullptr) {
            text += piece.starts_with(blank) ? std::string(" ") : std::string(piece.substr(0, next.bytes));
        } else {
            const auto byte = names().byte_of.find(next.code);
            if (byte != names().byte_of.end()) text += byte->second;
        }
        piece.remove_prefix(next.bytes);
    }
    return text;
}

}  // namespace language_model
