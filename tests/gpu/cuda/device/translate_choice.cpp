#include "execution.hpp"
#include "translator.hpp"

#include <array>

/// Predicates: how they are made by comparisons, joined, and used to choose.
namespace ptx {
namespace {

enum class joint { none, both, either, one_of };

void set_predicate(execution& e, int slot, u32 value) {
    u32& its = e.predicate(slot);
    its = (its & ~e.mask) | (value & e.mask);
}

/// s[2]: the predicate that the result is joined with; variant: how, and 16 if that predicate is negated.
template <class T, auto F> void compare(execution& e, const instruction& i) {
    const T *const a = e.values<T>(i.s[0]), *const b = e.values<T>(i.s[1]);
    u32 holds = 0;
    for (int lane = 0; lane < lanes; ++lane) holds |= static_cast<u32>(F(get(a, lane), get(b, lane))) << lane;
    const u32 other = i.s[2] < 0 ? 0 : e.predicate(i.s[2]) ^ (i.variant & 16 ? all_lanes : 0);
    switch (static_cast<joint>(i.variant & 15)) {
        case joint::none: break;
        case joint::both: holds &= other; break;
        case joint::either: holds |= other; break;
        case joint::one_of: holds ^= other; break;
    }
    set_predicate(e, i.d[0], holds);
}

template <class T> void choose(execution& e, const instruction& i) {
    const T *const a = e.values<T>(i.s[0]), *const b = e.values<T>(i.s[1]);
    const u32 holds = e.predicate(i.s[2]);
    T* const d = e.values<T>(i.d[0]);
    each_lane(e.mask, [=](int lane) { put(d, lane, holds >> lane & 1 ? get(a, lane) : get(b, lane)); });
}

template <auto F> void join(execution& e, const instruction& i) {
    set_predicate(e, i.d[0], F(e.predicate(i.s[0]), i.s[1] < 0 ? 0 : e.predicate(i.s[1])));
}

struct comparison {
    std::string_view name;
    handler run;
};
template <class T>
constexpr std::array comparisons_of_integers = {
    comparison{"eq", compare<T, [](T a, T b) { return a == b; }>},
    comparison{"ne", compare<T, [](T a, T b) { return a != b; }>},
    comparison{"lt", compare<T, [](T a, T b) { return a < b; }>},
    comparison{"le", compare<T, [](T a, T b) { return a <= b; }>},
    comparison{"gt", compare<T, [](T a, T b) { return (a > b); }>},
    comparison{"ge", compare<T, [](T a, T b) { return (a >= b); }>},
    comparison{"lo", compare<T, [](T a, T b) { return a < b; }>},
    comparison{"ls", compare<T, [](T a, T b) { return a <= b; }>},
    comparison{"hi", compare<T, [](T a, T b) { return (a > b); }>},
    comparison{"hs", compare<T, [](T a, T b) { return (a >= b); }>},
};
/// Those with a `u` hold of NaN.
template <class T>
constexpr std::array comparisons_of_reals = {
    comparison{"eq", compare<T, [](T a, T b) { return a == b; }>},
    comparison{"ne", compare<T, [](T a, T b) { return a < b || (a > b); }>},
    comparison{"lt", compare<T, [](T a, T b) { return a < b; }>},
    comparison{"le", compare<T, [](T a, T b) { return a <= b; }>},
    comparison{"gt", compare<T, [](T a, T b) { return (a > b); }>},
    comparison{"ge", compare<T, [](T a, T b) { return (a >= b); }>},
    comparison{"equ", compare<T, [](T a, T b) { return !(a < b || (a > b)); }>},
    comparison{"neu", compare<T, [](T a, T b) { return !(a == b); }>},
    comparison{"ltu", compare<T, [](T a, T b) { return !(a >= b); }>},
    comparison{"leu", compare<T, [](T a, T b) { return !(a > b); }>},
    comparison{"gtu", compare<T, [](T a, T b) { return !(a <= b); }>},
    comparison{"geu", compare<T, [](T a, T b) { return !(a < b); }>},
    comparison{"num", compare<T, [](T a, T b) { return a == a && b == b; }>},
    comparison{"nan", compare<T, [](T a, T b) { return a != a || b != b; }>},
};

template <class Table> handler in(const Table& of, std::string_view name) {
    for (const comparison& each : of)
        if (each.name == name) return each.run;
    return nullptr;
}
handler comparison_of(std::string_view type, std::string_view name) {
    if (type == "s16") return in(comparisons_of_integers<s16>, name);
    if (type == "u16" || type == "b16") return in(comparisons_of_integers<u16>, name);
    if (type == "s32") return in(comparisons_of_integers<s32>, name);
    if (type == "u32" || type == "b32") return in(comparisons_of_integers<u32>, name);
    if (type == "s64") return in(comparisons_of_integers<s64>, name);
    if (type == "u64" || type == "b64") return in(comparisons_of_integers<u64>, name);
    if (type == "f32") return in(comparisons_of_reals<float>, name);
    return type == "f64" ? in(comparisons_of_reals<double>, name) : nullptr;
}

void translate_comparison(translator& in, const statement& from, instruction& to) {
    const std::string& type = from.words.back();
    to.run = comparison_of(type, from.words[1]);
    if (from.operands.size() < 3 || from.operands[0].find('|') != std::string::npos) to.run = nullptr;
    if (!to.run) return;
    to.d[0] = in.predicate(from.operands[0]);
    in.sources(to, {from.operands[1], from.operands[2]}, bits_of(type));
    if (from.operands.size() < 4) return;
    const bool negated = from.operands[3][0] == '!';
    to.s[2] = in.predicate(from.operands[3].substr(negated));
    const joint how = has_word(from, "and") ? joint::both : has_word(from, "or") ? joint::either : joint::one_of;
    to.variant = static_cast<int>(how) | (negated ? 16 : 0);
}

}  // namespace

unit translate_choice(translator& in, const statement& from, instruction& to) {
    const std::string &name = from.words[0], &type = from.words.back();
    if (name == "setp") {
        translate_comparison(in, from, to);
    } else if (name == "selp" && from.operands.size() == 4) {
        in.results(to, {from.operands[0]}, bits_of(type));
        in.sources(to, {from.operands[1], from.operands[2]}, bits_of(type));
        to.s[2] = in.predicate(from.operands[3]);
        to.run = bits_of(type) == 64 ? choose<u64> : bits_of(type) == 32 ? choose<u32> : choose<u16>;
    } else if (type == "pred" && name != "mov") {
        for (std::size_t n = 0; n < from.operands.size() && n < 3; ++n)
            (n ? to.s[n - 1] : to.d[0]) = in.predicate(from.operands[n]);
        if (name == "and")
            to.run = join<[](u32 a, u32 b) { return a & b; }>;
        else if (name == "or")
            to.run = join<[](u32 a, u32 b) { return a | b; }>;
        else if (name == "xor")
            to.run = join<[](u32 a, u32 b) { return a ^ b; }>;
        else if (name == "not")
            to.run = join<[](u32 a, u32) { return ~a; }>;
    }
    return unit::alu;
}

}  // namespace ptx
