// Whether queries should be projected tile by tile inside the tasks of the attention, or for all positions beforehand,
// as attune's layers are: ninja attune_projected_queries && bin/attune_projected_queries
//
// Both are written here in Halide with the register tiles that projections have (projections.cpp). In the place of
// the attention stands a sum over each row, so that both pay for what they write and read and for nothing else. They
// take turns; neither order of the loops changes a bit of the result.
#include <Halide.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

using namespace Halide;

namespace {

constexpr int batches = 8, positions = 512, heads = 12, depth = 64, width = heads * depth;
constexpr int tile_rows = 6, tile_columns = 16, query_block = 48, lanes = 8, turns = 31;

enum class projected { beforehand, inside };

struct pipeline {
    ImageParam x{Float(32), 3, "x"}, w{Float(32), 2, "w"};  // (e, p, b), (in, out)
    Func sums{"sums"};                                      // (p, h, b)

    explicit pipeline(projected when) {
        for (int i = 0; i < 3; ++i) x.dim(i).set_min(0);
        Var d("d"), p("p"), h("h"), b("b"), n("n"), ci("ci"), co("co"), pi("pi"), po("po");

        // Algorithm
        const RDom e(0, width, "e"), row(0, depth, "row");
        Func right("right"), left("left"), product("product"), queries("queries"), sum("sum");
        right(ci, n, co, h) =
            w(n, h * depth + co * tile_columns + ci);  // (16, e, d / 16, h): columns of a tile side by side
        left(n, p, b) = x(n, clamp(p, 0, x.dim(1).extent() - 1), b);  // (e, p, b)
        product(ci, pi, co, po, h, b) = 0.0f;                         // tiles of (16, 6)
        product(ci, pi, co, po, h, b) += right(ci, e, co, h) * left(e, po * tile_rows + pi, b);
        queries(d, p, h, b) =
            product(d % tile_columns, p % tile_rows, d / tile_columns, p / tile_rows, h, b);  // (d, p, h, b)
        sum(p, h, b) = 0.0f;
        sum(p, h, b) += queries(row, p, h, b);
        sums(p, h, b) = sum(p, h, b);

        // Schedule
        Var task("task"), qo("qo"), qi("qi"), column("column"), pt("pt"), px("px");
        const TailStrategy cut = TailStrategy::GuardWithIf;
        sums.split(p, qo, qi, query_block, cut)
            .reorder(qi, qo, h, b)
            .fuse(qo, h, task)
            .fuse(task, b, task)
            .parallel(task);
        sum.compute_at(sums, task).update().reorder(p, row);
        right.compute_root().bound_extent(ci, tile_columns).vectorize(ci, lanes).unroll(ci).parallel(co);
        if (when == projected::inside) {
            queries.compute_at(sums, task)
                .split(d, d, column, tile_columns, cut)
                .split(p, pt, px, tile_rows, cut)
                .reorder(column, px, pt, d, h, b)
                .vectorize(column, lanes);
            left.compute_at(sums, task).vectorize(n, lanes);
        } else {
            Var block("block");
            queries.compute_root()
                .split(p, block, p, query_block, cut)
                .split(d, d, column, tile_columns, cut)
                .split(p, pt, px, tile_rows, cut);
            queries.reorder(column, px, pt, d, h, block, b)
                .vectorize(column, lanes)
                .fuse(block, b, task)
                .parallel(task);
            left.compute_at(queries, task).vectorize(n, lanes);
        }
        product.compute_at(queries, pt)
            .bound_extent(ci, tile_columns)
            .bound_extent(pi, tile_rows)
            .bound_extent(co, 1)
            .bound_extent(po, 1);
        product.vectorize(ci, lanes).unroll(ci).unroll(pi);
        product.update().reorder(ci, pi, e).vectorize(ci, lanes).unroll(ci).unroll(pi);
    }
};

double seconds_of(pipeline& p, Buffer<float>& out) {
    const auto start = std::chrono::steady_clock::now();
    p.sums.realize(out);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main() {
    Buffer<float> x(width, positions, batches), w(width, width), out(positions, heads, batches),
        other(positions, heads, batches);
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (Buffer<float>* data : {&x, &w}) data->for_each_value([&](float& value) { value = normal(random); });
    pipeline beforehand(projected::beforehand), inside(projected::inside);
    for (pipeline* p : {&beforehand, &inside}) {
        p->x.set(x), p->w.set(w);
        p->sums.compile_jit(get_host_target().with_feature(Target::NoAsserts).with_feature(Target::NoBoundsQuery));
    }
    seconds_of(beforehand, out), seconds_of(inside, other);
    bool same = true;
    out.for_each_element([&](const int* at) { same = same && out(at) == other(at); });

    std::vector<double> before, within, ratios;
    for (int i = 0; i < turns; ++i) {
        before.push_back(seconds_of(beforehand, out)), within.push_back(seconds_of(inside, other));
        ratios.push_back(within.back() / before.back());
    }
    for (std::vector<double>* times : {&before, &within, &ratios}) std::sort(times->begin(), times->end());
    const auto line = [](const char* name, const std::vector<double>& t) {
        fmt::print("{:12} median {:.2f} ms, best {:.2f} ms\n", name, t[turns / 2] * 1e3, t[0] * 1e3);
    };
    fmt::print("queries of a layer, (B, S, E, H) = ({}, {}, {}, {}); the results are {}\n", batches, positions, width,
               heads, same ? "the same" : "NOT the same");
    line("beforehand", before);
    line("inside", within);
    fmt::print("inside takes {:.2f} times as long (median of turns; best against best {:.2f})\n", ratios[turns / 2],
               within[0] / before[0]);
    return same ? 0 : 1;
}
