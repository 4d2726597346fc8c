#include "tensor_cores.hpp"

#include "memory.hpp"

#include <array>
#include <cstring>

namespace ptx {
namespace {

// Elements, by how many a register has.
struct bf16 {
    using number = float;
    static constexpr int together = 2;
    static float of(u32 word, int n) { return from_bf16(static_cast<u16>(word >> 16 * n)); }
};
struct f16 {
    using number = float;
    static constexpr int together = 2;
    static float of(u32 word, int n) { return from_f16(static_cast<u16>(word >> 16 * n)); }
};
struct tf32 {
    using number = float;
    static constexpr int together = 1;
    static float of(u32 word, int) { return read_as_tf32(word); }
};
template <class Byte> struct integers {
    using number = s32;
    static constexpr int together = 4;
    static s32 of(u32 word, int n) { return static_cast<Byte>(word >> 8 * n); }
};

constexpr int rows = 16, columns = 8, most_deep = 32;

/// The fragments' order: lane 4 g + t has of A the rows g and g + 8, of B the column g, of both the elements from t *
/// together on, and of C the columns 2 t and 2 t + 1 of the rows g and g + 8.
template <class Element, int Depth> void multiply(execution& e, const instruction& i) {
    using number = typename Element::number;
    using sum = std::conditional_t<std::is_same_v<number, float>, double, s64>;
    constexpr int together = Element::together, of_b = Depth / (4 * together), of_a = 2 * of_b;
    static_assert(Depth <= most_deep);
    e.need_whole_warp(i);
    const auto word = [&](int fragment, int lane) {
        return e.words(i.fragments[static_cast<std::size_t>(fragment)])[lane];
    };
    number a[rows][Depth], b[Depth][columns], c[rows][columns];
    for (int lane = 0; lane < lanes; ++lane) {
        const int g = lane / 4, t = lane % 4;
        for (int n = 0; n < of_a; ++n)
            for (int k = 0; k < together; ++k)
                a[g + 8 * (n % 2)][t * together + k + 4 * together * (n / 2)] = Element::of(word(n, lane), k);
        for (int n = 0; n < of_b; ++n)
            for (int k = 0; k < together; ++k)
                b[t * together + k + 4 * together * n][g] = Element::of(word(of_a + n, lane), k);
        for (int n = 0; n < 4; ++n)
            c[g + 8 * (n / 2)][2 * t + n % 2] = std::bit_cast<number>(word(of_a + of_b + n, lane));
    }
    for (auto& row : c) {
        sum sums[columns];
        for (int n = 0; n < columns; ++n) sums[n] = row[n];
        for (int k = 0; k < Depth; ++k)
            for (int n = 0; n < columns; ++n) sums[n] += static_cast<sum>(a[&row - c][k]) * static_cast<sum>(b[k][n]);
        for (int n = 0; n < columns; ++n) row[n] = static_cast<number>(sums[n]);
    }
    for (std::size_t n = 0; n < 4; ++n)
        if (i.d[n] >= 0)
            for (int lane = 0; lane < lanes; ++lane)
                e.words(i.d[n])[lane] = std::bit_cast<u32>(
                    c[lane / 4 + 8 * static_cast<int>(n / 2)][2 * (lane % 4) + static_cast<int>(n % 2)]);
}

struct form {
    std::string_view elements;
    int depth;
    handler run;
    fragment_sizes sizes;
};
template <class Element, int Depth> constexpr form form_of(std::string_view elements) {
    constexpr int of_b = Depth / (4 * Element::together);
    return {elements, Depth, multiply<Element, Depth>, {2 * of_b, of_b, 4}};
}
constexpr std::array forms = {
    form_of<bf16, 16>("bf16"),       form_of<bf16, 8>("bf16"),        form_of<f16, 16>("f16"),
    form_of<f16, 8>("f16"),          form_of<tf32, 8>("tf32"),        form_of<tf32, 4>("tf32"),
    form_of<integers<s8>, 32>("s8"), form_of<integers<s8>, 16>("s8"), form_of<integers<u8>, 32>("u8"),
    form_of<integers<u8>, 16>("u8"),
};

/// B by its descriptor: rows of 128 bytes whose pieces of 16 bytes are exchanged by the row's number (128-byte
/// swizzle).
struct described {
    u64 start, leading, stride;
    bool transposed;
    /// Where the element of 16 bits in row k, column n lies.
    u64 at(u64 k, u64 n) const {
        const u64 straight = transposed ? start + n / 64 * leading + n % 64 * 2 + k % 8 * 128 + k / 8 * stride
                                        : start + n / 8 * stride + n % 8 * 128 + k * 2;
        return straight ^ ((straight >> 7 & 7) << 4);
    }
};

}  // namespace

handler multiply_of(std::string_view elements, int depth) {
    for (const form& each : forms)
        if (each.elements == elements && each.depth == depth) return each.run;
    return nullptr;
}
fragment_sizes fragments_of(std::string_view elements, int depth) {
    for (const form& each : forms)
        if (each.elements == elements && each.depth == depth) return each.sizes;
    return {};
}

void load_matrices(execution& e, const instruction& i) {
    e.need_whole_warp(i);
    constexpr int size = 8;
    std::array<u64, lanes> at;
    addresses_of(e, i.address, at.data());
    u16 element[4][size][size];
    u32 rows_given = 0;
    for (int n = 0; n < i.vector; ++n)
        for (int row = 0; row < size; ++row) {
            const int lane = n * size + row;
            rows_given |= 1u << lane;
            std::memcpy(element[n][row], shared_bytes_read(e, i, lane, at[static_cast<std::size_t>(lane)], 16), 16);
        }
    if (operation_count* const count = e.count_of(i))
        ++count->requests, count->wavefronts += wavefronts(at.data(), 16, rows_given);
    for (int n = 0; n < i.vector; ++n) {
        u32* const to = e.words(i.d[static_cast<std::size_t>(n)]);
        for (int lane = 0; lane < lanes; ++lane) {
            const int g = lane / 4, t = 2 * (lane % 4);
            const u32 low = i.variant ? element[n][t][g] : element[n][g][t],
                      high = i.variant ? element[n][t + 1][g] : element[n][g][t + 1];
            to[lane] = low | high << 16;
        }
    }
}

void multiply_of_warpgroup(execution& e, const instruction& i) {
    e.need_whole_warp(i);
    constexpr int depth = 16;
    const auto width = i.fragments.size() * 2;
    const u64 descriptor = e.longs(i.address.slot)[0];
    if (descriptor >> 62 != 1) e.refuse(i, 0, "expected a descriptor with the 128-byte swizzle, got another");
    const described where{(descriptor & 0x3fff) << 4, (descriptor >> 16 & 0x3fff) << 4,
                          (descriptor >> 32 & 0x3fff) << 4, (i.variant & 1) != 0};
    const bool adds = e.predicate(i.from.slot) & 1, halves = i.variant & 2;
    const auto value = [&](u32 word, int n) { return halves ? f16::of(word, n) : bf16::of(word, n); };
    float a[rows][depth];
    for (int lane = 0; lane < lanes; ++lane)
        for (int n = 0; n < 4; ++n)
            for (int k = 0; k < 2; ++k)
                a[lane / 4 + 8 * (n % 2)][lane % 4 * 2 + k + 8 * (n / 2)] =
                    value(e.words(i.s[static_cast<std::size_t>(n)])[lane], k);
    std::vector<double> b(depth * width), made(rows * width);
    for (std::size_t k = 0; k < depth; ++k)
        for (std::size_t n = 0; n < width; ++n) {
            u16 element = 0;
            std::memcpy(&element, shared_bytes_read(e, i, 0, where.at(k, n), 2), 2);
            b[k * width + n] = value(element, 0);
        }
    for (std::size_t row = 0; row < rows; ++row)
        for (std::size_t k = 0; k < depth; ++k)
            for (std::size_t n = 0; n < width; ++n)
                made[row * width + n] += static_cast<double>(a[row][k]) * b[k * width + n];

    sums_on_their_way& sums = e.now->sums[i.fragments[0]];
    if (sums.slots.empty()) {
        sums.slots = i.fragments;
        for (const int slot : sums.slots) sums.values.insert(sums.values.end(), e.words(slot), e.words(slot) + lanes);
    }
    for (std::size_t n = 0; n < sums.slots.size(); ++n)
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            u32& sum = sums.values[n * lanes + lane];
            const std::size_t row = lane / 4 + 8 * (n / 2 % 2), column = n / 4 * 8 + lane % 4 * 2 + n % 2;
            const double before = adds ? static_cast<double>(std::bit_cast<float>(sum)) : 0.0;
            sum = std::bit_cast<u32>(static_cast<float>(before + made[row * width + column]));
        }
}

