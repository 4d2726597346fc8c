#include "plain_operations.hpp"

namespace ptx {
namespace {

template <class T> void add_logic(plain_operations& to, const std::string& type) {
    to["and." + type] = two<[](T a, T b) { return a & b; }, T, T, T>(unit::alu);
    to["or." + type] = two<[](T a, T b) { return a | b; }, T, T, T>(unit::alu);
    to["xor." + type] = two<[](T a, T b) { return a ^ b; }, T, T, T>(unit::alu);
    to["not." + type] = one<[](T a) { return ~a; }, T, T>(unit::alu);
    to["shl." + type] =
        two<[](T a, u32 b) { return b >= sizeof(T) * 8 ? T{0} : static_cast<T>(a << b); }, T, T, u32>(unit::alu);
    to["shr." + type] =
        two<[](T a, u32 b) { return b >= sizeof(T) * 8 ? T{0} : static_cast<T>(a >> b); }, T, T, u32>(unit::alu);
}

/// Four bytes chosen among eight; bit 3 of a choice spreads the byte's sign.
u32 permuted(u32 a, u32 b, u32 choices) {
    const u64 both = a | u64{b} << 32;
    u32 made = 0;
    for (u32 n = 0; n < 4; ++n) {
        const u32 choice = choices >> 4 * n & 15, byte = static_cast<u32>(both >> 8 * (choice & 7)) & 255;
        made |= (choice & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * n;
    }
    return made;
}

/// `length` bits from `first` on, beyond the highest one those of the sign, or 0.
u32 field(u32 a, u32 first, u32 length, bool is_signed) {
    first &= 255, length &= 255;
    if (length == 0) return 0;
    const u32 last = std::min(first + length - 1, 31u), sign = is_signed && (a >> last & 1) ? ~0u : 0u;
    if (first > 31) return sign;
    const u32 kept = std::min(length, 32 - first), ones = kept == 32 ? ~0u : (1u << kept) - 1;
    return (a >> first & ones) | (sign & ~ones);
}
/// The bits of `into` from `first` on become the lowest ones of `a`.
u32 inserted(u32 a, u32 into, u32 first, u32 length) {
    if (first > 31) return into;
    const u32 ones = (length > 31 ? ~0u : (1u << length) - 1) << first;
    return (into & ~ones) | (a << first & ones);
}
u32 reversed(u32 a) {
    u32 made = 0;
    for (int n = 0; n < 32; ++n) made |= (a >> n & 1) << (31 - n);
    return made;
}

/// d = any function of three bits, by its table of 8 (s[3]).
void logic_of_three(execution& e, const instruction& i) {
    const u32 *const a = e.words(i.s[0]), *const b = e.words(i.s[1]), *const c = e.words(i.s[2]),
                     table = e.words(i.s[3])[0];
    u32* const d = e.words(i.d[0]);
    each_lane(e.mask, [=](int lane) {
        u32 made = 0;
        for (u32 n = 0; n < 8; ++n)
            if (table >> n & 1)
                made |= (n & 4 ? a[lane] : ~a[lane]) & (n & 2 ? b[lane] : ~b[lane]) & (n & 1 ? c[lane] : ~c[lane]);
        d[lane] = made;
    });
}
void insert_field(execution& e, const instruction& i) {
    const u32 *const a = e.words(i.s[0]), *const into = e.words(i.s[1]), *const first = e.words(i.s[2]),
                     *const length = e.words(i.s[3]);
    u32* const d = e.words(i.d[0]);
    each_lane(e.mask,
              [=](int lane) { d[lane] = inserted(a[lane], into[lane], first[lane] & 255, length[lane] & 255); });
}

constexpr u64 joined(u32 low, u32 high) { return u64{high} << 32 | low; }

}  // namespace

void add_bits(plain_operations& to) {
    add_logic<u16>(to, "b16"), add_logic<u32>(to, "b32"), add_logic<u64>(to, "b64");
    to["prmt.b32"] = three<permuted, u32, u32, u32, u32>(unit::alu);
    to["bfe.u32"] = three<[](u32 a, u32 b, u32 c) { return field(a, b, c, false); }, u32, u32, u32, u32>(unit::alu);
    to["bfe.s32"] = three<[](u32 a, u32 b, u32 c) { return field(a, b, c, true); }, u32, u32, u32, u32>(unit::alu);
    to["bfi.b32"] = {insert_field, unit::alu, 32, {32, 32, 32, 32}};
    to["lop3.b32"] = {logic_of_three, unit::alu, 32, {32, 32, 32, 32}};
    to["brev.b32"] = one<reversed, u32, u32>(unit::alu);
    to["popc.b32"] = one<[](u32 a) { return std::popcount(a); }, u32, u32>(unit::transcendental);
    to["popc.b64"] = one<[](u64 a) { return std::popcount(a); }, u32, u64>(unit::transcendental);
    to["clz.b32"] = one<[](u32 a) { return std::countl_zero(a); }, u32, u32>(unit::transcendental);
    to["clz.b64"] = one<[](u64 a) { return std::countl_zero(a); }, u32, u64>(unit::transcendental);
    to["shf.l.wrap.b32"] =
        three<[](u32 a, u32 b, u32 c) { return (joined(a, b) << (c & 31) >> 32); }, u32, u32, u32, u32>(unit::alu);
    to["shf.r.wrap.b32"] =
        three<[](u32 a, u32 b, u32 c) { return (joined(a, b) >> (c & 31)); }, u32, u32, u32, u32>(unit::alu);
    to["shf.l.clamp.b32"] =
        three<[](u32 a, u32 b, u32 c) { return (joined(a, b) << std::min(c, 32u) >> 32); }, u32, u32, u32, u32>(
            unit::alu);
    to["shf.r.clamp.b32"] =
        three<[](u32 a, u32 b, u32 c) { return (joined(a, b) >> std::min(c, 32u)); }, u32, u32, u32, u32>(unit::alu);
}

}  // namespace ptx
