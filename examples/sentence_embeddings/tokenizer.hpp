#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sentence_embeddings {

/// The lines of a text that are not blank. Throws std::runtime_error where it cannot be read or has none.
std::vector<std::string> sentences_of(const std::filesystem::path& text);

/// WordPiece as BERT's uncased models use it (Devlin et al. 2019): text in lower case without accents, cut at blanks,
/// punctuation and around CJK characters; each word is then the longest pieces of the vocabulary that it starts with,
/// continued by pieces that begin with "##".
class tokenizer {
public:
    /// Reads vocab.txt, a piece a line, numbered from 0. Throws std::runtime_error where it cannot be read or lacks
    /// [PAD], [UNK], [CLS], [SEP] or [MASK].
    explicit tokenizer(const std::filesystem::path& vocabulary);

    /// [CLS] pieces... [SEP], at most `longest` of them in all, which is 2 or more. Bytes that are not UTF-8 are left
    /// out; [PAD], [UNK], [CLS], [SEP] and [MASK] in a sentence stand for those pieces.
    std::vector<std::int32_t> operator()(std::string_view sentence, std::size_t longest) const;

    std::int64_t size() const { return size_; }  ///< of the vocabulary

private:
    void cut(std::string_view text, std::vector<std::int32_t>& into, std::size_t longest) const;
    void cut_word(const std::string& word, std::vector<std::int32_t>& into) const;

    std::int32_t number_of(std::string_view piece) const;

    struct hash : std::hash<std::string_view> {
        using is_transparent = void;
    };
    std::filesystem::path path_;
    std::unordered_map<std::string, std::int32_t, hash, std::equal_to<>> pieces_;
    std::int32_t size_{}, unknown_{}, begin_{}, end_{};
};

}  // namespace sentence_embeddings
