#pragma once
#include "execution.hpp"

#include <map>
#include <string>
#include <vector>

/// Instructions that compute a lane's result from that lane's sources alone.
namespace ptx {

struct plain_operation {
    handler run;
    unit at;
    int result;                ///< bits of the register
    std::vector<int> sources;  ///< bits of each
};
/// By words: those that change no result here (rn, approx, full, lo) are left out, as in `div.ftz.f32`.
using plain_operations = std::map<std::string, plain_operation>;

void add_integers(plain_operations& to);
void add_reals(plain_operations& to);
void add_bits(plain_operations& to);

template <class To, class From, auto F> void unary(execution& e, const instruction& i) {
    const From* const a = e.values<From>(i.s[0]);
    To* const d = e.values<To>(i.d[0]);
    each_lane(e.mask, [=](int lane) { put(d, lane, static_cast<To>(F(get(a, lane)))); });
}
template <class To, class A, class B, auto F> void binary(execution& e, const instruction& i) {
    const A* const a = e.values<A>(i.s[0]);
    const B* const b = e.values<B>(i.s[1]);
    To* const d = e.values<To>(i.d[0]);
    each_lane(e.mask, [=](int lane) { put(d, lane, static_cast<To>(F(get(a, lane), get(b, lane)))); });
}
template <class To, class A, class B, class C, auto F> void ternary(execution& e, const instruction& i) {
    const A* const a = e.values<A>(i.s[0]);
    const B* const b = e.values<B>(i.s[1]);
    const C* const c = e.values<C>(i.s[2]);
    To* const d = e.values<To>(i.d[0]);
    each_lane(e.mask, [=](int lane) { put(d, lane, static_cast<To>(F(get(a, lane), get(b, lane), get(c, lane)))); });
}

template <class T> inline constexpr int bits = 8 * static_cast<int>(sizeof(T));

template <auto F, class To, class From> plain_operation one(unit at) {
    return {unary<To, From, F>, at, bits<To>, {bits<From>}};
}
template <auto F, class To, class A, class B> plain_operation two(unit at) {
    return {binary<To, A, B, F>, at, bits<To>, {bits<A>, bits<B>}};
}
template <auto F, class To, class A, class B, class C> plain_operation three(unit at) {
    return {ternary<To, A, B, C, F>, at, bits<To>, {bits<A>, bits<B>, bits<C>}};
}

}  // namespace ptx
