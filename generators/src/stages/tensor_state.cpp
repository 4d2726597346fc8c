#include "stages/tensor_state.hpp"

#include "expr/math.hpp"
#include "passes/fragment_passes.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace attune::generators::inline stages {
using namespace Halide;

namespace {

/// An instruction that LLVM knows, or a call that is replaced in the text (ptx/instructions.cpp). Its result follows
/// from its operands alone.
Expr made_by(const Type& type, const std::string& name, const std::vector<Expr>& operands) {
    return Internal::Call::make(type, name, operands, Internal::Call::PureExtern);
}

/// The same for an instruction of a whole warp. It stays where it is put, so that no part of the warp is left out.
Expr made_by_warp(const Type& type, const std::string& name, const std::vector<Expr>& operands) {
    return Internal::Call::make(type, name, operands, Internal::Call::Extern);
}

Expr larger(const Expr& a, const Expr& b) { return made_by(Float(32), "llvm.nvvm.fmax.ftz.f", {a, b}); }
Expr exp2_of(const Expr& x) { return made_by(Float(32), "llvm.nvvm.ex2.approx.ftz.f", {x}); }
/// a * b + c. If it were written out, LLVM would take it apart to save a product elsewhere.
Expr fused(const Expr& a, const Expr& b, const Expr& c) { return made_by(Float(32), "llvm.fma.f32", {a, b, c}); }
Expr of_neighbour(const Expr& x, int lanes) {
    return made_by_warp(Float(32), "llvm.nvvm.shfl.sync.bfly.f32", {Expr(-1), x, Expr(lanes), Expr(31)});
}

}  // namespace

tensor_state::tensor_state(const kernel_frame& frame)
    : accumulators(frame.value_depth() / 4),
      of_warpgroups(frame.request.target->warpgroups),
      scores_at(frame, "", frame.keys().scores),
      parts(frame),
      f_(frame) {
    if (f_.decodes()) split.emplace(f_, parts.parts);
    masks_apart = (parts.may_be_whole || scores_at.masked_beyond_keys) && !scores_at.masked_by_product;
    sums_by_products = f_.core.weights == f_.core.statistic_node && !f_.core.log_sum && !of_warpgroups;
    if (is_of_codes()) {
        codes_.of_query = scores_at.narrow_rows_of(f_.core.query, "query_rows");
        codes_.of_key = scores_at.narrow_rows_of(f_.core.key, "key_rows");
    }
    define_rows();
    define_matrices();
    define_scores();
    define_weights();
    define_sums();
    define_state();
    if (f_.keys().values->check == value_check::sums && !split) define_marks();
}

std::string tensor_state::by_element(const std::string& instruction) const {
    return "attune_" + instruction + "_" + (is_of_f32() ? "tf32" : std::string(name_of(of_values().of)));
}

/// What a product reads of a word of f32: its upper bits, or what they leave, if three products make one; else the word
/// rounded to them.
Expr tensor_state::part_of(const warp_fragments& how, const Expr& word, const Expr& lower) {
    if (how.of != element_type::f32) return word;
    if (how.products == 1) return made_by(UInt(32), "attune_round_tf32", {word});
    const Expr upper = word & Expr(0xffffe000u);
    return select(lower, reinterpret<std::uint32_t>(reinterpret<float>(word) - reinterpret<float>(upper)), upper);
}

std::vector<Expr> tensor_state::row(const Expr& half) const { return {half, gi, ti, mt, w, f_.kb, f_.qt, f_.h, f_.b}; }

std::vector<Expr> tensor_state::fragment(const Expr& reg, const Expr& tile) const {
    return {reg, tile, gi, ti, mt, w, f_.kb, f_.qt, f_.h, f_.b};
}

/// Word `at` of a row, one channel of f32 or two neighbouring ones: as it lies in memory, or computed in f32 and
/// rounded to the elements that products take.
Expr tensor_state::word_of(int tensor, bool of_query, const Expr& position, const Expr& at) const {
    if (is_of_codes() && tensor != f_.core.value) return word_of_codes(of_query, position, at);
    if (input_of_rows(f_.graph(), tensor) >= 0)
        return made_by(UInt(32), words_of_rows::row_word, {scores_at.element_of(tensor, of_query, 0, position), at});
    if (is_of_f32()) return reinterpret<std::uint32_t>(scores_at.computed_element(tensor, of_query, at, position));
    const auto element = [&](int which) {
        return scores_at.computed_element(tensor, of_query, 2 * at + which, position);
    };
    return made_by(UInt(32), by_element("pack"), {element(0), element(1)});
}

