#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sentence_embeddings {

/// WordPiece as BERT's uncased models use it (Devlin et al. 2019): text in lower case without accents, cut at blanks, punctuation and around
/// CJK characters; each word is then the longest pieces of the vocabulary that it starts with, continued by pieces that begin with "##".
class tokenizer {
public:
    /// Reads vocab.txt, a piece a line, numbered from 0. Throws std::runtime_error where it cannot be read or lacks [UNK], [CLS] or [SEP].
    explicit tokenizer(const std::filesystem::path& vocabulary);

    /// [CLS] pieces... [SEP], at most `longest` of them in all. Bytes that are not UTF-8 are left out.
    std::vector<std::int32_t> operator()(std::string_view sentence, std::size_t longest) const;

    std::size_t size() const { return pieces_.size(); }

private:
    void cut_word(const std::string& word, std::vector<std::int32_t>& into) const;

    struct hash : std::hash<std::string_view> {
        using is_transparent = void;
    };
    std::unordered_map<std::string, std::int32_t, hash, std::equal_to<>> pieces_;
    std::int32_t unknown_, begin_, end_;
};

}  // namespace sentence_embeddings
