#include "stages/prefill_values.hpp"

#include "expr/math.hpp"
#include "passes/multiply_bytes.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace attune::generators::inline stages {
using namespace Halide;

depth_chunks::depth_chunks(const kernel_frame& f)
    : size(f.keys().values ? f.keys().values->chunk : 0),
      count(size ? (f.value_depth() + size - 1) / size : 1),
      together(size) {
    constexpr int of_a_load = 4;
    if (f.request.on_gpu() && size % of_a_load == 0) together = std::min(of_a_load, size);
}

Expr depth_chunks::depth_of(const Expr& element) const {
    if (together == size) return element;
    const Expr chunk = element / size, in_chunk = element % size;
    return in_chunk / together * (together * count) + chunk * together + in_chunk % together;
}

prefill_values::prefill_values(const kernel_frame& frame, score_tile& scores_at, const subblocks& parts,
                               block_weights& weights)
    : f_(frame) {
    // Algorithm
    if (tiled()) define_words(weights);
    if (of_codes()) {
        define_codes(scores_at, weights);
        return;
    }
    if (pairs_of_bf16())
        define_pairs(scores_at, parts, weights.weights);
    else
        define_values(scores_at, parts, weights.weighing);
    if (!tiled()) weighted(element_) = accumulated(element_);  // tiles are written to memory
    if (!of_masked) return;
    RDom guarded_block(0, 1, "guarded_block");  // the block itself, so that it can have a condition
    guarded_block.where(of_masked->matter());
    weighted(element_) = guarded(f_.qi, f_.d, f_.kb + guarded_block, f_.qt, f_.h, f_.b);
}

void prefill_values::define_values(score_tile& scores_at, const subblocks& parts, const Func& weighing) {
    // Algorithm
    values = scores_at.rows_of(f_.core.value, false, "values");
    if (f_.request.on_gpu()) {  // all keys of a block are added up: beyond the last key stands 0, whatever the last
                                // key's values are
        const Func read = values;
        values = Func("values_in_use");
        values(f_.d, f_.ki, f_.kb, f_.h, f_.b) =
            select(f_.key_at(f_.ki) < f_.inputs.keys_in_use(f_.b), read(f_.d, f_.ki, f_.kb, f_.h, f_.b), 0.0f);
    }
    // The last chunk may be longer than what is left.
    const Expr depth = min(depth_chunks(f_).depth_of(f_.d), f_.value_depth() - 1);
    const auto add_values = [&](Func& sum, const RDom& keys, bool look) {
        const Expr weight = weighing(score_tile::pair_of(f_, f_.qi, keys)),
                   value = values(depth, keys, f_.kb, f_.h, f_.b);
        sum(element_) = 0.0f;
        sum(element_) += weight * (look ? masked_values::unless_masked(weight, value) : value);
    };
    added = RDom(0, f_.cut.key_block, "added");
    if (!f_.request.on_gpu()) {
        of_masked.emplace(f_, parts, [&](const Expr& d, const Expr& key) { return values(d, key, f_.kb, f_.h, f_.b); });
        added.where(!of_masked->matter());
    }
    // On a GPU each pair is checked, and no block as a whole.
    add_values(accumulated, added, planned().check == value_check::each_pair);
    if (!of_masked) return;
    looked_at = RDom(0, f_.cut.key_block, "looked_at");
    looked_at.where(of_masked->matter());
    add_values(guarded, looked_at, true);
}