/// Four neighbouring codes of a row.
Expr tensor_state::word_of_codes(bool of_query, const Expr& position, const Expr& at) const {
    const Func& bytes = of_query ? codes_.of_query.bytes : codes_.of_key.bytes;
    Expr word;
    for (int n = 0; n < 4; ++n) {
        const Expr code = cast<std::uint32_t>(bytes(4 * at + n, position, of_query ? f_.qt : f_.kb, f_.h, f_.b));
        word = word.defined() ? word | (code << (8 * n)) : code;
    }
    return word;
}

/// The product of register r of tile nt, of a query and a key in their blocks.
Expr tensor_state::product_at(const Expr& query, const Expr& key) const {
    const Expr sum = products(fragment(r, nt));
    if (!is_of_codes()) return sum;
    return cast<float>(sum) * scores_at.at_fragment(codes_.of_query.factor * codes_.of_key.factor, query, key, 0.0f);
}

/// A number of the running state before block kb. The stages that make the next state cannot name it.
Expr tensor_state::before(const Expr& element, const Expr& half) const {
    return made_by_warp(Float(32), fragment_registers::state_before, {element, half, mt, f_.kb});
}
Expr tensor_state::before(int element, const Expr& half) const { return before(Expr(element), half); }

/// sum += a * b in four registers at once. Halide evaluates a gather in full before it scatters. Elements of a Tuple
/// would read the new values of earlier elements inside a call's arguments (Halide 21).
void tensor_state::multiply(const warp_fragments& how, Func& sum, const std::vector<Expr>& at,
                            const std::vector<Expr>& a, const std::vector<Expr>& b) {
    const std::string name = "attune_mma_m16n8k" + std::to_string(how.step()) + "_" +
                             (how.of == element_type::f32 ? "tf32" : std::string(name_of(how.of)));
    std::vector<Expr> operands = a, results;
    operands.insert(operands.end(), b.begin(), b.end());
    const auto element = [&](const Expr& reg) {
        std::vector<Expr> all{reg};
        all.insert(all.end(), at.begin(), at.end());
        return all;
    };
    for (int n = 0; n < 4; ++n) operands.push_back(sum(element(n)));
    for (int n = 0; n < 4; ++n) results.push_back(made_by_warp(sum.type(), name + "_d" + std::to_string(n), operands));
    sum(element(scatter(0, 1, 2, 3))) = gather(results[0], results[1], results[2], results[3]);
}

/// Adds to all sums of a thread at once; the expression is the sum in register r of tile nt. `a`: the words of all
/// steps.
Expr tensor_state::of_warpgroup(const std::string& instruction, int columns, int steps, std::vector<Expr> a,
                                const Func& rows, const std::vector<Expr>& sums) const {
    std::vector<Expr> operands{nt * 4 + r};
    operands.insert(operands.end(), a.begin(), a.end());
    operands.push_back(rows(0, 0, 0, 0, f_.kb, f_.h, f_.b));
    operands.insert(operands.end(), sums.begin(), sums.end());
    return made_by_warp(
        Float(32), by_element(instruction + "n" + std::to_string(columns) + "_s" + std::to_string(steps)), operands);
}

/// Queries as fragments, keys and values as rows.
void tensor_state::define_rows() {
    // Algorithm
    query_words(r, ks, gi, ti, mt, w, f_.qt, f_.h, f_.b) =
        word_of(f_.core.query, true, query_of(r % 2), ks * 8 + r / 2 * 4 + ti);
    query_reads(r, ks, gi, ti, mt, w, f_.qt, f_.h, f_.b) = query_words(r, ks, gi, ti, mt, w, f_.qt, f_.h, f_.b);
    if (of_warpgroups) {
        // The piece xor the row, by operations whose bounds Halide knows.
        const Expr row = f_.ki % 8, other = unsafe_promise_clamped(piece + row - 2 * (piece & row), 0, 7);
        const Expr at = part * 32 + other * 4 + word;
        key_rows(word, piece, f_.ki, part, f_.kb, f_.h, f_.b) = word_of(f_.core.key, false, f_.ki, at);
        value_rows(word, piece, f_.ki, part, f_.kb, f_.h, f_.b) = word_of(f_.core.value, false, f_.ki, at);
        return;
    }
    key_rows(word, f_.ki, f_.kb, f_.h, f_.b) = word_of(f_.core.key, false, f_.ki, word);
    value_rows(word, f_.ki, f_.kb, f_.h, f_.b) = word_of(f_.core.value, false, f_.ki, word);
}

