#include "plain_operations.hpp"

namespace ptx {
namespace {

__extension__ using u128 = unsigned __int128;
__extension__ using s128 = __int128;

template <class T>
using wider = std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, s32, u32>,
                                 std::conditional_t<std::is_signed_v<T>, s64, u64>>;

/// Operations that integers of any size have.
template <class T> void add_all_sizes(plain_operations& to, const std::string& type) {
    using U = std::make_unsigned_t<T>;
    to["add." + type] = two<[](U a, U b) { return a + b; }, U, U, U>(unit::alu);
    to["sub." + type] = two<[](U a, U b) { return a - b; }, U, U, U>(unit::alu);
    to["mul." + type] = two<[](U a, U b) { return u64{a} * b; }, U, U, U>(unit::fma);
    to["mad." + type] = three<[](U a, U b, U c) { return u64{a} * b + c; }, U, U, U, U>(unit::fma);
    to["neg." + type] = one<[](U a) { return U{0} - a; }, U, U>(unit::alu);
    to["abs." + type] =
        one<[](T a) { return a < T{0} ? U{0} - static_cast<U>(a) : static_cast<U>(a); }, U, T>(unit::alu);
    to["min." + type] = two<[](T a, T b) { return std::min(a, b); }, T, T, T>(unit::alu);
    to["max." + type] = two<[](T a, T b) { return std::max(a, b); }, T, T, T>(unit::alu);
    to["div." + type] = two<[](T a, T b) { return quotient(a, b); }, T, T, T>(unit::alu);
    to["rem." + type] = two<[](T a, T b) { return remainder_of(a, b); }, T, T, T>(unit::alu);
    to["shl." + type] =
        two<[](U a, u32 b) { return b >= sizeof(U) * 8 ? U{0} : static_cast<U>(a << b); }, U, U, u32>(unit::alu);
    to["shr." + type] = two<[](T a, u32 b) {
        return b >= sizeof(T) * 8 ? static_cast<T>(a < T{0} ? ~T{0} : T{0}) : static_cast<T>(a >> b);
    },
                            T, T, u32>(unit::alu);
}

template <class T> void add_wide(plain_operations& to, const std::string& type) {
    using W = wider<T>;
    to["mul.wide." + type] = two<[](T a, T b) { return W{a} * W{b}; }, W, T, T>(unit::fma);
    to["mad.wide." + type] = three<[](T a, T b, W c) {
        return static_cast<W>(static_cast<std::make_unsigned_t<W>>(W{a} * W{b}) +
                              static_cast<std::make_unsigned_t<W>>(c));
    },
                                   W, T, T, W>(unit::fma);
    to["mul.hi." + type] = two<[](T a, T b) { return (W{a} * W{b} >> bits<T>); }, T, T, T>(unit::fma);
}

/// Four products of bytes and a sum.
template <class T> s32 product_of_bytes(u32 a, u32 b, s32 c) {
    u32 sum = static_cast<u32>(c);
    for (int n = 0; n < 32; n += 8) sum += static_cast<u32>(s32{static_cast<T>(a >> n)} * s32{static_cast<T>(b >> n)});
    return static_cast<s32>(sum);
}

}  // namespace

void add_integers(plain_operations& to) {
    add_all_sizes<s16>(to, "s16"), add_all_sizes<u16>(to, "u16");
    add_all_sizes<s32>(to, "s32"), add_all_sizes<u32>(to, "u32");
    add_all_sizes<s64>(to, "s64"), add_all_sizes<u64>(to, "u64");
    add_wide<s16>(to, "s16"), add_wide<u16>(to, "u16"), add_wide<s32>(to, "s32"), add_wide<u32>(to, "u32");
    to["mul.hi.u64"] =
        two<[](u64 a, u64 b) { return static_cast<u64>(static_cast<u128>(a) * b >> 64); }, u64, u64, u64>(unit::fma);
    to["mul.hi.s64"] =
        two<[](s64 a, s64 b) { return static_cast<s64>(static_cast<s128>(a) * b >> 64); }, s64, s64, s64>(unit::fma);
    to["dp4a.s32.s32"] =
        three<[](u32 a, u32 b, s32 c) { return product_of_bytes<s8>(a, b, c); }, s32, u32, u32, s32>(unit::fma);
    to["dp4a.u32.u32"] =
        three<[](u32 a, u32 b, s32 c) { return product_of_bytes<u8>(a, b, c); }, s32, u32, u32, s32>(unit::fma);
}

}  // namespace ptx
