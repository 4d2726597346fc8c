#include "cpu/score_tile_schedule.hpp"

#include "cpu/register_tile.hpp"
#include "cpu/stage_schedules.hpp"

#include <attune/ir/block_axes.hpp>

#include <algorithm>
#include <numeric>

namespace attune::generators::inline cpu {
using namespace Halide;

namespace {

/// In decode keys and values are fetched while earlier ones are in use. The caches' own prefetchers stop at the end of
/// each page, and a task reads a page in some 300 ns. This is the distance if rows follow one another.
constexpr int bytes_ahead = 4096;

/// The distance in keys if each row has a place of its own, or a formula makes it; at least an iteration of any loop
/// over them.
int keys_ahead(const cpu_decode& cut) { return std::max({32, cut.keys_of_step(), cut.value_tile}); }

}  // namespace

void score_tile_schedule::schedule_pairs(const cpu_prefill& cut, const LoopLevel& tile, const LoopLevel& storage) {
    for (transposed_pairs& each : its_.transposed)
        schedule_transposed(each, f_, lanes_, {cut.query_tile, f_.cut.key_block}, tile, storage);
}

void score_tile_schedule::schedule_rows(const score_tile::stored_rows& its, const LoopLevel& block,
                                        const LoopLevel& storage) {
    // Schedule
    const auto& [of_rows, channels, of_query, pieces] = its;
    const Var i = of_query ? f_.qi : f_.ki, of = of_query ? f_.qt : f_.kb, dx("dx");
    Func rows = of_rows;
    rows.compute_at(block)
        .hoist_storage(storage)
        .bound_extent(i, of_query ? f_.cut.query_block : f_.cut.key_block)
        .bound_extent(of, 1);
    const int vector = channels > 0 ? std::gcd(lanes_, channels) : 1;
    if (vector < 4) {
        rows.vectorize(f_.d, lanes_, TailStrategy::GuardWithIf);
        return;
    }
    schedule_row_vectors(rows, channels, pieces);
}

void score_tile_schedule::schedule_side(bool of_query, const LoopLevel& block, const LoopLevel& storage) {
    // In decode rows of a tensor are made by their users.
    const bool by_channels = its_.along == score_tile::lanes::channels;
    for (const score_tile::stored_rows& stored : its_.stored)
        if (stored.of_query == of_query && !by_channels) schedule_rows(stored, block, storage);
    for (Func& kept : of_query ? its_.hoisted_of_queries : its_.hoisted_of_keys)
        schedule_hoisted(kept, of_query, block);
    if (by_channels) return;
    for (score_tile::contraction& c : its_.contractions)
        lies_in_lanes(of_query) ? schedule_panel(c, of_query, block, storage)
                                : schedule_broadcast(c, of_query, block, storage);
}

bool score_tile_schedule::lies_in_lanes(bool of_query) const {
    return of_query == (its_.along == score_tile::lanes::queries);
}

void score_tile_schedule::schedule_hoisted(Func& kept, bool of_query, const LoopLevel& block) {
    // Schedule
    const Var i = of_query ? f_.qi : f_.ki, of = of_query ? f_.qt : f_.kb;
    const int positions = of_query ? f_.cut.query_block : f_.cut.key_block, vector = std::gcd(lanes_, positions);
    const bool by_channels = its_.along == score_tile::lanes::channels,
               is_place = std::ranges::find(its_.places_of_keys, kept.name()) != its_.places_of_keys.end();
    kept.compute_at(block).bound_extent(of, 1);
    if (by_channels && is_place)
        kept.bound_extent(i, positions + keys_ahead(f_.schedule_as<cpu_decode>()));
    else if (!(by_channels && of_query))  // only the call knows how many rows are stacked
        kept.bound_extent(i, positions);
    if (lies_in_lanes(of_query)) kept.vectorize(i, vector);
    const auto dense = its_.dense_where.find(kept.name());
    if (dense == its_.dense_where.end()) return;
    Stage loaded = kept.specialize(dense->second);  // a vector at a time, not an element
    if (!lies_in_lanes(of_query)) loaded.vectorize(i, vector);
}

/// The factor of a product whose positions do not lie in lanes: an element of it is read for a whole vector of the
/// other.
void score_tile_schedule::schedule_broadcast(score_tile::contraction& c, bool of_query, const LoopLevel& block,
                                             const LoopLevel& storage) {
    // Schedule
    if (made_by<bf16_tiles>(c.how))
        c.key_rows.compute_at(block)
            .hoist_storage(storage)
            .bound_extent(f_.ki, f_.cut.key_block)
            .bound_extent(f_.kb, 1)
            .bound_extent(f_.d, f_.depth())
            .vectorize(f_.d, std::gcd(2 * lanes_, f_.depth()));
    // Keys are read once for each vector of queries. The queries' own copy is small, and free of branches.
    else if (!is_of_bf16(c.how) && of_query && c.fixed && !is_stored(c.query_rows))
        schedule_rows({c.query_rows, f_.depth(), true}, block, storage);
}

/// The factor of a product whose positions lie in lanes.
void score_tile_schedule::schedule_panel(score_tile::contraction& c, bool of_query, const LoopLevel& block,
                                         const LoopLevel& storage) {
    // Schedule
    const Var i = of_query ? f_.qi : f_.ki, of = of_query ? f_.qt : f_.kb;
    const int positions = of_query ? f_.cut.query_block : f_.cut.key_block, vector = std::gcd(lanes_, positions);
    c.panel.compute_at(block).hoist_storage(storage).bound_extent(i, positions).bound_extent(of, 1);
    if (made_by<bf16_pairs>(c.how)) {
        const Var j = c.panel.args()[0];
        c.panel.bound_extent(j, 2).reorder(j, f_.d, i).unroll(j);
        return;
    }
    // Channels a power of two apart would fall into a few sets of the cache.
    if (positions % 64 == 0) c.panel.align_storage(i, positions + 2 * lanes_);
    const int channels_of_row = f_.depth() / (made_by<bf16_tiles>(c.how) ? 2 : std::max(integers_at_a_time(c.how), 1));
    if (made_by<integer_dots>(c.how)) {
        c.integers.offset.compute_at(block).hoist_storage(storage).bound_extent(i, positions).bound_extent(of, 1);
        c.integers.offset.vectorize(i, vector);
        if (c.integers.offset.has_update_definition())
            c.integers.offset.update().reorder(i, c.each).vectorize(i, vector);
    }
    const int transposed = c.fixed ? std::gcd(vector, channels_of_row) : 1;
    if (transposed < 4) {
        c.panel.vectorize(i, vector);
        return;
    }
    // Rows as they lie, transposed a square at a time.
    const Var ix("ix"), dx("dx");
    c.panel.split(f_.d, f_.d, dx, transposed).split(i, i, ix, vector).reorder(ix, dx, f_.d, i).vectorize(ix).unroll(dx);
    const Func rows = of_query ? c.query_rows : c.key_rows;
    if (!is_stored(rows)) Func(rows).compute_at(c.panel, f_.d).vectorize(f_.d, transposed).unroll(i);
}

bool score_tile_schedule::is_stored(const Func& rows) const {
    return std::ranges::any_of(its_.stored,
                               [&](const score_tile::stored_rows& each) { return each.rows.name() == rows.name(); });
}

void score_tile_schedule::schedule_queries(const LoopLevel& block, const LoopLevel& storage) {
    // Schedule
    its_.keys.compute_at(storage);
    its_.last_key.compute_at(storage);
    if (its_.along == score_tile::lanes::channels) {
        for (Func rows : {f_.query_of_row, f_.head_of_row}) rows.compute_at(block);
        for (score_tile::contraction& c : its_.contractions) {
            c.query_rows.compute_at(block).hoist_storage(storage);
            if (!made_by<integer_dots>(c.how)) continue;
            c.panel.compute_at(block).hoist_storage(storage).bound_extent(c.panel.args()[0], 64);
            Func& offset = c.integers.offset.compute_at(block).hoist_storage(storage);
            if (c.integers.scaled.defined())
                offset.bound_extent(offset.args()[0], coded_channels / integers_at_a_time(c.how) * 4);
        }
    }
    schedule_side(true, block, storage);
}

void score_tile_schedule::schedule_shared(const LoopLevel& level) {
    // Schedule
    for (Func& kept : its_.hoisted_of_task) kept.compute_at(level);
}

void score_tile_schedule::schedule_keys(const LoopLevel& block, const LoopLevel& storage) {
    schedule_side(false, block, storage);
}

void score_tile_schedule::schedule_dots(const cpu_decode& cut, const LoopLevel& row, const LoopLevel& rows,
                                        const LoopLevel& keys) {
    // Schedule
    const Var l("l"), kj("kj");
    const int vector = its_.channel_vector, keys_of_step = cut.keys_of_step(), tile = cut.query_tile;
    for (score_tile::contraction& c : its_.contractions) {
        if (made_by<integer_dots>(c.how)) {
            schedule_integers(c, cut, rows, keys);
            continue;
        }
        // All rows of a tile are made, even if the queries do not fill it: leftover memory may hold denormals, which
        // take 100 times as long to multiply.
        schedule_row_vectors(c.query_rows.align_bounds(f_.qi, tile), f_.depth());
        c.product.compute_at(row).bound_extent(f_.ki, keys_of_step).vectorize(f_.ki, cut.lanes);
        c.product.update().reorder(c.lane, f_.ki).atomic().vectorize(c.lane).vectorize(f_.ki, cut.lanes);
        c.collected.compute_at(rows).bound_extent(f_.ki, keys_of_step).bound_extent(l, vector);
        const auto take_keys = [&](Stage stage, int count) {
            stage.split(f_.ki, f_.ki, kj, count).reorder(l, kj, f_.qi, f_.ki).vectorize(l).unroll(kj).unroll(f_.qi);
        };
        if (const int most = f_.keys().scores.keys_of_one_row) take_keys(c.collected.specialize(f_.rows() == 1), most);
        take_keys(c.collected, cut.key_tile);
        c.dots.compute_at(c.collected, f_.ki).vectorize(l).unroll(f_.ki).unroll(f_.qi);
        // Each piece of a row has a loop of its own, so that branches on a channel's position are constants.
        const RVar piece("piece"), step("step");
        const int steps = f_.depth() / vector / c.pieces;
        c.dots.update()
            .split(c.each, piece, step, steps)
            .reorder(l, f_.ki, f_.qi, step, piece)
            .vectorize(l)
            .unroll(f_.ki)
            .unroll(f_.qi)
            .unroll(step, std::gcd(cut.depth_unroll, steps))
            .unroll(piece);
        if (!is_read_in_place(f_.core.key) && !is_of_codes(c.how))
            schedule_row_vectors(c.key_rows.compute_at(keys).bound_extent(f_.ki, keys_of_step), f_.depth());
    }
}

void score_tile_schedule::schedule_integers(score_tile::contraction& c, const cpu_decode& cut, const LoopLevel& rows,
                                            const LoopLevel& keys_of_step) {
    // Schedule
    const Var r = c.collected.args()[0], stack = c.collected.args()[2], j = c.dots.args()[0], kj("kj");
    const bool few = f_.request.target->registers < 32;
    const int keys = f_.keys().scores.keys, tile = cut.query_tile;
    schedule_row_vectors(c.query_rows.align_bounds(f_.qi, tile), f_.depth());
    c.collected.compute_at(rows)
        .bound_extent(f_.ki, cut.keys_of_step())
        .bound_extent(r, 4)
        .bound_extent(stack, tile / 4);
    c.collected.split(f_.ki, f_.ki, kj, keys).reorder(r, kj, stack, f_.ki).vectorize(r).vectorize(kj).unroll(stack);
    Func &sums = c.integers.sums, &scaled = c.integers.scaled;
    sums.compute_at(c.collected, stack).vectorize(r).vectorize(f_.ki);
    sums.update().reorder(c.lane, r, f_.ki).atomic().vectorize(c.lane).vectorize(r).vectorize(f_.ki);
    if (scaled.defined()) {
        Func& scales = c.integers.scales;
        const Var of_block = scales.args()[0];
        scales.compute_at(keys_of_step)
            .bound_extent(f_.ki, cut.keys_of_step())
            .bound_extent(of_block, f_.depth() / c.integers.channels)
            .unroll(of_block);
        scaled.compute_at(c.collected, stack).vectorize(j).vectorize(r).unroll(f_.ki);
        scaled.update().reorder(j, r, f_.ki, c.integers.blocks).vectorize(j).vectorize(r).unroll(f_.ki);
    }
    c.dots.compute_at(scaled.defined() ? LoopLevel(scaled, c.integers.blocks.x) : LoopLevel(c.collected, stack))
        .vectorize(j)
        .vectorize(r)
        .unroll(f_.ki);
    const RVar piece("piece"), step("step");
    const int vectors = c.integers.channels / coded_channels, steps = vectors % c.pieces == 0 ? vectors / c.pieces : 1;
    c.dots.update()
        .split(c.each.y, piece, step, steps)
        .reorder(c.each.x, j, r, f_.ki, step, piece)
        .atomic()
        .vectorize(c.each.x)
        .vectorize(j)
        .vectorize(r)
        .unroll(f_.ki)
        .unroll(piece);
    if (!few || scaled.defined())
        c.dots.update().unroll(step);  // of 16 registers LLVM would put sums of unrolled steps into memory
}

void score_tile_schedule::schedule_row_vectors(Func rows, int channels, int pieces) const {
    // Schedule
    const Var dx("dx");
    const int of_word = its_.along == score_tile::lanes::queries ? 4 / rows.type().bytes() : 1;
    const int vector = std::gcd(of_word * lanes_, channels / pieces);
    rows.bound_extent(f_.d, channels).split(f_.d, f_.d, dx, vector).vectorize(dx);
    // Written out, so that the place of a row is found once, and branches on a channel's position are constants.
    if (channels / vector <= 32) rows.unroll(f_.d);
}

bool score_tile_schedule::is_read_in_place(int tensor) const {
    return lies_in_rows(f_.graph(), f_.depends, tensor) ||
           f_.keys().scores.reads_in_place(f_.node(tensor).arguments[0]);
}

void score_tile_schedule::fetch_rows(Pipeline& pipeline, int tensor, const reading& loops) const {
    const cpu_decode& cut = f_.schedule_as<cpu_decode>();
    const bool computed = !lies_in_rows(f_.graph(), f_.depends, tensor);
    std::vector<prefetch_rows::stream> streams;
    const std::vector<bool> read = under(f_.graph(), {tensor}, [](int) { return false; });
    for (int n = 0; n < static_cast<int>(f_.graph().nodes.size()); ++n) {
        if (!read[n] || f_.node(n).op != operation::input) continue;
        const input_declaration& input = f_.graph().inputs[f_.node(n).input];
        if (!has_dense_rows(input)) continue;
        const ImageParam& rows = f_.inputs.tensor(f_.node(n).input);
        const bool in_blocks = has_blocks(input);
        const axis_kind along = in_blocks ? input.axes[input.rank - 2].counts : input.axes[input.rank - 1].kind;
        const int depth = along == axis_kind::value_depth ? f_.value_depth() : f_.depth(),
                  read = std::min(depth, loops.channels);
        const auto elements_of = [&](int channels) {
            return in_blocks ? elements_of_blocks(input, channels) : channels;
        };
        const int elements = elements_of(depth);
        const int wanted = computed ? keys_ahead(cut) : bytes_ahead / (rows.type().bytes() * elements);
        streams.push_back({rows.name(), elements_of(read), std::max(wanted / loops.keys, 1)});
    }
    pipeline.add_custom_lowering_pass(
        new prefetch_rows(loops.asks, loops.reads, streams, its_.places_of_keys, loops.parts));
}

void score_tile_schedule::fetch_keys(Pipeline& pipeline, const Func& scores) const {
    const score_tile::contraction& c = its_.contractions.front();
    const bool computed = !is_read_in_place(f_.core.key) && !is_of_codes(c.how);
    if (!f_.keys().scores.fetched) return;
    fetch_rows(pipeline, f_.core.key,
               {stage_loop::any_over(computed ? c.key_rows : c.collected, f_.ki), stage_loop::any_over(scores, f_.ki),
                lanes_, f_.depth()});
}

std::vector<row_loop> score_tile_schedule::row_loops() const {
    std::vector<row_loop> all;
    for (const score_tile::contraction& c : its_.contractions)
        all.push_back({stage_loop::any_over(c.panel, f_.qi),
                       made_by<bf16_pairs>(c.how) ? 1 : std::gcd(lanes_, f_.cut.query_block)});
    return all;
}

void score_tile_schedule::schedule_products(const LoopLevel& tile, int in_lanes, int others, int vector) {
    // Schedule
    const Var lane = its_.pair()[0], other = its_.pair()[1];
    for (score_tile::contraction& c : its_.contractions) {
        Func& product = made_by<integer_dots>(c.how) ? c.dots : c.product;
        product.compute_at(tile)
            .bound_extent(lane, in_lanes)
            .bound_extent(other, others)
            .bound_extent(f_.qt, 1)
            .bound_extent(f_.kb, 1);
        if (is_of_tiles(c.how)) {  // for multiply_tiles
            std::vector<VarOrRVar> order{c.each.x, lane, other};
            if (c.each.dimensions() == 2) order.insert(order.begin() + 1, c.each.y);
            product.update().reorder(order).never_partition_all();
            continue;
        }
        const register_tile sums{lane, other, vector};
        sums.write_out(product);
        sums.add(product.update(), c.each);
        if (c.fixed && its_.written_out() > 1) product.update().unroll(sums.loop(c.each), its_.written_out());
    }
}

}  // namespace attune::generators::inline cpu