/// A warp loads four matrices of 8 x 8 at a time from rows in shared memory.
void tensor_state::define_matrices() {
    // Algorithm
    if (of_warpgroups) return;  // their products read rows
    // Each thread gives the place of one row of 16 bytes: eight threads a matrix, two matrices for each of two tiles.
    const Expr matrix = gi / 2, row_of_matrix = gi % 2 * 4 + ti;
    const auto four = [&](const std::string& instruction, const Expr& first_word) {
        std::vector<Expr> all;
        for (int n = 0; n < 4; ++n)
            all.push_back(made_by_warp(UInt(32), "attune_" + instruction + "_d" + std::to_string(n), {first_word}));
        return mux(i, all);
    };
    key_words(i, j, ks, gi, ti, f_.kb, f_.h, f_.b) = four(
        "ldmatrix_x4", key_rows(ks * 8 + matrix % 2 * 4, (2 * j + matrix / 2) * 8 + row_of_matrix, f_.kb, f_.h, f_.b));
    if (is_of_f32()) {  // matrices are transposed by elements of 16 bits: threads read their two keys
        value_words(i, j, ks, gi, ti, f_.kb, f_.h, f_.b) =
            value_rows(j * 8 + gi, ks * 8 + 2 * ti + i, f_.kb, f_.h, f_.b);
        return;
    }
    value_words(i, j, ks, gi, ti, f_.kb, f_.h, f_.b) =
        four("ldmatrix_x4_trans",
             value_rows((2 * j + matrix / 2) * 4, ks * 16 + matrix % 2 * 8 + row_of_matrix, f_.kb, f_.h, f_.b));
}

void tensor_state::define_scores() {
    // Algorithm
    const std::vector<Var> pair{r, nt, gi, ti, mt, w, f_.kb, f_.qt, f_.h, f_.b};
    const int steps = f_.depth() / of_scores().step();
    channels = RDom(0, of_scores().products, 0, steps, "channels");
    std::vector<Expr> a, b;
    for (int n = 0; n < 4; ++n)
        a.push_back(
            part_of(of_scores(), query_reads(n, channels.y, gi, ti, mt, w, f_.qt, f_.h, f_.b), channels.x == 0));
    for (int n = 0; n < 2 && !of_warpgroups; ++n)
        b.push_back(part_of(of_scores(), key_words(nt % 2 * 2 + n, nt / 2, channels.y, gi, ti, f_.kb, f_.h, f_.b),
                            channels.x == 1));
    if (of_warpgroups) {
        const gpu_tensor_prefill cut = tensor_blocks_of(f_.request.schedule);
        const bool in_turn = cut.warps == 2 * cut.warps_of_group;
        std::vector<Expr> all;
        for (int n = 0; n < 4 * steps; ++n) all.push_back(query_reads(n % 4, n / 4, gi, ti, mt, w, f_.qt, f_.h, f_.b));
        products(pair) =
            of_warpgroup(in_turn ? "wgmma_in_turn_" : "wgmma_", f_.cut.key_block, steps, all, key_rows, {});
    } else {
        products(pair) = cast(is_of_codes() ? Int(32) : Float(32), 0);
        multiply(of_scores(), products, {nt, gi, ti, mt, w, f_.kb, f_.qt, f_.h, f_.b}, a, b);
    }

    const auto at_pair = [&](const Expr& e) {
        const Expr query = query_of(r / 2), key = key_of(nt, r % 2);
        return scores_at.at_fragment(e, query, key, product_at(query, key));
    };
    const Expr real = at_pair(scores_at.real), hidden = at_pair(scores_at.masked);
    if (!masks_apart) {
        scores(pair) = choose_whole(hidden, lowest, real);
        return;
    }
    // A second pass over the registers, in blocks that are not known to be full: one branch a block.
    scores(pair) = real;
    masked = RDom(0, 1, "masked");
    const Expr behind = (f_.kb + masked + 1) * f_.cut.key_block, keys = f_.inputs.keys_in_use(f_.b);
    masked.where(parts.may_be_whole ? parts.may_mask(masked) : as_ordered(behind) > as_ordered(keys));
    scores(pair) = select(Internal::graph_substitute(f_.kb.name(), f_.kb + masked, hidden), lowest, scores(pair));
}

