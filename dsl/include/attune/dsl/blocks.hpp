#pragma once
#include <attune/dsl/functions.hpp>
#include <attune/dsl/terminals.hpp>

/// Inputs whose element is a block: the codes of some neighbouring channels, and their scale beside them, as engines
/// lay out quantised caches. A block is bytes to the call and to kernels; what its channels are is a formula of them.
namespace attune::dsl {

/// What the code of a channel is: a byte, or four bits.
enum class code_type : std::uint8_t {
    int8,
    uint8,
    uint4,
    e2m1,  ///< a sign, two bits of exponent, one of fraction: 0, 0.5, 1, 1.5, 2, 3, 4, 6
};

/// Which channels share a byte of two codes. The first of them has the low four bits.
enum class nibble_order : std::uint8_t {
    halves,      ///< a channel of the first half of a block and one of the second
    neighbours,  ///< channels 2 i and 2 i + 1
};

/// A number that all channels of a block share, from byte `at` on, low bytes first. A u8 is a power of two, 2^(u8 -
/// 127), and 255 is NaN: e8m0 of the OCP's formats.
struct block_number {
    element_type element = element_type::any;  ///< any: there is none
    int at{};
};

/// One code for each channel, from byte `at` on.
struct block_codes {
    code_type are{};
    int at{};
    int less{};  ///< taken off each code
    nibble_order order{};
};

/// A block of so many channels, which are `scale * code + minimum`.
struct block_layout {
    int channels{}, bytes{};
    block_number scale{};
    block_codes codes{};
    block_number minimum{};
};

// ggml's, and the OCP's in ggml's order
inline constexpr block_layout q8_0{.channels = 32, .bytes = 34, .scale = {f16, 0}, .codes = {code_type::int8, 2}};
inline constexpr block_layout q4_0{
    .channels = 32, .bytes = 18, .scale = {f16, 0}, .codes = {.are = code_type::uint4, .at = 2, .less = 8}};
inline constexpr block_layout q4_1{
    .channels = 32, .bytes = 20, .scale = {f16, 0}, .codes = {code_type::uint4, 4}, .minimum = {f16, 2}};
inline constexpr block_layout mxfp4{.channels = 32, .bytes = 17, .scale = {u8, 0}, .codes = {code_type::e2m1, 1}};
inline constexpr block_layout nvfp4{.channels = 16, .bytes = 9, .scale = {f8_e4m3, 0}, .codes = {code_type::e2m1, 1}};

namespace detail {
constexpr bool is_of_four_bits(code_type codes) { return codes == code_type::uint4 || codes == code_type::e2m1; }
constexpr bool is_inside(const block_number& number, int bytes) {
    const bool known = number.element == element_type::u8 ||
                       (kind_of_element(number.element) == kind::real && number.element != element_type::f64);
    return known && number.at >= 0 && number.at + bytes_of(number.element) <= bytes;
}
/// Whether all parts of a block lie within it.
constexpr bool is_sound(const block_layout& block) {
    const bool halved = is_of_four_bits(block.codes.are);
    const int bytes_of_codes = halved ? block.channels / 2 : block.channels;
    return block.channels > 0 && (!halved || block.channels % 2 == 0) && block.scale.element != element_type::any &&
           is_inside(block.scale, block.bytes) && is_inside(block.minimum, block.bytes) && block.codes.at >= 0 &&
           block.codes.at + bytes_of_codes <= block.bytes;
}

/// A number of a block, from `byte(at)`.
template <block_number Number, class Byte> constexpr auto number_of_block(Byte byte) {
    constexpr int at = Number.at;
    if constexpr (Number.element == element_type::u8) {  // 0 is denormal, 255 NaN
        const auto exponent = byte(at);
        return from_bits<element_type::f32>(exponent << 23 | where(exponent == 0 || exponent == 255, 1 << 22, 0));
    } else if constexpr (bytes_of(Number.element) == 1)
        return from_bits<Number.element>(byte(at));
    else if constexpr (bytes_of(Number.element) == 2)
        return from_bits<Number.element>(byte(at) | byte(at + 1) << 8);
    else
        return from_bits<Number.element>(byte(at) | byte(at + 1) << 8 | byte(at + 2) << 16 | byte(at + 3) << 24);
}

/// The code of a channel, an integer; of e2m1 twice the number.
template <block_layout Block, class Byte, class Channel>
constexpr auto code_of_block(Byte byte, const Channel& channel) {
    constexpr block_codes codes = Block.codes;
    constexpr int half = Block.channels / 2;
    const auto lessened = [](const auto& code) {
        if constexpr (Block.codes.less == 0)
            return code;
        else
            return code - Block.codes.less;
    };
    if constexpr (codes.are == code_type::int8)
        return lessened(from_bits<element_type::i8>(byte(channel % Block.channels + codes.at)));
    else if constexpr (codes.are == code_type::uint8)
        return lessened(byte(channel % Block.channels + codes.at));
    else {
        const auto nibble = [&] {
            if constexpr (codes.order == nibble_order::halves)
                return (byte(channel % half + codes.at) >> channel / half % 2 * 4) & 15;
            else
                return (byte(channel % Block.channels / 2 + codes.at) >> channel % 2 * 4) & 15;
        }();
        if constexpr (codes.are == code_type::uint4)
            return lessened(nibble);
        else {
            const auto below = nibble & 7;
            const auto magnitude = max(max(below, 2 * below - 4), 4 * below - 16);
            return lessened(where(nibble < 8, magnitude, -magnitude));
        }
    }
}

/// `to(last, others...)`.
template <std::size_t Turns, class To, class First, class... Rest>
constexpr auto last_first(const To& to, const First& first, const Rest&... rest) {
    if constexpr (Turns == 0)
        return to(first, rest...);
    else
        return last_first<Turns - 1>(to, rest..., first);
}
/// Whether a tensor over these axes stands where k or v does.
template <axis_kind... Axes> inline constexpr bool is_a_cache = false;
template <axis_kind Depth>
inline constexpr bool is_a_cache<axis_kind::batch, axis_kind::key_head, axis_kind::key, Depth> = true;

template <class... Axes> struct axis_list {};
template <name Label, block_layout Block, class Done, class... Axes> struct bytes_of_blocks;
template <name Label, block_layout Block, class... Done, class Channels>
struct bytes_of_blocks<Label, Block, axis_list<Done...>, Channels> {
    static constexpr axis_kind along = axis_of<Channels>.kind;
    using type =
        input_tensor<Label, element_type::u8, Done..., axis_node<axis_kind::free, "block", Block.channels, along>,
                     axis_node<axis_kind::free, "byte", Block.bytes>>;
};
template <name Label, block_layout Block, class... Done, class First, class Second, class... Rest>
struct bytes_of_blocks<Label, Block, axis_list<Done...>, First, Second, Rest...>
    : bytes_of_blocks<Label, Block, axis_list<Done..., First>, Second, Rest...> {};
}  // namespace detail

/// A tensor of blocks. Read at indices it is the number of a channel. A call passes its bytes, u8, with two axes in
/// place of the depth: blocks, and the bytes of a block.
template <name Label, block_layout Block, class... Axes> struct block_tensor {
    static constexpr kind is = kind::tensor;
    static constexpr operation op = operation::input;
    static constexpr unsigned uses = 0;
    static constexpr std::size_t rank = sizeof...(Axes);
    static constexpr std::string_view label = Label.view();
    using bytes = typename detail::bytes_of_blocks<Label, Block, detail::axis_list<>, Axes...>::type;
    static constexpr axis_kind along = bytes::declaration.axes[rank - 1].counts;

    template <operand... I> constexpr auto operator()(const I&... i) const {
        return read(
            [](const auto& byte, const auto& channel) {
                const auto code = as_real(detail::code_of_block<Block>(byte, channel));
                const auto scaled = code * scale_at(byte);
                if constexpr (Block.minimum.element == element_type::any)
                    return scaled;
                else
                    return scaled + detail::number_of_block<Block.minimum>(byte);
            },
            i...);
    }
    /// The code of a channel, and the number by which its block multiplies codes, for arithmetic of one's own.
    template <operand... I> constexpr auto code(const I&... i) const {
        return read([](const auto& byte, const auto& channel) { return detail::code_of_block<Block>(byte, channel); },
                    i...);
    }
    template <operand... I> constexpr auto scale(const I&... i) const {
        return read([](const auto& byte, const auto&) { return scale_at(byte); }, i...);
    }
    template <operand I> constexpr auto operator[](const I& i) const {
        if constexpr (rank == 1)
            return (*this)(i);
        else
            return partly_read<block_tensor, I>{*this, {i}};
    }

    /// In the place of k or v.
    template <class List> constexpr auto enter_into(List& list) const {
        const auto element = (*this)(b, h, index_node<operation::kv_idx>{}, d_idx);
        if constexpr (along == axis_kind::value_depth)
            return enter(list, values(element));
        else
            return enter(list, keys(element));
    }

    template <class Value> constexpr auto operator=(Value value) const { return detail::bind<Label>(value); }

private:
    template <class Byte> static constexpr auto scale_at(const Byte& byte) {
        const auto scale = detail::number_of_block<Block.scale>(byte);
        if constexpr (Block.codes.are == code_type::e2m1)
            return scale * 0.5;
        else
            return scale;
    }
    template <class Formula, class... I> static constexpr auto read(const Formula& formula, const I&... i) {
        return detail::over_axes<Label, Axes...>::read(
            [&](const auto&... index) {
                return detail::last_first<rank - 1>(
                    [&](const auto& last, const auto&... others) {
                        const auto channel = lift(last);
                        const auto byte = [&](const auto& at) {
                            return bytes{}(others..., channel / Block.channels, at);
                        };
                        return formula(byte, channel);
                    },
                    index...);
            },
            i...);
    }
};

namespace detail {
template <name Label, block_layout Block, class... Axes>
inline constexpr axis_kind length_axis<block_tensor<Label, Block, Axes...>> =
    is_a_cache<axis_of<Axes>.kind...> ? axis_kind::key : axis_kind::free;
template <name Label, block_layout Block, class... Axes>
inline constexpr axis_kind depth_axis<block_tensor<Label, Block, Axes...>> =
    is_a_cache<axis_of<Axes>.kind...> ? block_tensor<Label, Block, Axes...>::along : axis_kind::free;
}  // namespace detail

/// The element type of blocks, in a declaration.
template <block_layout Block> inline constexpr block_layout blocks = Block;

// Echoed with the layout.
template <block_layout Block> inline constexpr bool is_within_its_bytes = detail::is_sound(Block);
template <class... Axes> inline constexpr bool has_depth_last = false;
template <class Axis>
inline constexpr bool has_depth_last<Axis> =
    axis_of<Axis>.kind == axis_kind::depth || axis_of<Axis>.kind == axis_kind::value_depth;
template <class Axis, class... Rest>
    requires(sizeof...(Rest) > 0)
inline constexpr bool has_depth_last<Axis, Rest...> = has_depth_last<Rest...>;

/// Declares a tensor of blocks: `input<"k_cache", blocks<q8_0>>(batch, key_head, key, depth)`.
template <name Label, block_layout Block, class... Axes> constexpr auto input(Axes...) {
    static_assert(an_identifier<Label>, "attune: the name of an input is an identifier, as of a variable");
    if constexpr (!is_within_its_bytes<Block>) {
        static_assert(is_within_its_bytes<Block>,
                      "attune: a block has channels, a scale (f32, bf16, f16, f8_e4m3, f8_e5m2, or u8 for a power of "
                      "two) and a code for each channel, all within its bytes");
        return rejected{};
    } else if constexpr (!has_depth_last<Axes...> || sizeof...(Axes) >= max_rank) {
        static_assert(has_depth_last<Axes...> && sizeof...(Axes) < max_rank,
                      "attune: an input of blocks has up to seven axes, whose last one, along which blocks lie, is "
                      "depth or value_depth");
        return rejected{};
    } else
        return block_tensor<Label, Block, Axes...>{};
}

/// The extent of an axis in channels, blocks and all other axes as those of any input.
template <int Axis, name Label, block_layout Block, class... Axes>
constexpr auto extent(block_tensor<Label, Block, Axes...>) {
    using bytes = typename block_tensor<Label, Block, Axes...>::bytes;
    if constexpr (Axis == static_cast<int>(sizeof...(Axes)) - 1)
        return extent<Axis>(bytes{}) * Block.channels;
    else if constexpr (Axis >= static_cast<int>(sizeof...(Axes)))
        return extent<-1>(bytes{});
    else
        return extent<Axis>(bytes{});
}

}  // namespace attune::dsl
