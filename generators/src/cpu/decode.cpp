#include "cpu/decode.hpp"

#include "expr/math.hpp"

#include <numeric>

namespace attune::generators::inline cpu {
using namespace Halide;

decode_state::decode_state(const kernel_frame& frame)
    : parts(frame),
      scores_at(frame, "", frame.keys().scores),
      width(frame.keys().values ? frame.keys().values->vector : 1),
      vectors_a_chunk(frame.keys().row.accumulators),
      chunks(vectors_a_chunk == 0 ? 1 : frame.value_depth() / width / vectors_a_chunk),
      f_(frame),
      cut_(frame.schedule_as<cpu_decode>()) {
    scores(scores_at.pair()) = choose_whole(scores_at.masked, lowest, scores_at.real);
    define_ranges();
    define_weights();
    define_state();
}

Expr decode_state::blocks_in_use() const {
    return (f_.inputs.most_keys_in_use.value() + f_.cut.key_block - 1) / f_.cut.key_block;
}

/// A split is a contiguous range of the blocks between the first and the last that is visited, so that what a mask or a
/// length leaves is shared out evenly. The ranges depend on what is visible and on the number of splits, not on how
/// many keys there is room for. Blocks behind the last key in use are not looked at: in a short conversation they would
/// take longer than the keys.
void decode_state::define_ranges() {
    // Algorithm
    const Expr count_of_blocks = blocks_in_use(), splits_wanted = f_.inputs.key_splits, none = cast<uint8_t>(0);
    const std::vector<Var> stack{f_.qt, f_.h, f_.b};
    const RDom every_block(0, count_of_blocks, "every_block");
    const Expr seen = parts.visits_of_block(every_block, f_.qt, f_.h, f_.b) != none;
    span(stack) = Tuple(count_of_blocks, 0);
    const FuncRef ends = span(stack);
    span(stack) = Tuple(select(seen, min(ends[0], every_block), ends[0]), select(seen, every_block + 1, ends[1]));
    const Expr first = ends[0], count = max(ends[1] - first, 0);
    range(sp, f_.qt, f_.h, f_.b) = Tuple(first + count * sp / splits_wanted, first + count * (sp + 1) / splits_wanted);
    const FuncRef bounds = range(sp, f_.qt, f_.h, f_.b);
    visits_of_split(f_.kb, sp, f_.qt, f_.h, f_.b) =
        select(bounds[0] <= f_.kb && f_.kb < bounds[1], parts.visits_of_block(f_.kb, f_.qt, f_.h, f_.b), none);
}

/// A row's maximum or sum over the keys of a block: first a vector of partial results, then one number.
Func decode_state::reduced(const std::string& name, const Func& of_pairs, bool maximum) {
    // Algorithm
    const int keys = std::gcd(cut_.key_block, cut_.lanes);
    const bool bits = of_pairs.type().is_uint();
    const Expr first = bits                  ? Expr(0u)
                       : !maximum            ? Expr(0.0f)
                       : is_softmax(f_.core) ? Expr(lowest_score)
                                             : Expr(lowest);
    const auto join = [&](const Expr& a, const Expr& b) {
        return !maximum ? a + b : bits ? max(a, b) : larger_score(f_.core, a, b);
    };
    const RDom vectors(0, cut_.key_block / keys, name + "_vectors"), lane(0, keys, name + "_lane");
    const std::vector<Var> row{f_.qi, f_.kb, f_.qt, f_.h, f_.b}, of_lane{l, f_.qi, f_.kb, f_.qt, f_.h, f_.b};
    Func lanes(name + "_lanes"), all(name);
    lanes(of_lane) = first;
    lanes(of_lane) = join(lanes(of_lane), of_pairs(score_tile::pair_of(f_, vectors * keys + l, f_.qi)));
    all(row) = first;
    all(row) = join(all(row), lanes(lane, f_.qi, f_.kb, f_.qt, f_.h, f_.b));
    lane_sums.emplace_back(lanes, vectors);
    return all;
}

void decode_state::define_weights() {
    // Algorithm
    weights =
        weights_of_block(f_, scores_at, scores, [this](const std::string& name, const Func& of_pairs, bool maximum) {
            return reduced(name, of_pairs, maximum);
        });
    if (!vectors_a_chunk) return;
    score_tile::scaled_rows narrow;
    if (values_are_narrow()) {
        narrow = scores_at.narrow_rows_of(f_.core.value, "values");
        values = narrow.codes, values_in_order = narrow.in_order, pieces_of_values = narrow.pieces;
    } else {
        values = scores_at.rows_of(f_.core.value, false, "values");
    }
    values_again(f_.d, f_.ki, f_.kb, f_.h, f_.b) = values(f_.d, f_.ki, f_.kb, f_.h, f_.b);
    if (planned().check != value_check::none)
        of_masked.emplace(f_, parts,
                          [&](const Expr& d, const Expr& key) { return values_again(d, key, f_.kb, f_.h, f_.b); });
    rk = RDom(0, cut_.key_block, "rk"), looked_at = RDom(0, cut_.key_block, "looked_at");
    if (values_are_narrow()) return add_codes(narrow);
    rk.where(!of_masked->matter()), looked_at.where(of_masked->matter());
    const std::vector<Var> at{f_.d, f_.qi, f_.kb, f_.qt, f_.h, f_.b};
    const auto weight_of = [&](const RDom& key) { return weights.weighing(score_tile::pair_of(f_, key, f_.qi)); };
    const auto value_of = [&](const Func& of, const RDom& key) { return of(f_.d, key, f_.kb, f_.h, f_.b); };
    if (planned().of_whole_block) {
        sums = Func("sums");
        sums(at) = 0.0f;
        sums(at) += weight_of(rk) * value_of(values, rk);
        accumulated(at) = sums(at);
    } else {
        accumulated(at) = 0.0f;
        accumulated(at) += weight_of(rk) * value_of(values, rk);
    }
    add_looked_at(weights.weighing);
}

void decode_state::add_looked_at(const Func& weighing) {
    // Algorithm
    const Expr weight = weighing(score_tile::pair_of(f_, looked_at, f_.qi));
    accumulated(f_.d, f_.qi, f_.kb, f_.qt, f_.h, f_.b) +=
        weight * masked_values::unless_masked(weight, values_again(f_.d, looked_at, f_.kb, f_.h, f_.b));
}

/// What all channels of a value share is put into the weights. Sums stay in registers while a few rows go through the
/// keys of the block; where each pair is looked at they count for nothing.
void decode_state::add_codes(const score_tile::scaled_rows& narrow) {
    // Algorithm
    const std::vector<Var> element{f_.d, f_.qi, f_.kb, f_.qt, f_.h, f_.b};
    const Expr weight = weights.weighing(scores_at.pair());
    weights.scaled = Func("scaled_weights");
    weights.scaled(scores_at.pair()) = weight * masked_values::unless_masked(weight, narrow.factor);
    Expr sum, looks = of_masked ? of_masked->matter() : Expr();
    if (integers() > 0) {
        looks = sum_digits(narrow.bytes, sum);
    } else {
        added(element) = 0.0f;
        added(element) += weights.scaled(score_tile::pair_of(f_, rk, f_.qi)) * values(f_.d, rk, f_.kb, f_.h, f_.b);
        sum = added(f_.d, f_.qi, f_.kb, f_.qt, f_.h, f_.b);
    }
    accumulated(element) = looks_at_pairs() ? select(looks, 0.0f, sum) : sum;
    if (!looks_at_pairs()) return;
    looked_at.where(looks);
    add_looked_at(weights.scaled);
}

/// Weights as multiples of a step of their row in a block, in digits of eight bits or as a word; products of digits and
/// codes are integers. Returns whether a block has weights without such a step, negative ones or what is no number:
/// they are added in f32.
Expr decode_state::sum_digits(const Func& codes, Expr& sum) {
    // Algorithm
    const int steps = f_.core.weight_steps(), integers = this->integers();
    const std::vector<Var> row{f_.qi, f_.kb, f_.qt, f_.h, f_.b}, block{f_.kb, f_.qt, f_.h, f_.b};
    Func bits_of_weights("bits_of_weights");
    bits_of_weights(scores_at.pair()) = reinterpret<std::uint32_t>(weights.scaled(scores_at.pair()));
    largest = reduced("largest", bits_of_weights, true);
    const RDom each_row(0, f_.rows(), "each_row");
    const Expr of_row = largest(each_row, f_.kb, f_.qt, f_.h, f_.b), none = Expr(0u), infinity = Expr(0x7f800000u);
    const Expr smallest = Expr(0x0da24260u);  // 1e-30
    without_step(block) = cast<std::uint8_t>(0);
    without_step(block) =
        max(without_step(block), cast<std::uint8_t>(of_row >= infinity || (of_row < smallest && of_row != none)));
    const Expr most = reinterpret<float>(max(largest(std::vector<Expr>(row.begin(), row.end())), smallest)),
               code = cast<int>(round(weights.scaled(scores_at.pair()) * (static_cast<float>(steps) / most)));
    const std::vector<Var> digit{f_.ki, dg, f_.qi, f_.kb, f_.qt, f_.h, f_.b};
    digits(digit) =
        integers == 4 ? cast<std::uint8_t>(select(dg == 0, code & 255, code >> 8)) : cast<std::int16_t>(code);
    interleaved(l, f_.d, group, f_.kb, f_.h, f_.b) =
        cast(Int(integers == 4 ? 8 : 16), cast<std::int8_t>(codes(f_.d, integers * group + l, f_.kb, f_.h, f_.b)));

    few = RDom({{0, integers}, {0, cut_.key_block / integers}}, "few");
    digit_sums(f_.d, dg, f_.qi, f_.kb, f_.qt, f_.h, f_.b) = 0;
    digit_sums(f_.d, dg, f_.qi, f_.kb, f_.qt, f_.h, f_.b) +=
        cast<int>(digits(integers * few.y + few.x, dg, f_.qi, f_.kb, f_.qt, f_.h, f_.b)) *
        cast<int>(interleaved(few.x, f_.d, few.y, f_.kb, f_.h, f_.b));
    const auto of_digit = [&](int i) { return cast<float>(digit_sums(f_.d, i, f_.qi, f_.kb, f_.qt, f_.h, f_.b)); };
    sum = (std::get<integer_dots>(planned().how).digits == 1 ? of_digit(0) : of_digit(0) + 256.0f * of_digit(1)) *
          (most / static_cast<float>(steps));
    return without_step(f_.kb, f_.qt, f_.h, f_.b) != cast<std::uint8_t>(0);
}

void decode_state::define_state() {
    // Algorithm
    blocks = RDom(0, blocks_in_use(), "blocks");
    const Expr block = blocks.x;
    blocks.where(visits_of_split(blocks, sp, f_.qt, f_.h, f_.b) != cast<uint8_t>(0));
    layout = state_layout(f_.core, vectors_a_chunk, weights);
    const std::vector<Var> at{l, dc, f_.qi, sp, f_.qt, f_.h, f_.b};
    state(at) = Tuple(layout.initial);
    const FuncRef ref = state(at);
    const auto old = [&](int i) { return layout.size() == 1 ? Expr(ref) : Expr(ref[i]); };
    state(at) = Tuple(state_with_block(
        f_.core, layout, weights, scores_at.scale, old,
        [&](const Func& f) { return f(f_.qi, block, f_.qt, f_.h, f_.b); },
        [&](int j) { return accumulated((dc * vectors_a_chunk + j) * width + l, f_.qi, block, f_.qt, f_.h, f_.b); }));
}

void decode_state::share_tasks(std::deque<decode_state>& cores, const std::vector<int>& tasks) {
    for (std::size_t first = 0; first < cores.size(); ++first) {
        std::vector<decode_state*> sharing;
        for (std::size_t i = first; i < cores.size(); ++i)
            if (tasks[i] == static_cast<int>(first)) sharing.push_back(&cores[i]);
        if (!sharing.empty()) define_splits(sharing);
    }
    for (decode_state& each : cores) each.define_merge();
}

/// What a task leaves, of each core in one piece of memory: (lane of element of chunk, row, split, query block, key
/// head, batch).
void decode_state::define_splits(const std::vector<decode_state*>& sharing) {
    // Algorithm
    std::vector<Expr> of_cores;
    for (const decode_state* its : sharing) {
        const kernel_frame& f = its->f_;
        const Var &x = its->x, &sp = its->sp;
        const int width = its->width, size = its->layout.size();
        const FuncRef here = its->state(x % width, x / (width * size), f.qi, sp, f.qt, f.h, f.b);
        std::vector<Expr> elements;
        for (int i = 0; i < size; ++i) elements.push_back(size == 1 ? Expr(here) : Expr(here[i]));
        of_cores.push_back(size == 1 ? elements[0] : mux(x / width % size, elements));
    }
    const decode_state& first = *sharing.front();
    const kernel_frame& f = first.f_;
    Func partial("partial");
    partial(first.x, f.qi, first.sp, f.qt, f.h, f.b) = Tuple(of_cores);
    for (std::size_t i = 0; i < sharing.size(); ++i)
        sharing[i]->partial = partial, sharing[i]->place = static_cast<int>(i);
}

Expr decode_state::of_split(const Expr& lane, const Expr& chunk, int i, const Expr& split,
                            const std::vector<Expr>& row) const {
    const kernel_frame::stacked_row at = f_.stacked_row_of(row);
    const FuncRef left =
        partial(lane + width * (i + layout.size() * chunk), at.row, split, at.query_block, at.key_head, at.batch);
    return partial.outputs() == 1 ? Expr(left) : Expr(left[place]);
}

void decode_state::define_merge() {
    // Algorithm
    splits = RDom(0, f_.inputs.key_splits, "splits");
    const std::vector<Var> row{f_.qi, f_.qt, f_.h, f_.b}, at{l, dc, f_.qi, f_.qt, f_.h, f_.b};
    const std::vector<Expr> of_row(row.begin(), row.end());
    Expr factor = 1.0f;
    if (layout.maximum_at >= 0) {
        top(row) = is_softmax(f_.core) ? lowest_score : lowest;
        top(row) = larger_score(f_.core, top(row), of_split(0, 0, layout.maximum_at, splits, of_row));
        if (is_softmax(f_.core))
            factor = weight_of_split(of_split(l, dc, layout.maximum_at, splits, of_row), top(row), scores_at.scale);
    }
    std::vector<Expr> initial(static_cast<std::size_t>(layout.size()), 0.0f), next;
    merged(at) = Tuple(initial);
    const FuncRef ref = merged(at);
    for (int i = 0; i < layout.size(); ++i)
        next.push_back((initial.size() == 1 ? Expr(ref) : Expr(ref[i])) +
                       (i == layout.maximum_at ? Expr(0.0f) : of_split(l, dc, i, splits, of_row) * factor));
    merged(at) = Tuple(next);
}

Expr decode_state::merged_at(const Expr& lane, const Expr& chunk, int i, const std::vector<Expr>& row) const {
    const FuncRef at = merged(lane, chunk, row[0], row[1], row[2], row[3]);
    return layout.size() == 1 ? Expr(at) : Expr(at[i]);
}

Expr decode_state::maximum_of(const std::vector<Expr>& row) const { return top(row); }
Expr decode_state::sum_of(const std::vector<Expr>& row) const { return merged_at(0, 0, layout.sum_at, row); }
Expr decode_state::summed_of(int node, const std::vector<Expr>& row) const {
    return merged_at(0, 0, layout.place_of(node, f_.core), row);
}
Expr decode_state::accumulated_of(const std::vector<Expr>& row, const Expr& d) const {
    std::vector<Expr> chunk;
    for (int j = 0; j < vectors_a_chunk; ++j)
        chunk.push_back(merged_at(d % width, d / (width * vectors_a_chunk), j, row));
    return vectors_a_chunk == 1 ? chunk[0] : mux(d / width % vectors_a_chunk, chunk);
}

}  // namespace attune::generators::inline cpu