void tensor_state::define_weights() {
    // Algorithm
    const std::vector<Var> pair{r, nt, gi, ti, mt, w, f_.kb, f_.qt, f_.h, f_.b},
        of_row{rh, gi, ti, mt, w, f_.kb, f_.qt, f_.h, f_.b};
    const Expr binary = scores_at.scale * log2_of_e;
    rk = RDom(0, 2, 0, f_.cut.key_block / 8, "rk");
    of_thread(of_row) = lowest;
    of_thread(of_row) = larger(of_thread(of_row), scores(fragment(rh * 2 + rk.x, rk.y)));
    of_pair(of_row) = larger(of_thread(of_row), of_neighbour(of_thread(of_row), 1));
    seen(of_row) = larger(larger(of_pair(of_row), of_neighbour(of_pair(of_row), 2)), before(maximum_at(), rh));
    shrunk(of_row) = exp2_of((before(maximum_at(), rh) - seen(of_row)) * binary);
    // The reference is the maximum itself if the maximum is asked for, or if the sum is not of rounded weights: the
    // largest weight then is exactly 1.
    const bool is_exact = f_.core.maximum || !sums_by_products;
    const Expr grew = is_exact ? seen(of_row) > before(maximum_at(), rh) : shrunk(of_row) < 1 / largest_weight;
    highest(of_row) = select(grew, seen(of_row), before(maximum_at(), rh));
    keep(of_row) = select(grew, shrunk(of_row), 1.0f);
    offset(of_row) = -highest(of_row) * binary;
    weights(pair) = exp2_of(fused(scores(pair), binary, offset(row(r / 2))));
    Func factors = weights;
    if (f_.core.weights != f_.core.statistic_node) {
        const Expr query = query_of(r / 2), key = key_of(nt, r % 2);
        weighing(pair) = scores_at.at_fragment(scores_at.weights(f_.core.weights, weights(pair)), query, key,
                                               product_at(query, key));
        factors = weighing;
    }
    // The results of products of 16 x 8 for two tiles of keys have the layout of the next product's operand; of f32
    // those of one tile, if keys 2 ti and 2 ti + 1 take the places ti and ti + 4 of the sum.
    if (is_of_f32()) {
        packed(r, ks, gi, ti, mt, w, f_.kb, f_.qt, f_.h, f_.b) =
            reinterpret<std::uint32_t>(factors(fragment(r % 2 * 2 + r / 2, ks)));
        return;
    }
    packed(r, ks, gi, ti, mt, w, f_.kb, f_.qt, f_.h, f_.b) =
        made_by(UInt(32), by_element("pack"),
                {factors(fragment(r % 2 * 2, ks * 2 + r / 2)), factors(fragment(r % 2 * 2 + 1, ks * 2 + r / 2))});
}

void tensor_state::define_sums() {
    // Algorithm
    const std::vector<Expr> at{gi, ti, mt, w, f_.kb, f_.qt, f_.h, f_.b};
    const auto a_at = [&](const Expr& step, const Expr& lower) {
        std::vector<Expr> a;
        for (int n = 0; n < 4; ++n)
            a.push_back(part_of(of_values(), packed(n, step, gi, ti, mt, w, f_.kb, f_.qt, f_.h, f_.b), lower));
        return a;
    };
    const int steps = f_.cut.key_block / of_values().step();
    const std::vector<Var> fragments{r, nt, gi, ti, mt, w, f_.kb, f_.qt, f_.h, f_.b};
    const Expr prior = before(nt * 2 + r % 2, r / 2);
    keys = RDom(0, of_values().products, 0, steps, "keys_of_step");
    if (of_warpgroups) {
        before_added = Func("before_added");
        before_added(fragments) = prior * keep(row(r / 2));
        std::vector<Expr> a, all;
        for (int n = 0; n < 4 * steps; ++n) a.push_back(a_at(n / 4, false)[static_cast<std::size_t>(n % 4)]);
        for (int n = 0; n < 2 * accumulators; ++n) all.push_back(before_added(fragment(n % 4, n / 4)));
        added(fragments) = of_warpgroup("wgmma_add_", f_.value_depth(), steps, a, value_rows, all);
    } else {
        std::vector<Expr> b, tile{nt};
        const auto word_of_values = [&](int n) {
            return is_of_f32() ? value_words(n, nt, keys.y, gi, ti, f_.kb, f_.h, f_.b)
                               : value_words(nt % 2 * 2 + n, nt / 2, keys.y, gi, ti, f_.kb, f_.h, f_.b);
        };
        for (int n = 0; n < 2; ++n) b.push_back(part_of(of_values(), word_of_values(n), keys.x == 1));
        tile.insert(tile.end(), at.begin(), at.end());
        Expr least = 1.0f;
        for (int of = 0; of < tiles(); ++of)
            for (int half = 0; half < 2; ++half)
                least = min(least, keep(half, gi, ti, of, w, f_.kb, f_.qt, f_.h, f_.b));
        grown(gi, ti, w, f_.kb, f_.qt, f_.h, f_.b) = least;
        added(fragments) = prior;
        rescaled = RDom(0, 1, "rescaled");
        rescaled.where(grown(gi, ti, w, f_.kb + rescaled, f_.qt, f_.h, f_.b) < 1.0f);
        added(fragments) = added(fragments) * keep(r / 2, gi, ti, mt, w, f_.kb + rescaled, f_.qt, f_.h, f_.b);
        multiply(of_values(), added, tile, a_at(keys.y, keys.x == 0), b);
    }
    if (!sums_by_products) {  // of a thread's own columns
        const std::vector<Var> of_row{rh, gi, ti, mt, w, f_.kb, f_.qt, f_.h, f_.b};
        sums(of_row) = before(sum_at(), rh) * keep(of_row);
        sums(of_row) += weights(fragment(rh * 2 + rk.x, rk.y));
        return;
    }
    // A product with ones; all its columns are the sum.
    const Expr ones(is_of_f32() ? 0x3f800000u : of_values().of == element_type::f16 ? 0x3c003c00u : 0x3f803f80u);
    summed_keys =
        RDom(0, std::min(of_values().products, 2), 0, steps, "summed_keys");  // ones leave nothing in lower bits
    sums(r, gi, ti, mt, w, f_.kb, f_.qt, f_.h, f_.b) = before(sum_at(), r / 2) * keep(row(r / 2));
    multiply(of_values(), sums, at, a_at(summed_keys.y, summed_keys.x == 0), {ones, ones});
}

