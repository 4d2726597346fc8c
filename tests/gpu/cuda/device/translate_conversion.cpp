#include "memory.hpp"
#include "plain_operations.hpp"
#include "translator.hpp"

namespace ptx {
namespace {

/// By words, without those that change nothing here: `cvt.rzi.s32.f32`, `cvt.f32.s32` for `cvt.rn.f32.s32`.
using conversions = std::map<std::string, plain_operation>;
/// Of the lower bits of a register of 64: `cvt.s64.s32 %rd1, %rd2`.
const std::string of_long = "long cvt.";

template <class To, class From> void add_integer(conversions& to, const std::string& types) {
    to["cvt." + types] = one<[](From a) { return static_cast<To>(a); }, To, From>(unit::alu);
    if constexpr (sizeof(From) < sizeof(u64))
        to[of_long + types] = one<[](u64 a) { return static_cast<To>(static_cast<From>(a)); }, To, u64>(unit::alu);
}
template <class From> void add_from_integer(conversions& to, const std::string& from) {
    add_integer<u8, From>(to, "u8." + from), add_integer<s8, From>(to, "s8." + from);
    add_integer<u16, From>(to, "u16." + from), add_integer<s16, From>(to, "s16." + from);
    add_integer<u32, From>(to, "u32." + from), add_integer<s32, From>(to, "s32." + from);
    add_integer<u64, From>(to, "u64." + from), add_integer<s64, From>(to, "s64." + from);
    to["cvt.f32." + from] = one<[](From a) { return static_cast<float>(a); }, float, From>(unit::transcendental);
    to["cvt.f64." + from] = one<[](From a) { return static_cast<double>(a); }, double, From>(unit::doubles);
}

/// A real as an instruction takes it, and what it becomes once it is whole.
template <bool Flushes, class Real> Real taken(Real x) {
    if constexpr (Flushes)
        return flushed(x);
    else
        return x;
}
template <class To, class Real> To whole(Real x) {
    if constexpr (std::is_integral_v<To>)
        return saturated<To>(x);
    else
        return x;
}
template <class To, class Real, bool Flushes> void add_roundings(conversions& to, const std::string& types) {
    const auto name = [&](const char* how) { return std::string("cvt.") + how + (Flushes ? ".ftz." : ".") + types; };
    to[name("rni")] =
        one<[](Real a) { return whole<To>(std::nearbyint(taken<Flushes>(a))); }, To, Real>(unit::transcendental);
    to[name("rzi")] =
        one<[](Real a) { return whole<To>(std::trunc(taken<Flushes>(a))); }, To, Real>(unit::transcendental);
    to[name("rmi")] =
        one<[](Real a) { return whole<To>(std::floor(taken<Flushes>(a))); }, To, Real>(unit::transcendental);
    to[name("rpi")] =
        one<[](Real a) { return whole<To>(std::ceil(taken<Flushes>(a))); }, To, Real>(unit::transcendental);
}
template <class To> void add_to_integer(conversions& to, const std::string& type) {
    add_roundings<To, float, false>(to, type + ".f32"), add_roundings<To, float, true>(to, type + ".f32");
    add_roundings<To, double, false>(to, type + ".f64");
}

/// Two numbers in one register, the first one in its upper half.
template <auto F> constexpr u32 pair_of(float high, float low) { return u32{F(high)} << 16 | F(low); }

void add_reals_to_reals(conversions& to) {
    add_roundings<float, float, false>(to, "f32.f32"), add_roundings<float, float, true>(to, "f32.f32");
    add_roundings<double, double, false>(to, "f64.f64");
    to["cvt.sat.f32.f32"] =
        one<[](float a) { return a != a ? 0.0f : std::min(std::max(a, 0.0f), 1.0f); }, float, float>(unit::alu);
    to["cvt.sat.ftz.f32.f32"] = to["cvt.ftz.sat.f32.f32"] =
        one<[](float a) { return a != a ? 0.0f : std::min(std::max(flushed(a), 0.0f), 1.0f); }, float, float>(
            unit::alu);
    to["cvt.f64.f32"] = one<[](float a) { return static_cast<double>(a); }, double, float>(unit::doubles);
    to["cvt.ftz.f64.f32"] = one<[](float a) { return static_cast<double>(flushed(a)); }, double, float>(unit::doubles);
    to["cvt.f32.f64"] = one<[](double a) { return static_cast<float>(a); }, float, double>(unit::doubles);
    to["cvt.ftz.f32.f64"] = one<[](double a) { return flushed(static_cast<float>(a)); }, float, double>(unit::doubles);
    to["cvt.f32.bf16"] = one<from_bf16, float, u16>(unit::alu);
    to["cvt.f32.f16"] = one<from_f16, float, u16>(unit::transcendental);
    to["cvt.bf16.f32"] = one<to_bf16, u16, float>(unit::transcendental);
    to["cvt.f16.f32"] = one<to_f16, u16, float>(unit::transcendental);
    to["cvt.bf16x2.f32"] = two<pair_of<to_bf16>, u32, float, float>(unit::transcendental);
    to["cvt.f16x2.f32"] = two<pair_of<to_f16>, u32, float, float>(unit::transcendental);
    to["cvt.rna.tf32.f32"] = one<to_tf32, float, float>(unit::transcendental);
}

const conversions& known() {
    static const conversions all = [] {
        conversions made;
        add_from_integer<u8>(made, "u8"), add_from_integer<s8>(made, "s8"), add_from_integer<u16>(made, "u16"),
            add_from_integer<s16>(made, "s16");
        add_from_integer<u32>(made, "u32"), add_from_integer<s32>(made, "s32"), add_from_integer<u64>(made, "u64"),
            add_from_integer<s64>(made, "s64");
        add_to_integer<u8>(made, "u8"), add_to_integer<s8>(made, "s8"), add_to_integer<u16>(made, "u16"),
            add_to_integer<s16>(made, "s16");
        add_to_integer<u32>(made, "u32"), add_to_integer<s32>(made, "s32"), add_to_integer<u64>(made, "u64"),
            add_to_integer<s64>(made, "s64");
        add_reals_to_reals(made);
        return made;
    }();
    return all;
}

/// Between addresses of a kind of memory and generic ones.
void translate_address(translator& in, const statement& from, instruction& to) {
    if (from.operands.size() != 2) return;
    in.results(to, {from.operands[0]}, 64);
    in.sources(to, {from.operands[1]}, 64);
    const bool shared = has_word(from, "shared"), back = has_word(from, "to");
    if (!shared)
        to.run = unary<u64, u64, [](u64 a) { return a; }>;
    else if (back)
        to.run = unary<u64, u64, [](u64 a) { return a - shared_window; }>;
    else
        to.run = unary<u64, u64, [](u64 a) { return a + shared_window; }>;
}

}  // namespace

unit translate_conversion(translator& in, const statement& from, instruction& to) {
    if (from.words[0] == "cvta") translate_address(in, from, to);
    if (from.words[0] != "cvt") return unit::alu;
    std::string key;
    for (const std::string& word : from.words)
        if (word != "rn") key += (key.empty() ? "" : ".") + word;
    const bool lower_bits =
        bits_of(from.words.back()) < 64 && from.operands.size() == 2 && in.is_long(from.operands[1]);
    if (lower_bits) key.replace(0, 4, of_long);
    const auto found = known().find(key);
    if (found == known().end() || from.operands.size() != found->second.sources.size() + 1) return unit::alu;
    const plain_operation& its = found->second;
    in.results(to, {from.operands[0]}, its.result);
    for (std::size_t n = 0; n < its.sources.size(); ++n) to.s[n] = in.value(from.operands[n + 1], its.sources[n]);
    to.run = its.run;
    return its.at;
}

}  // namespace ptx
