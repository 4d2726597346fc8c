#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace language_model {

/// Continuations of a text that may be right, those that begin alike joined: a tree whose root is the text's last
/// token. A parent stands before its children.
struct draft_tree {
    std::vector<std::int32_t> tokens, parents, levels;  ///< the root's parent is -1, its level 0

    explicit draft_tree(std::int32_t root) : tokens{root}, parents{-1}, levels{0} {}
    /// The child of a draft with that token, or -1.
    std::int32_t child(std::int32_t parent, std::int32_t token) const;
    /// That child, which is added where there is none.
    std::int32_t grow(std::int32_t parent, std::int32_t token);
    bool sees(std::int32_t draft, std::int32_t other) const;  ///< whether other is the draft or above it
};

/// What followed the last tokens of a text where they stood before: prompt lookup (Saxena 2023), of all places as a
/// tree (SpecInfer, Miao et al. 2023). The longest matches first, of those the newest. At most `most` drafts behind the
/// root, on paths of at most `longest`.
draft_tree look_up(std::span<const std::int32_t> text, std::size_t most, std::int32_t longest);

}  // namespace language_model
