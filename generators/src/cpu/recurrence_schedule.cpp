#include "cpu/recurrence.hpp"

#include "kernel/cpu_schedule.hpp"
#include "passes/prefetch_rows.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

/// Everything is computed in full before its users, in memory that stays in the first two levels of cache. Products are
/// made by tiles in registers.
namespace attune::generators::inline cpu {
using namespace Halide;

int recurrent_chunk::lanes_along(int width) const { return std::gcd(width, cut_.lanes); }

/// In a tile of sums the loop over the terms is outermost.
void recurrent_chunk::schedule_product(const product& each) const {
    const int lanes = lanes_along(each.width), vectors = part_of(each.width / lanes, cut_.vectors),
              rows = part_of(each.height, cut_.rows);
    Var xo("xo"), yo("yo"), xi("xi"), yi("yi"), xv("xv"), ax("ax"), av("av");
    Func result = each.result, sums = each.sums;

    // Schedule
    result.compute_root()
        .bound(each.x, 0, each.width)
        .bound(each.y, 0, each.height)
        .tile(each.x, each.y, xo, yo, xi, yi, lanes * vectors, rows)
        .split(xi, xi, xv, lanes);
    if (each.of_heads)
        result.reorder(xv, xi, yi, xo, yo, x_.g);
    else
        result.reorder(xv, xi, yi, xo, yo);
    result.vectorize(xv).unroll(xi).unroll(yi);
    sums.compute_at(result, xo).vectorize(each.x, lanes).unroll(each.x).unroll(each.y);
    sums.update()
        .split(each.x, ax, av, lanes)
        .reorder(av, ax, each.y, each.along)
        .vectorize(av)
        .unroll(ax)
        .unroll(each.y);
    if (Func fading = each.fading; fading.defined()) {
        fading.compute_at(sums, each.along).bound(x_.i, 0, size_.tokens).unroll(x_.i);
        fading.vectorize(x_.m, lanes).unroll(x_.m);
        if (fading.has_update_definition())
            fading.update().vectorize(x_.m, lanes).unroll(x_.m).unroll(fading.rvars(0)[0]);
    }
    if (each.triangular) result.unroll(yo), sums.update().unroll(each.along);  // the terms of a row are known then
    if (each.of_heads && is_const_one(place_.group)) result.bound(x_.g, 0, 1);
}

void recurrent_chunk::schedule_decay() const {
    const int tokens = lanes_along(size_.tokens), channels = lanes_along(size_.depth);
    Func logs = decay_.log_decays, each = decay_.decays, running = decay_.running_decay, between = decay_.decay_between,
         remaining = decay_.remaining_decay;

    // Schedule
    if (logs.defined()) logs.compute_root().bound(x_.i, 0, size_.tokens);
    if (size_.by_channel) {
        for (Func product : {running, remaining}) {
            product.compute_root().bound(x_.d, 0, size_.depth).bound(x_.i, 0, size_.tokens).vectorize(x_.d, channels);
            if (product.has_update_definition())
                product.update().reorder(x_.d, product.rvars(0)[0]).vectorize(x_.d, channels);
        }
        return;
    }
    if (!running.defined()) return;
    if (each.defined()) each.compute_root().bound(x_.i, 0, size_.tokens).vectorize(x_.i, tokens);
    running.compute_root().bound(x_.i, 0, size_.tokens).vectorize(x_.i, tokens);
    between.compute_root().bound(x_.j, 0, size_.tokens).bound(x_.i, 0, size_.tokens).vectorize(x_.j, tokens);
    if (between.has_update_definition()) between.update().reorder(x_.j, between.rvars(0)[0]).vectorize(x_.j, tokens);
}

void recurrent_chunk::schedule_system() const {
    const int across = lanes_along(size_.rows()), channels = part_of(size_.depth, 16),
              lanes = lanes_along(size_.value_depth);
    Var mo("mo"), dou("dou"), mi("mi"), di("di"), eo("eo"), ev("ev");
    Func transposed = system_.keys_transposed, written = system_.written, state = system_.state, order = system_.order;

    // Schedule
    if (transposed.defined())
        transposed.compute_root()
            .bound(x_.m, 0, size_.rows())
            .bound(x_.d, 0, size_.depth)
            .tile(x_.m, x_.d, mo, dou, mi, di, across, channels)
            .vectorize(mi)
            .unroll(di);
    written.compute_root().bound(x_.e, 0, size_.value_depth).bound(x_.m, 0, size_.rows()).vectorize(x_.e, lanes);
    if (written.has_update_definition()) {
        const std::vector<RVar> solved = written.rvars(0);
        written.update()
            .split(x_.e, eo, ev, lanes)
            .reorder(ev, solved[0], solved[1], eo)
            .vectorize(ev)
            .unroll(solved[0])
            .unroll(solved[1]);  // sums of all rows stay in registers
    }
    if (system_.copies_state)
        state.compute_root().bound(x_.e, 0, size_.value_depth).bound(x_.d, 0, size_.depth).vectorize(x_.e, lanes);
    order.compute_root();
}

void recurrent_chunk::schedule() {
    // Schedule
    for (row_sum& each : sums_) {
        each.partial.compute_root().bound(each.lane, 0, each.lanes).vectorize(each.lane, each.lanes);
        each.partial.update().reorder(each.lane, each.along, x_.i, x_.g).vectorize(each.lane, each.lanes);
        each.partial.bound(x_.i, 0, size_.tokens);
        each.sum.compute_root().bound(x_.i, 0, size_.tokens);
    }
    for (auto& [n, made] : kept_)
        for (Func* each : {&made.first, &made.second})
            if (each->defined() && !each->has_update_definition())
                each->compute_root().bound(x_.i, 0, size_.tokens).vectorize(x_.i, lanes_along(size_.tokens));
    for (stage& each : stages_) {
        each.func.compute_root().bound(each.lane, 0, each.width).vectorize(each.lane, lanes_along(each.width));
    }
    schedule_decay();
    schedule_system();
    for (const product& each : products_) schedule_product(each);
    for (std::size_t i = 0; i + 1 < outputs.size(); ++i)
        outputs[i].output_buffer().dim(0).set_bounds(0, size_.value_depth);
    outputs.back().output_buffer().dim(0).set_bounds(0, size_.value_depth).set_stride(1);
    outputs.back().output_buffer().dim(1).set_bounds(0, size_.depth);
}

/// Prefetches rows during the products, which take longer than memory does.
void recurrent_chunk::fetch_rows(Pipeline& step) const {
    for (const chunk_plan::fetched_rows& rows : planned_.fetched) {
        const auto reads = std::ranges::find(stages_, rows.node, &stage::row);
        if (reads == stages_.end())
            throw std::logic_error("attune: rows are planned to be fetched that no stage reads");
        std::vector<prefetch_rows::stream> streams;
        for (std::size_t input = 0; input < request_.graph().inputs.size(); ++input)
            if (!request_.graph().inputs[input].is_scalar)
                streams.push_back({inputs_.tensor(static_cast<int>(input)).name(), reads->width, size_.tokens});
        const stage_loop tokens = stage_loop::any_over(reads->func, x_.i);
        step.add_custom_lowering_pass(new prefetch_rows(tokens, tokens, streams, {}));
    }
}

}  // namespace attune::generators::inline cpu
