#include "known_caches.hpp"

#include "caches.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>
#include <utility>

namespace bench {
namespace {

using attune::element_type;

void contiguous(call& to, const shape& s, element_type type) {
    for (const char* name : {"k", "v"})
        to.add(name, memory(type, {s.sequences, s.key_heads, s.slots, s.depth}), s.sequences * s.key_heads, s);
}

/// The last keys of each head are read.
void last_keys(call& to, const shape& s, element_type type, std::int64_t count) {
    const std::int64_t bytes_a_key = s.depth * static_cast<std::int64_t>(attune::bytes_of(type)),
                       used = std::min(s.keys, count);
    for (const char* name : {"k", "v"}) {
        to.add(name, memory(type, {s.sequences, s.key_heads, s.slots, s.depth}));
        for (std::int64_t head = 0; head < s.sequences * s.key_heads; ++head)
            to.read.push_back(to.tensors.back().bytes().subspan(
                static_cast<std::size_t>((head * s.slots + s.keys - used) * bytes_a_key),
                static_cast<std::size_t>(used * bytes_a_key)));
    }
}

void sliding(call& to, const shape& s, element_type type) {
    last_keys(to, s, type, 128);
    to.add("sinks", memory(element_type::f32, {s.heads}));
}

void first_and_last(call& to, const shape& s, element_type type) { last_keys(to, s, type, 64); }

/// (sequence, token, head, channel), as projections leave them.
void token_major(call& to, const shape& s, element_type type) {
    for (const char* name : {"k", "v"}) {
        to.tensors.emplace_back(type, std::vector{s.sequences, s.slots, s.key_heads, s.depth});
        to.read_pieces(s.sequences, s);
        to.give(name, to.tensors.back().view().swapped(1, 2));
    }
}

/// A token's key and value side by side.
void pairs(call& to, const shape& s, element_type type) {
    to.add("kv", memory(type, {s.sequences, s.key_heads, s.slots, 2, s.depth}), s.sequences * s.key_heads, s);
}

/// Steps of codes, which are positive.
memory scales(std::vector<std::int64_t> shape) {
    memory made(element_type::f32, std::move(shape));
    for (float& x : made.as<float>()) x = 0.01f * (std::abs(x) + 0.1f);
    return made;
}

void bytes(call& to, const shape& s, element_type type) {
    const std::int64_t pieces = s.sequences * s.key_heads;
    for (const char* name : {"k8", "v8"})
        to.add(name, memory(type, {s.sequences, s.key_heads, s.slots, s.depth}), pieces, s);
    for (const char* name : {"k_scale", "v_scale"})
        to.add(name, scales({s.sequences, s.key_heads, s.slots}), pieces, s);
}

void nibbles(call& to, const shape& s, bool in_groups) {
    for (const char* name : {"k4", "v4"})
        to.add(name, memory(element_type::u8, {s.sequences, s.key_heads, s.slots, s.depth / 2}),
               s.sequences * s.key_heads, s);
    std::vector<std::int64_t> each{s.sequences, s.key_heads, s.slots};
    if (in_groups) each.push_back(s.depth / 32);
    for (const char* name : {"k_scale", "v_scale"}) to.add(name, scales(each), s.sequences * s.key_heads, s);
}

/// Small scales, about 0.01, at the beginning of each block; those of f16 differ.
void write_scales(std::span<std::byte> bytes, std::size_t block, element_type type) {
    for (std::size_t at = 0; at < bytes.size(); at += block) {
        const std::byte of_f8{0x08}, exponent{120}, of_f16{0x21};
        if (attune::bytes_of(type) == 2) bytes[at] = static_cast<std::byte>(at & 255);
        bytes[at + static_cast<std::size_t>(attune::bytes_of(type) - 1)] = type == element_type::f16  ? of_f16
                                                                           : type == element_type::u8 ? exponent
                                                                                                      : of_f8;
    }
}

void in_blocks(call& to, const shape& s, const attune::dsl::block_layout& layout) {
    const std::int64_t count = s.depth / layout.channels;
    for (const char* name : {"k_cache", "v_cache"}) {
        memory made(element_type::u8, {s.sequences, s.key_heads, s.slots, count, layout.bytes});
        write_scales(made.as<std::byte>(), static_cast<std::size_t>(layout.bytes), layout.scale.element);
        to.add(name, std::move(made), s.sequences * s.key_heads, s);
    }
}

/// The codes of q8_0 and q4_0, and their scales in tensors of their own.
void apart(call& to, const shape& s, bool in_nibbles) {
    std::vector<std::int64_t> codes{s.sequences, s.key_heads, s.slots}, groups = codes;
    groups.push_back(s.depth / 32);
    if (in_nibbles) codes.push_back(s.depth / 32), codes.push_back(16);
    if (!in_nibbles) codes.push_back(s.depth);
    for (const char* name : {in_nibbles ? "k4" : "k8", in_nibbles ? "v4" : "v8"})
        to.add(name, memory(in_nibbles ? element_type::u8 : element_type::i8, codes), s.sequences * s.key_heads, s);
    for (const char* name : {"k_scale", "v_scale"}) {
        memory made(element_type::f16, groups);
        write_scales(made.as<std::byte>(), 2, element_type::f16);
        to.add(name, std::move(made), s.sequences * s.key_heads, s);
    }
}

/// Pages in random order; they are read head by head, sequence by sequence.
void paged(call& to, const shape& s, element_type type, std::int64_t tokens) {
    const std::int64_t blocks = (s.slots + tokens - 1) / tokens, used = (s.keys + tokens - 1) / tokens,
                       pages = s.sequences * blocks;
    memory table(element_type::i32, {s.sequences, blocks});
    const std::span<std::int32_t> entries = table.as<std::int32_t>();
    for (std::size_t i = 0; i < entries.size(); ++i) entries[i] = static_cast<std::int32_t>(i);
    std::shuffle(entries.begin(), entries.end(), std::minstd_rand(3));
    const std::vector<std::int32_t> order(entries.begin(), entries.end());
    to.add("block_table", std::move(table));
    const auto pieces = [&](const memory& pool, std::int64_t page_bytes) {
        for (std::int64_t b = 0; b < s.sequences; ++b)
            for (std::int64_t h = 0; h < s.key_heads; ++h)
                for (std::int64_t i = 0; i < used; ++i)
                    to.read.push_back(pool.bytes().subspan(
                        static_cast<std::size_t>((order[static_cast<std::size_t>(b * blocks + i)] * s.key_heads + h) *
                                                 page_bytes),
                        static_cast<std::size_t>(page_bytes)));
    };
    for (const char* name : {"k_pages", "v_pages"}) {
        to.add(name, memory(type, {pages, s.key_heads, tokens, s.depth}));
        pieces(to.tensors.back(), tokens * s.depth * static_cast<std::int64_t>(attune::bytes_of(type)));
    }
    if (type != element_type::u8) return;
    for (const char* name : {"k_scale", "v_scale"}) {
        to.add(name, scales({pages, s.key_heads, tokens}));
        pieces(to.tensors.back(), tokens * 4);
    }
}

void rotated(call& to, const shape& s) {
    contiguous(to, s, element_type::f32);
    for (const char* name : {"cosine", "sine"}) to.add(name, memory(element_type::f32, {s.slots, s.depth / 2}));
}

}  // namespace

std::vector<cache> all_caches() {
    using attune::dsl::ir_of;
    using namespace std::placeholders;
    const attune::graph_ir plain = ir_of<caches::contiguous>;
    return {
        {"f32", plain, "f32", std::bind(contiguous, _1, _2, element_type::f32)},
        {"bf16", plain, "bf16", std::bind(contiguous, _1, _2, element_type::bf16)},
        {"f32 token-major", plain, "f32", std::bind(token_major, _1, _2, element_type::f32)},
        {"bf16 token-major", plain, "bf16", std::bind(token_major, _1, _2, element_type::bf16)},
        {"f32 side by side", ir_of<caches::pairs_f32>, "f32", std::bind(pairs, _1, _2, element_type::f32)},
        {"bf16 side by side", ir_of<caches::pairs_bf16>, "f32", std::bind(pairs, _1, _2, element_type::bf16)},
        {"u8", ir_of<caches::bytes::attention>, "f32", std::bind(bytes, _1, _2, element_type::u8)},
        {"i8", ir_of<caches::of_i8>, "f32", std::bind(bytes, _1, _2, element_type::i8)},
        {"i8, q in i8", ir_of<caches::of_i8_and_codes>, "f32", std::bind(bytes, _1, _2, element_type::i8), "i8"},
        {"i8, q i8, p i16", ir_of<caches::of_i8_and_two_digits>, "f32", std::bind(bytes, _1, _2, element_type::i8),
         "i8"},
        {"i8, q i8, p u8", ir_of<caches::of_i8_and_one_digit>, "f32", std::bind(bytes, _1, _2, element_type::i8), "i8"},
        {"packed 4 bits", ir_of<caches::nibbles::attention>, "f32", std::bind(nibbles, _1, _2, true)},
        {"4 bits, a token", ir_of<caches::nibbles::of_tokens>, "f32", std::bind(nibbles, _1, _2, false)},
        {"4 bits, i8, u8", ir_of<caches::nibbles::of_codes>, "f32", std::bind(nibbles, _1, _2, false),
         "4 bits, a token"},
        {"q8_0", ir_of<caches::in_q8_0>, "f32", std::bind(in_blocks, _1, _2, attune::dsl::q8_0)},
        {"q8_0 apart", ir_of<caches::apart::of_q8_0>, "f32", std::bind(apart, _1, _2, false)},
        {"q8_0, i8, u8", ir_of<caches::in_q8_0_of_codes>, "f32", std::bind(in_blocks, _1, _2, attune::dsl::q8_0),
         "q8_0"},
        {"q4_0", ir_of<caches::in_q4_0>, "f32", std::bind(in_blocks, _1, _2, attune::dsl::q4_0)},
        {"q4_0 apart", ir_of<caches::apart::of_q4_0>, "f32", std::bind(apart, _1, _2, true)},
        {"q4_0, i8, u8", ir_of<caches::in_q4_0_of_codes>, "f32", std::bind(in_blocks, _1, _2, attune::dsl::q4_0),
         "q4_0"},
        {"q4_1", ir_of<caches::in_q4_1>, "f32", std::bind(in_blocks, _1, _2, attune::dsl::q4_1)},
        {"mxfp4", ir_of<caches::in_mxfp4>, "f32", std::bind(in_blocks, _1, _2, attune::dsl::mxfp4)},
        {"nvfp4", ir_of<caches::in_nvfp4>, "f32", std::bind(in_blocks, _1, _2, attune::dsl::nvfp4)},
        {"f8_e4m3", ir_of<caches::of_e4m3>, "f32", std::bind(bytes, _1, _2, element_type::f8_e4m3)},
        {"f8_e5m2", ir_of<caches::of_e5m2>, "f32", std::bind(bytes, _1, _2, element_type::f8_e5m2)},
        {"paged f32 1", ir_of<caches::paged::f32_1>, "f32", std::bind(paged, _1, _2, element_type::f32, 1)},
        {"paged bf16 1", ir_of<caches::paged::bf16_1>, "f32", std::bind(paged, _1, _2, element_type::bf16, 1)},
        {"paged f32 16", ir_of<caches::paged::f32_16>, "f32", std::bind(paged, _1, _2, element_type::f32, 16)},
        {"paged f32 64", ir_of<caches::paged::f32_64>, "f32", std::bind(paged, _1, _2, element_type::f32, 64)},
        {"paged bf16 16", ir_of<caches::paged::bf16_16>, "f32", std::bind(paged, _1, _2, element_type::bf16, 16)},
        {"paged bf16 64", ir_of<caches::paged::bf16_64>, "f32", std::bind(paged, _1, _2, element_type::bf16, 64)},
        {"paged u8 16", ir_of<caches::paged::u8_16>, "f32", std::bind(paged, _1, _2, element_type::u8, 16)},
        {"paged u8 64", ir_of<caches::paged::u8_64>, "f32", std::bind(paged, _1, _2, element_type::u8, 64)},
        {"rotated f32", ir_of<caches::rotated::attention>, "f32", rotated},
        {"f32 first and last", ir_of<caches::sliding::first_and_last>, "f32",
         std::bind(first_and_last, _1, _2, element_type::f32)},
        {"f32 window, sink", ir_of<caches::sliding::attention>, "f32", std::bind(sliding, _1, _2, element_type::f32)},
        {"bf16 window, sink", ir_of<caches::sliding::attention>, "bf16",
         std::bind(sliding, _1, _2, element_type::bf16)}};
}

}  // namespace bench