/// A weight, which takes the factor that all channels of a value share, is about `largest / steps * code`; products of
/// codes are integers. A block has no steps if a value's factor is negative, tiny or no number: its values are added in
/// f32. A weight that is NaN makes its row's sum NaN, whatever its code.
void prefill_values::define_codes(score_tile& scores_at, const block_weights& weights) {
    // Algorithm
    const Var kw("kw"), &d = f_.d, &qi = f_.qi, &kb = f_.kb, &qt = f_.qt, &h = f_.h, &b = f_.b;
    const score_tile::scaled_rows narrow = scores_at.narrow_rows_of(f_.core.value, "values");
    const Expr steps = static_cast<float>(f_.core.weight_steps()), smallest_step = 1e-30f;
    const auto factor_at = [&](const Expr& key) { return Internal::substitute(f_.ki.name(), key, narrow.factor); };
    const auto weight_at = [&](const Expr& key) { return weights.weighing(score_tile::pair_of(f_, qi, key)); };
    auto& [largest, without_step, each_key, pieces] = coded;
    pieces = narrow.pieces;
    each_key = RDom(0, f_.cut.key_block, "each_key");
    const Expr bits = reinterpret<std::uint32_t>(factor_at(each_key)), infinity = Expr(0x7f800000u), none = Expr(0u);
    without_step(kb, h, b) = none;
    without_step(kb, h, b) = max(
        without_step(kb, h, b),
        select(bits >= infinity || (bits < reinterpret<std::uint32_t>(smallest_step) && bits != none), Expr(1u), none));
    const Expr in_steps = without_step(kb, h, b) == none;

    largest(qi, kb, qt, h, b) = smallest_step;
    largest(qi, kb, qt, h, b) = max(largest(qi, kb, qt, h, b), weight_at(each_key) * factor_at(each_key));
    const int in_word = keys_of_word();
    const bool in_bytes = in_word == bytes_of_word;
    // Beside 2^23 an f32 has no fraction: its lowest bits are the code. Bits of its exponent leave the word with a
    // shift.
    constexpr float no_fraction = 8388608.0f;
    Expr codes_of_weights = Expr(0u - std::bit_cast<std::uint32_t>(no_fraction));
    std::vector<Expr> codes_of_values;
    for (int j = 0; j < in_word; ++j) {
        const Expr key = in_word * kw + j;
        const Expr in_step = weight_at(key) * factor_at(key) * (steps / largest(qi, kb, qt, h, b));
        const Expr code = reinterpret<std::uint32_t>(in_step + no_fraction), byte = narrow.bytes(d, key, kb, h, b);
        codes_of_weights = codes_of_weights + (code << (32 / in_word * j));
        codes_of_values.push_back(in_bytes ? byte : cast<std::int16_t>(cast<std::int8_t>(byte)));
    }
    weight_pairs(qi, kw, kb, qt, h, b) = codes_of_weights;
    const Expr word = word_of_codes(codes_of_values);
    if (in_tiles()) {
        value_rows(d, kw, kb, h, b) = word;
        value_pairs(kw, d, kb, h, b) = value_rows(d, kw, kb, h, b);
    } else {
        value_pairs(d, kw, kb, h, b) = word;
    }

    const Expr depth = min(d, f_.value_depth() - 1);  // the last chunk may be longer than what is left
    added = RDom(0, f_.cut.key_block / in_word, "added");
    added.where(in_steps);
    const Expr of_weights = weight_pairs(qi, added, kb, qt, h, b),
               of_values = in_tiles() ? value_pairs(added, d, kb, h, b) : value_pairs(depth, added, kb, h, b);
    accumulated(element_) = 0;
    accumulated(element_) += in_bytes ? dot_of_bytes(of_weights, of_values) : dot_of_halves(of_weights, of_values);
    weighted(element_) = cast<float>(accumulated(element_)) * (largest(qi, kb, qt, h, b) / steps);

    looked_at = RDom(0, f_.cut.key_block, "looked_at");
    looked_at.where(!in_steps);
    const Expr weight = weight_at(looked_at);
    guarded(element_) = 0.0f;
    guarded(element_) += weight * masked_values::unless_masked(weight, factor_at(looked_at)) *
                         cast<float>(cast<std::int8_t>(narrow.bytes(depth, looked_at, kb, h, b)));
    RDom guarded_block(0, 1, "guarded_block");
    guarded_block.where(!in_steps);
    weighted(element_) = guarded(qi, d, kb + guarded_block, qt, h, b);
}

