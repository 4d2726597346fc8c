#include "execution.hpp"
#include "translator.hpp"

namespace ptx {
namespace {

template <class T> void move(execution& e, const instruction& i) {
    const T* const a = e.values<T>(i.s[0]);
    T* const d = e.values<T>(i.d[0]);
    each_lane(e.mask, [=](int lane) { put(d, lane, get(a, lane)); });
}
/// A register's halves.
template <class Whole, class Half> void divide(execution& e, const instruction& i) {
    Whole a[lanes];
    for (int lane = 0; lane < lanes; ++lane) a[lane] = e.values<Whole>(i.s[0])[lane];
    for (std::size_t n = 0; n < 2; ++n)
        if (i.d[n] >= 0)
            each_lane(e.mask, [&, d = e.values<Half>(i.d[n])](int lane) {
                put(d, lane, static_cast<Half>(a[lane] >> 8 * sizeof(Half) * n));
            });
}
template <class Whole, class Half> void unite(execution& e, const instruction& i) {
    const Half *const low = e.values<Half>(i.s[0]), *const high = e.values<Half>(i.s[1]);
    Whole* const d = e.values<Whole>(i.d[0]);
    each_lane(e.mask, [=](int lane) {
        d[lane] = static_cast<Whole>(get(low, lane)) | static_cast<Whole>(get(high, lane)) << 8 * sizeof(Half);
    });
}
/// variant: 0 or 1 for all lanes, -1 for the value of another predicate.
void move_predicate(execution& e, const instruction& i) {
    const u32 value = i.variant < 0 ? e.predicate(i.s[0]) : i.variant ? all_lanes : 0;
    u32& d = e.predicate(i.d[0]);
    d = (d & ~e.mask) | (value & e.mask);
}

}  // namespace

unit translate_move(translator& in, const statement& from, instruction& to) {
    if (from.words[0] != "mov" || from.operands.size() != 2) return unit::moves;
    const std::string &result = from.operands[0], &source = from.operands[1], &type = from.words.back();
    const int bits = bits_of(type);
    if (bits == 1) {
        to.d[0] = in.predicate(result);
        const bool constant = source == "0" || source == "1" || source == "-1";
        to.variant = constant ? source != "0" : -1;
        if (!constant) to.s[0] = in.predicate(source);
        to.run = move_predicate;
    } else if (result[0] == '{' || source[0] == '{') {
        const bool divides = result[0] == '{';
        if (members_of(divides ? result : source).size() != 2 || bits < 32) return unit::moves;
        in.results(to, members_of(result), divides ? bits / 2 : bits);
        in.sources(to, members_of(source), divides ? bits : bits / 2);
        if (divides)
            to.run = bits == 64 ? divide<u64, u32> : divide<u32, u16>;
        else
            to.run = bits == 64 ? unite<u64, u32> : unite<u32, u16>;
    } else if (bits) {
        in.results(to, {result}, bits);
        in.sources(to, {source}, bits);
        to.run = bits == 64 ? move<u64> : bits == 32 ? move<u32> : move<u16>;
    }
    return unit::moves;
}

}  // namespace ptx
