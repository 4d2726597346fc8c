#include "cpu/decode_values.hpp"

#include <numeric>

namespace attune::generators::inline cpu {
using namespace Halide;

namespace {

/// Adds values to a tile of sums in registers: a few keys and all remaining channels of a row at a time.
void schedule_sums_in_registers(decode_values& its, const kernel_frame& f) {
    // Schedule
    const RVar rx("rx");
    const Var dx("dx");
    const int vector = its.planned().vector;
    its.sums.vectorize(f.d, vector).unroll(f.d).unroll(f.qi);
    its.sums.update().split(its.rk, its.ro, rx, f.schedule_as<cpu_decode>().value_tile).split(f.d, f.d, dx, vector);
    its.sums.update().reorder(dx, f.d, f.qi, rx, its.ro).vectorize(dx).unroll(f.d).unroll(f.qi).unroll(rx);
}

/// A few keys at a time, in the order in which memory has them: each row's sums come from the cache and go there again.
void schedule_sums_in_cache(const cpu_decode& cut, decode_values& its, const kernel_frame& f) {
    // Schedule
    const RVar rx("rx");
    const Var dx("dx"), qx("qx");
    const int vector = its.planned().vector;
    its.accumulated.vectorize(f.d, vector);
    const auto add = [&](Stage stage, const RVar& of, int keys, int rows) {
        stage.split(its.rk, of, rx, keys)
            .split(f.d, f.d, dx, vector)
            .split(f.qi, f.qi, qx, rows, rows == 1 ? TailStrategy::Auto : TailStrategy::GuardWithIf)
            .reorder(dx, rx, qx, f.d, f.qi, of)
            .vectorize(dx)
            .unroll(rx)
            .unroll(qx);
    };
    if (const int keys = its.planned().keys_of_one_row)
        add(its.accumulated.update().specialize(f.rows() == 1), its.r1, keys, 1);
    add(its.accumulated.update(), its.ro, cut.value_tile, cut.query_tile);
}

/// Adds all keys of the block to a tile of rows and channels at a time. All rows take one tile of channels before the
/// next, so that its values of all keys stay in the first-level cache.
void schedule_sums_of_block(const cpu_decode& cut, decode_values& its, const kernel_frame& f) {
    // Schedule
    const Var dj("dj"), dx("dx"), qx("qx");
    const int channels = its.planned().channels, rows = cut.query_tile;
    its.accumulated.split(f.d, f.d, dj, channels)
        .split(dj, dj, dx, its.planned().vector)
        .split(f.qi, f.qi, qx, rows, TailStrategy::RoundUp);
    its.accumulated.reorder(dx, dj, qx, f.qi, f.d).vectorize(dx).unroll(dj).unroll(qx);
    its.sums.compute_at(its.accumulated, f.qi).bound_extent(f.d, channels).bound_extent(f.qi, rows);
    its.sums.bound_extent(f.kb, 1).bound_extent(f.qt, 1);
    schedule_sums_in_registers(its, f);
}

void schedule_digits(decode_values& its, const kernel_frame& f, const Var& tile) {
    // Schedule
    const Var dx("dx"), &l = row_reductions::l;
    decode_values::integer_sum& of = its.of_digits;
    const int vector = its.planned().vector;
    of.digit_sums.compute_at(its.accumulated, tile);
    of.digit_sums.bound_extent(of.digit, its.digits_of_weights())
        .vectorize(f.d, vector)
        .unroll(f.d)
        .unroll(of.digit)
        .unroll(f.qi);
    of.digit_sums.update().split(f.d, f.d, dx, vector);
    of.digit_sums.update()
        .reorder(of.few.x, dx, f.d, of.digit, f.qi, of.few.y)
        .atomic()
        .vectorize(of.few.x)
        .vectorize(dx)
        .unroll(f.d)
        .unroll(of.digit)
        .unroll(f.qi);
    of.interleaved.compute_at(of.digit_sums, of.few.y).bound_extent(l, its.integers());
    const int side_by_side =
        f.request.target->registers < 32 ? vector : std::gcd(its.planned().channels, f.value_depth() / its.pieces);
    of.interleaved.split(f.d, f.d, dx, side_by_side).reorder(dx, l, f.d).vectorize(dx).unroll(l).unroll(f.d);
}

/// Values that are codes: sums of a few rows and vectors, in registers.
void schedule_codes(const cpu_decode& cut, decode_values& its, const kernel_frame& f) {
    // Schedule
    const Var dx("dx"), qx("qx");
    const int vector = its.planned().vector;
    const auto schedule_tile = [&](Stage stage, int channels, int rows) {
        stage.split(f.d, its.dt, f.d, channels).split(f.d, f.d, dx, vector).vectorize(dx).unroll(f.d);
        if (!its.in_order) stage.unroll(its.dt);  // branches on a channel's position are constants then
        stage.split(f.qi, f.qi, qx, rows, rows == 1 ? TailStrategy::Auto : TailStrategy::RoundUp)
            .reorder(dx, f.d, qx, its.dt, f.qi);
        if (rows > 1) stage.unroll(qx);
    };
    schedule_tile(its.accumulated.specialize(f.rows() == 1), its.planned().channels_of_one_row, 1);
    schedule_tile(its.accumulated, its.planned().channels, cut.query_tile);
    if (its.integers() > 0) return schedule_digits(its, f, its.dt);
    its.sums.compute_at(its.accumulated, its.dt);
    schedule_sums_in_registers(its, f);
}

}  // namespace

void schedule_values(const cpu_decode& cut, decode_values& its, const kernel_frame& f,
                     const std::function<Func(Func)>& in_block) {
    // Schedule
    if (its.integers() > 0) {
        decode_values::integer_sum& of = its.of_digits;
        const Var kx("kx");
        in_block(of.digits)
            .bound_extent(f.ki, cut.key_block)
            .bound_extent(of.digit, its.digits_of_weights())
            .split(f.ki, f.ki, kx, cut.lanes)
            .reorder(kx, of.digit, f.ki)
            .vectorize(kx)
            .unroll(of.digit);
        if (of.block > 0) {
            in_block(of.scales)
                .bound_extent(f.ki, cut.key_block)
                .bound_extent(of.of_block, f.value_depth() / of.block)
                .reorder(of.of_block, f.ki)
                .unroll(of.of_block);
            in_block(of.scaled).bound_extent(f.ki, cut.key_block).vectorize(f.ki, cut.lanes);
        }
        in_block(of.largest);
        in_block(of.without_step);
    }
    in_block(its.accumulated).bound_extent(f.d, f.value_depth());
    if (its.is_of_codes())
        schedule_codes(cut, its, f);
    else if (its.sums.defined())
        schedule_sums_of_block(cut, its, f);
    else
        schedule_sums_in_cache(cut, its, f);
    if (!its.looks_at_pairs()) return;
    Stage looked = its.accumulated.update(its.planned().of_whole_block ? 0 : 1);
    looked.reorder(f.d, f.qi, its.looked_at).vectorize(f.d, its.planned().vector);
    looked.never_partition(std::vector<VarOrRVar>{its.looked_at});
}

}  // namespace attune::generators::inline cpu
