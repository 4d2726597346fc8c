#include "passes/multiply_bytes.hpp"

#include <utility>

namespace attune::generators::inline passes {
using namespace Halide;
using namespace Halide::Internal;

namespace {

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

Expr multiply_bytes::visit(const VectorReduce* sum) {
    const int lanes = sum->type.lanes();
    const bool of_four =
        sum->op == VectorReduce::Add && sum->type.element_of() == Int(32) && sum->value.type().lanes() == 4 * lanes;
    const auto [without_sign, with_sign] = of_four ? factors_of(sum->value) : byte_factors{};
    if (!with_sign.defined()) return IRMutator::visit(sum);
    const Expr products = widening_mul(mutate(without_sign), mutate(with_sign));
    if (!in_pairs_) return VectorReduce::make(VectorReduce::Add, cast(Int(32, 4 * lanes), products), lanes);
    const Expr pairs = VectorReduce::make(VectorReduce::SaturatingAdd, products, 2 * lanes);
    return VectorReduce::make(VectorReduce::Add, cast(Int(32, 2 * lanes), pairs), lanes);
}

}  // namespace attune::generators::inline passes
