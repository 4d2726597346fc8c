#include "passes/multiply_bytes.hpp"

#include <algorithm>
#include <utility>

namespace attune::generators::inline passes {
using namespace Halide;
using namespace Halide::Internal;

namespace {

/// Words of four bytes, or of two halves, each. A word, or a vector of them, that lies in memory is read as it lies.
Expr made_word(const std::vector<Expr>& parts) {
    const int lanes = parts[0].type().lanes(), count = static_cast<int>(parts.size());
    const auto* broadcast = parts[0].as<Broadcast>();
    if (broadcast && std::ranges::all_of(parts, [](const Expr& part) { return part.as<Broadcast>() != nullptr; })) {
        std::vector<Expr> each;
        for (const Expr& part : parts) each.push_back(part.as<Broadcast>()->value);
        return Broadcast::make(made_word(each), broadcast->lanes);
    }
    const auto first_of = [](const Load* load) {
        const auto* along = load->index.as<Ramp>();
        return along ? along->base : load->index;
    };
    const auto* first = parts[0].as<Load>();
    bool lie_together = first && is_const_one(first->predicate);
    for (int i = 0; lie_together && i < count; ++i) {
        const auto* load = parts[static_cast<std::size_t>(i)].as<Load>();
        const auto* along = load ? load->index.as<Ramp>() : nullptr;
        lie_together = load && load->name == first->name && is_const_one(load->predicate) &&
                       (lanes == 1 || (along && is_const(along->stride, count))) &&
                       is_const(simplify(first_of(load) - first_of(first)), i);
    }
    if (!lie_together) return reinterpret(UInt(32, lanes), Shuffle::make_interleave(parts));
    const Type all = first->type.with_lanes(count * lanes);
    return reinterpret(UInt(32, lanes),
                       Load::make(all, first->name, Ramp::make(first_of(first), 1, count * lanes), first->image,
                                  first->param, const_true(count * lanes), ModulusRemainder()));
}

/// A vector of bytes without a sign; undefined if the numbers may be others. Halide gives small ones a sign.
Expr without_sign(const Expr& e) {
    if (e.type().element_of() == UInt(8)) return e;
    const auto* given = e.as<Cast>();
    const bool small = given && given->type.element_of() == Int(8) && given->value.type().element_of() == UInt(8) &&
                       constant_integer_bounds(given->value) <= 127;
    return small ? given->value : Expr();
}

/// Both factors of a product of bytes, the one without a sign first; undefined if it is no such product.
struct byte_factors {
    Expr without_sign, with_sign;
};

byte_factors factors_of(const Expr& sums) {
    const auto* widened = sums.as<Cast>();
    const Call* product = widened ? Call::as_intrinsic(widened->value, {Call::widening_mul}) : nullptr;
    if (!product) return {};
    for (const auto& [one, other] :
         {std::pair(product->args[0], product->args[1]), {product->args[1], product->args[0]}})
        if (other.type().element_of() == Int(8) && without_sign(one).defined()) return {without_sign(one), other};
    return {};
}

}  // namespace

Expr word_of_codes(const std::vector<Expr>& parts) {
    return Call::make(UInt(32), name_of_words, parts, Call::PureExtern);
}

Expr dot_of_bytes(const Expr& without_sign, const Expr& with_sign) {
    return Call::make(Int(32), name_of_dots, {without_sign, with_sign}, Call::PureExtern);
}

Expr dot_of_halves(const Expr& one, const Expr& other) {
    return Call::make(Int(32), name_of_dots_of_halves, {one, other}, Call::PureExtern);
}

Expr multiply_bytes::sums(const Expr& without_sign, const Expr& with_sign) const {
    const Expr products = widening_mul(without_sign, with_sign);
    const int lanes = products.type().lanes() / 4;
    if (!in_pairs_) return VectorReduce::make(VectorReduce::Add, cast(Int(32, 4 * lanes), products), lanes);
    const Expr pairs = VectorReduce::make(VectorReduce::SaturatingAdd, products, 2 * lanes);
    return VectorReduce::make(VectorReduce::Add, cast(Int(32, 2 * lanes), pairs), lanes);
}

Expr multiply_bytes::visit(const VectorReduce* sum) {
    const int lanes = sum->type.lanes();
    const bool of_four =
        sum->op == VectorReduce::Add && sum->type.element_of() == Int(32) && sum->value.type().lanes() == 4 * lanes;
    const auto [without_sign, with_sign] = of_four ? factors_of(sum->value) : byte_factors{};
    if (!with_sign.defined()) return IRMutator::visit(sum);
    return sums(mutate(without_sign), mutate(with_sign));
}

Expr multiply_bytes::visit(const Call* call) {
    if (call->name == name_of_words) {
        std::vector<Expr> parts;
        for (const Expr& part : call->args) parts.push_back(mutate(part));
        return made_word(parts);
    }
    if (call->name == name_of_dots_of_halves) {
        const Type halves = Int(16, 2 * call->type.lanes());
        const auto side = [&](int which) { return reinterpret(halves, mutate(call->args[which])); };
        return VectorReduce::make(VectorReduce::Add, widening_mul(side(0), side(1)), call->type.lanes());
    }
    if (call->name != name_of_dots) return IRMutator::visit(call);
    const int lanes = 4 * call->type.lanes();
    return sums(reinterpret(UInt(8, lanes), mutate(call->args[0])), reinterpret(Int(8, lanes), mutate(call->args[1])));
}

}  // namespace attune::generators::inline passes
