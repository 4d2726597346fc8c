#pragma once
#include "gguf.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace language_model {

/// Text to tokens and back, by a GGUF's own vocabulary: byte pairs merged by rank as GPT-2 does (Sennrich et al. 2016,
/// over SmolLM's words), or characters merged by score as SentencePiece does (Kudo and Richardson 2018, Gemma).
class tokenizer {
public:
    /// Throws std::runtime_error where the file has another kind of vocabulary. The file must outlive it.
    explicit tokenizer(const gguf& file);

    /// With the token that begins a text, where the model has one. Special tokens in the text stand for themselves.
    std::vector<std::int32_t> operator()(std::string_view text) const;
    /// The bytes of a token; none of a control token. A character may begin in one token and end in the next.
    std::string text_of(std::int32_t token) const;
    bool ends(std::int32_t token) const { return token == end_; }

private:
    void cut(std::string_view text, std::vector<std::int32_t>& into) const;
    void cut_words(std::string_view text, std::vector<std::int32_t>& into) const;
    void merge(std::string_view word, std::vector<std::int32_t>& into) const;
    /// Where two parts may become one: how late, and the less the earlier.
    double rank_of(std::string_view left, std::string_view right) const;

    const std::vector<std::string_view>& pieces_;
    const std::vector<std::int64_t>& kinds_;
    const std::vector<double>* scores_{};  ///< nullptr: by ranks
    std::unordered_map<std::string_view, std::int32_t> number_of_;
    std::unordered_map<std::string, std::int32_t> ranks_;
    std::int32_t begin_ = -1, end_;
    std::size_t longest_special_ = 0;
};

}  // namespace language_model
