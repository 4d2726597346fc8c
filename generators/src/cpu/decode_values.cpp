#include "cpu/decode_values.hpp"

#include "expr/math.hpp"

namespace attune::generators::inline cpu {
using namespace Halide;

row_reductions::row_reductions(const kernel_frame& frame)
    : f_(frame), keys_(frame.cut.key_block), vector_(lanes_of(frame.request.schedule)) {}

namespace {

template <class Place> std::vector<Place> followed_by(std::vector<Place> first, const auto& others) {
    first.insert(first.end(), others.begin(), others.end());
    return first;
}

}  // namespace

Func row_reductions::operator()(const std::string& name, const Func& of_pairs, bool maximum,
                                const std::vector<Var>& beside) {
    // Algorithm
    const bool bits = of_pairs.type().is_uint();
    const Expr first = bits                  ? Expr(0u)
                       : !maximum            ? Expr(0.0f)
                       : is_softmax(f_.core) ? Expr(lowest_score)
                                             : Expr(lowest);
    const auto join = [&](const Expr& a, const Expr& b) {
        return !maximum ? a + b : bits ? max(a, b) : larger_score(f_.core, a, b);
    };
    const RDom vectors(0, keys_ / vector_, name + "_vectors"), lane(0, vector_, name + "_lane");
    const std::vector<Var> row = followed_by(std::vector{f_.qi, f_.kb, f_.qt, f_.h, f_.b}, beside),
                           of_lane = followed_by(std::vector{l}, row);
    Func lanes(name + "_lanes"), all(name);
    lanes(of_lane) = first;
    lanes(of_lane) =
        join(lanes(of_lane), of_pairs(followed_by(score_tile::pair_of(f_, vectors * vector_ + l, f_.qi), beside)));
    all(row) = first;
    all(row) = join(all(row), lanes(followed_by(std::vector<Expr>{lane}, row)));
    in_lanes.emplace_back(lanes, vectors);
    return all;
}

decode_values::decode_values(const kernel_frame& frame, score_tile& scores_at, const subblocks& parts,
                             block_weights& weights, row_reductions& reduced)
    : f_(frame) {
    // Algorithm
    score_tile::scaled_rows narrow;
    if (is_of_codes()) {
        narrow = scores_at.narrow_rows_of(f_.core.value, "values");
        in_order = narrow.in_order, pieces = narrow.pieces, values = narrow.codes;
    } else {
        values = scores_at.rows_of(f_.core.value, false, "values");
    }
    const Expr value = values(f_.d, f_.ki, f_.kb, f_.h, f_.b);
    values_again(f_.d, f_.ki, f_.kb, f_.h, f_.b) =
        narrow.block > 0 ? value * narrow.scales(f_.d / narrow.block, f_.ki, f_.kb, f_.h, f_.b) : value;
    if (planned().check != value_check::none)
        of_masked.emplace(f_, parts,
                          [&](const Expr& d, const Expr& key) { return values_again(d, key, f_.kb, f_.h, f_.b); });
    rk = RDom(0, f_.cut.key_block, "rk"), looked_at = RDom(0, f_.cut.key_block, "looked_at");
    if (is_of_codes())
        add_codes(scores_at, weights, reduced, narrow);
    else
        add_reals(weights);
}

void decode_values::add_reals(const block_weights& weights) {
    // Algorithm
    rk.where(!of_masked->matter()), looked_at.where(of_masked->matter());
    if (planned().of_whole_block) {
        add_in_registers(weights.weighing);
        accumulated(element_) = sums(element_);
    } else {
        accumulated(element_) = 0.0f;
        accumulated(element_) +=
            weights.weighing(score_tile::pair_of(f_, rk, f_.qi)) * values(f_.d, rk, f_.kb, f_.h, f_.b);
    }
    add_looked_at(weights.weighing);
}

void decode_values::add_in_registers(const Func& weighing) {
    // Algorithm
    sums = Func("sums");
    sums(element_) = 0.0f;
    sums(element_) += weighing(score_tile::pair_of(f_, rk, f_.qi)) * values(f_.d, rk, f_.kb, f_.h, f_.b);
}

void decode_values::add_looked_at(const Func& weighing) {
    // Algorithm
    const Expr weight = weighing(score_tile::pair_of(f_, looked_at, f_.qi));
    accumulated(element_) +=
        weight * masked_values::unless_masked(weight, values_again(f_.d, looked_at, f_.kb, f_.h, f_.b));
}

/// Weights take the factor that all channels of a value share. If each pair is looked at, the sums in registers are
/// dropped.
void decode_values::add_codes(const score_tile& scores_at, block_weights& weights, row_reductions& reduced,
                              const score_tile::scaled_rows& narrow) {
    // Algorithm
    const Expr weight = weights.weighing(scores_at.pair());
    weights.scaled = Func("scaled_weights");
    weights.scaled(scores_at.pair()) = weight * masked_values::unless_masked(weight, narrow.factor);
    Expr sum, looks = of_masked ? of_masked->matter() : Expr();
    if (integers() > 0) {
        define_digits(scores_at, weights.scaled, reduced, narrow);
        sum = value_of_digits();
        looks = of_digits.without_step(f_.kb, f_.qt, f_.h, f_.b) != cast<std::uint8_t>(0);
    } else {
        add_in_registers(weights.scaled);
        sum = sums(element_);
    }
    accumulated(element_) = looks_at_pairs() ? select(looks, 0.0f, sum) : sum;
    if (!looks_at_pairs()) return;
    looked_at.where(looks);
    add_looked_at(weights.scaled);
}

namespace {

Expr smallest_step() { return Expr(0x0da24260u); }  // the bits of 1e-30

}  // namespace

/// A weight is about `largest / steps * code`: `largest` is the largest weight of its row in a block; `code` is one
/// digit of 8 bits, two, or a word. Products of digits and codes are integers. A block has no steps if a row's largest
/// weight is tiny, negative or no number: its values are added in f32.
void decode_values::define_digits(const score_tile& scores_at, const Func& weights, row_reductions& reduced,
                                  const score_tile::scaled_rows& narrow) {
    // Algorithm
    integer_sum& of = of_digits;
    of.block = narrow.block;
    const Var &digit = of.digit, &group = of.group, &l = row_reductions::l;
    const int steps = f_.core.weight_steps(), integers = this->integers();
    const std::vector<Var> pair = followed_by(scores_at.pair(), of.beside()),
                           row = followed_by(std::vector{f_.qi, f_.kb, f_.qt, f_.h, f_.b}, of.beside());
    Func scaled = weights;
    if (of.block > 0) {
        of.scales = Func("scales_of_values"), of.scaled = scaled = Func("scaled_of_blocks");
        of.scales(f_.ki, of.of_block, f_.kb, f_.qt, f_.h, f_.b) = narrow.scales(of.of_block, f_.ki, f_.kb, f_.h, f_.b);
        const Expr weight = weights(scores_at.pair());
        scaled(pair) =
            weight * masked_values::unless_masked(weight, of.scales(f_.ki, of.of_block, f_.kb, f_.qt, f_.h, f_.b));
    }
    Func bits_of_weights("bits_of_weights");
    bits_of_weights(pair) = reinterpret<std::uint32_t>(scaled(pair));
    of.largest = reduced("largest", bits_of_weights, true, of.beside());
    const RDom each_row = of.block > 0 ? RDom({{0, f_.rows()}, {0, f_.value_depth() / of.block}}, "each_row")
                                       : RDom(0, f_.rows(), "each_row");
    std::vector<Expr> any_row{each_row.x, f_.kb, f_.qt, f_.h, f_.b};
    if (of.block > 0) any_row.push_back(each_row.y);
    const std::vector<Var> block{f_.kb, f_.qt, f_.h, f_.b};
    const Expr of_row = of.largest(any_row), none = Expr(0u), infinity = Expr(0x7f800000u);
    of.without_step(block) = cast<std::uint8_t>(0);
    of.without_step(block) = max(
        of.without_step(block), cast<std::uint8_t>(of_row >= infinity || (of_row < smallest_step() && of_row != none)));
    const Expr largest = reinterpret<float>(max(of.largest(row), smallest_step())),
               code = cast<int>(round(scaled(pair) * (static_cast<float>(steps) / largest)));
    of.digits(followed_by(std::vector{f_.ki, digit}, row)) =
        integers == 4 ? cast<std::uint8_t>(select(digit == 0, code & 255, code >> 8)) : cast<std::int16_t>(code);
    of.interleaved(l, f_.d, group, f_.kb, f_.h, f_.b) = cast(
        Int(integers == 4 ? 8 : 16), cast<std::int8_t>(narrow.bytes(f_.d, integers * group + l, f_.kb, f_.h, f_.b)));

    const RDom few({{0, integers}, {0, f_.cut.key_block / integers}}, "few");
    of.few = few;
    of.digit_sums(f_.d, digit, f_.qi, f_.kb, f_.qt, f_.h, f_.b) = 0;
    of.digit_sums(f_.d, digit, f_.qi, f_.kb, f_.qt, f_.h, f_.b) +=
        cast<int>(of.digits(followed_by(
            std::vector<Expr>{integers * few.y + few.x, digit, f_.qi, f_.kb, f_.qt, f_.h, f_.b}, of.at(f_.d)))) *
        cast<int>(of.interleaved(few.x, f_.d, few.y, f_.kb, f_.h, f_.b));
}

Expr decode_values::value_of_digits() const {
    const auto sum_of = [&](int i) {
        return cast<float>(of_digits.digit_sums(f_.d, i, f_.qi, f_.kb, f_.qt, f_.h, f_.b));
    };
    const std::vector<Expr> row = followed_by(std::vector<Expr>{f_.qi, f_.kb, f_.qt, f_.h, f_.b}, of_digits.at(f_.d));
    const Expr largest = reinterpret<float>(max(of_digits.largest(row), smallest_step()));
    return (digits_of_weights() == 1 ? sum_of(0) : sum_of(0) + 256.0f * sum_of(1)) *
           (largest / static_cast<float>(f_.core.weight_steps()));
}

}  // namespace attune::generators::inline cpu
