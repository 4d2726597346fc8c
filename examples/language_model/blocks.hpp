#pragma once
#include "gguf.hpp"

namespace language_model {

/// A type of ggml's by its number, or nullptr where it is unknown here.
const gguf::block* block_of(std::uint32_t number);
std::string known_blocks();  ///< their names

/// Whole blocks as numbers. `to` has as many elements as the blocks.
void as_f32(const gguf::block& type, std::span<const std::byte> blocks, std::span<float> to);

}  // namespace language_model
