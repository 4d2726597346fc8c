#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ptx {

/// A part of a fat binary: PTX, or machine code for a card.
struct image_part {
    enum class kind : std::uint16_t { text = 1, code = 2 };
    kind is;
    unsigned card;  ///< 80 of sm_80
    std::string bytes;
};

/// The parts of a fat binary as fatbinary writes it, uncompressed or by LZ4. Throws std::runtime_error for an image
/// that is no whole one, or is compressed in another way.
std::vector<image_part> parts_of(std::string_view image);

/// The PTX of what cuModuleLoadData is given: a text that ends with a zero byte, or a fat binary with one.
std::string text_of_image(const void* image);

}  // namespace ptx