void wait_for_sums(execution& e, const instruction&) {
    for (const auto& [first, sums] : e.now->sums)
        for (std::size_t n = 0; n < sums.slots.size(); ++n)
            std::copy_n(sums.values.begin() + static_cast<std::ptrdiff_t>(n) * lanes, lanes, e.words(sums.slots[n]));
    e.now->sums.clear();
}

void shuffle(execution& e, const instruction& i) {
    const u32 *const value = e.words(i.s[0]), *const by = e.words(i.s[1]), *const bounds = e.words(i.s[2]),
                     *const members = e.words(i.s[3]);
    u32 made[lanes], inside = 0;
    each_lane(e.mask, [&](int lane) {
        if (members[lane] & ~e.mask)
            e.refuse(i, lane,
                     "expected all threads that a shuffle names, got " +
                         std::to_string(std::popcount(members[lane] & e.mask)) + " of " +
                         std::to_string(std::popcount(members[lane])));
        const int segment = static_cast<int>(bounds[lane] >> 8 & 31), clamp = static_cast<int>(bounds[lane] & 31),
                  distance = static_cast<int>(by[lane] & 31);
        const int lowest = lane & segment, bound = lowest | (clamp & ~segment);
        const int from = i.variant == 0   ? lowest | (distance & ~segment)
                         : i.variant == 1 ? lane - distance
                         : i.variant == 2 ? lane + distance
                                          : lane ^ distance;
        const bool is_inside = i.variant == 1 ? from >= bound : from <= bound;
        made[lane] = value[is_inside ? from : lane];
        inside |= static_cast<u32>(is_inside) << lane;
    });
    u32* const to = e.words(i.d[0]);
    each_lane(e.mask, [&](int lane) { to[lane] = made[lane]; });
    if (i.d[1] < 0) return;
    u32& says = e.predicate(i.d[1]);
    says = (says & ~e.mask) | inside;
}

}  // namespace ptx