/// Defines which blocks the state goes over. Returns the one at hand.
Expr tensor_state::block_of_state() {
    const Expr none = cast<std::uint8_t>(0);
    if (!split) {
        blocks = RDom(0, f_.key_blocks(), "blocks");
        blocks.where(parts.visits_of_block(blocks, f_.qt, f_.h, f_.b) != none);
        return blocks.x;
    }
    const FuncRef bounds = split->range(split_ranges::sp, f_.h, f_.b);
    blocks = RDom({{0, looked_at_once}, {0, (f_.key_blocks() + looked_at_once - 1) / looked_at_once}}, "blocks");
    const Expr block = blocks.y * looked_at_once + blocks.x;
    blocks.where(blocks.y >= bounds[0] / looked_at_once);
    blocks.where(blocks.y < (bounds[1] + looked_at_once - 1) / looked_at_once);
    blocks.where(split->visits_of_split(block, split_ranges::sp, f_.qt, f_.h, f_.b) != none);
    return block;
}

void tensor_state::define_state() {
    // Algorithm
    std::vector<Var> kept{rh, mt, gi, ti, w, f_.qt, f_.h, f_.b};
    if (split) kept.insert(kept.begin() + 5, split_ranges::sp);
    std::vector<Expr> initial(static_cast<std::size_t>(accumulators) + 1, 0.0f), next;
    initial.push_back(least_maximum);
    state(kept) = Tuple(initial);
    const Expr block = block_of_state();
    const auto here = [&](const Func& f, std::vector<Expr> at) {
        for (const Expr& each : {Expr(gi), Expr(ti), Expr(mt), Expr(w), block, Expr(f_.qt), Expr(f_.h), Expr(f_.b)})
            at.push_back(each);
        return f(at);
    };
    for (int n = 0; n < accumulators; ++n) next.push_back(here(added, {2 * rh + n % 2, n / 2}));
    // Numbers that were computed before the loop are used once more at its end, to no effect: Halide reuses shared
    // memory after the last use in the program's text.
    const Expr sum = here(sums, {sums_by_products ? 2 * rh : Expr(rh)});
    Expr before_loop = scores_at.of_query(query_of(rh));
    if (queries_in_memory())
        before_loop = before_loop + reinterpret<float>(query_words(0, 0, gi, ti, mt, w, f_.qt, f_.h, f_.b));
    if (split) {
        const FuncRef bounds = split->range(split_ranges::sp, f_.h, f_.b);
        before_loop = before_loop + cast<float>(bounds[0] + bounds[1]);
    }
    const Expr unlikely = rh == 0 && mt == 0 && sum > std::numeric_limits<float>::max();
    next.push_back(sum + select(unlikely, before_loop, 0.0f));
    next.push_back(here(highest, {rh}));
    state(kept) = Tuple(next);
    if (split) return;
    const FuncRef at = state(kept);
    left(kept) = Tuple(at[maximum_at()], at[sum_at()]);
}

}  // namespace attune::generators::inline stages