/// The weights of two keys as a word, and their sum: weights of f32 would take as much of the first-level cache as the
/// scores do.
void prefill_values::define_words(block_weights& weights) {
    // Algorithm
    const Var k2("k2");
    const auto bits = [&](int which) {
        return reinterpret<std::uint32_t>(weights.weights(score_tile::pair_of(f_, f_.qi, 2 * k2 + which)));
    };
    weight_pairs(f_.qi, k2, f_.kb, f_.qt, f_.h, f_.b) = bits(0) >> 16 | bits(1);
    words = RDom({{0, 2}, {0, f_.cut.key_block / 2}}, "words");
    weights.sum = Func("sum");
    weights.sum(f_.qi, f_.kb, f_.qt, f_.h, f_.b) = 0.0f;
    weights.sum(f_.qi, f_.kb, f_.qt, f_.h, f_.b) +=
        cast<float>(half_of(weight_pairs(f_.qi, words.y, f_.kb, f_.qt, f_.h, f_.b), words.x));
}

/// Lays the weights and values of two neighbouring keys beside each other.
void prefill_values::define_pairs(const score_tile& scores_at, const subblocks& parts, const Func& weights) {
    // Algorithm
    const Var j("j"), k2("k2");
    const bool tiled = this->tiled();
    added = RDom({{0, 2}, {0, f_.cut.key_block / 2}}, "added");
    const Expr depth = min(f_.d, f_.value_depth() - 1);
    const auto element = [&](const Expr& d, const Expr& key) {
        return scores_at.element_of(f_.core.value, false, d, key);
    };
    if (tiled) {
        value_rows(f_.d, k2, f_.kb, f_.h, f_.b) = word_of(element(f_.d, 2 * k2), element(f_.d, 2 * k2 + 1));
        value_pairs(k2, f_.d, f_.kb, f_.h, f_.b) = value_rows(f_.d, k2, f_.kb, f_.h, f_.b);
    } else {
        const Expr bits = reinterpret<std::uint32_t>(weights(score_tile::pair_of(f_, f_.qi, 2 * k2 + j)));
        weight_pairs(j, f_.qi, k2, f_.kb, f_.qt, f_.h, f_.b) = reinterpret(BFloat(16), cast<std::uint16_t>(bits >> 16));
        value_pairs(j, f_.d, k2, f_.kb, f_.h, f_.b) = element(f_.d, 2 * k2 + j);
    }
    of_masked.emplace(f_, parts, [&](const Expr& d, const Expr& key) {
        return cast<float>(tiled ? element(d, key) : Expr(value_pairs(key % 2, d, key / 2, f_.kb, f_.h, f_.b)));
    });
    const auto add_values = [&](Func& sum, const RDom& keys, bool look) {
        const Expr of_pair = cast<float>(tiled ? half_of(weight_pairs(f_.qi, keys.y, f_.kb, f_.qt, f_.h, f_.b), keys.x)
                                               : Expr(weight_pairs(keys.x, f_.qi, keys.y, f_.kb, f_.qt, f_.h, f_.b)));
        const Expr value = cast<float>(tiled ? half_of(value_pairs(keys.y, f_.d, f_.kb, f_.h, f_.b), keys.x)
                                             : Expr(value_pairs(keys.x, depth, keys.y, f_.kb, f_.h, f_.b)));
        sum(element_) = 0.0f;
        sum(element_) += of_pair * (look ? masked_values::unless_masked(of_pair, value) : value);
    };
    added.where(!of_masked->matter());
    add_values(tiled ? weighted : accumulated, added, false);
    looked_at = RDom({{0, 2}, {0, f_.cut.key_block / 2}}, "looked_at");
    looked_at.where(of_masked->matter());
    add_values(guarded, looked_at, true);
}

}  // namespace attune::generators::inline stages
