// Squares that a kernel transposes: whole rows are exchanged, and what comes out is what Halide alone makes.
#include "passes/transpose_squares.hpp"
#include "codegen/halide_target.hpp"
#include "kernel/kernel_list.hpp"
#include "lower.hpp"

#include <attune/dsl.hpp>

#include <Halide.h>
#include <catch2/catch_test_macros.hpp>

using namespace attune::generators;
using Halide::Buffer, Halide::Func, Halide::Var;

namespace {

using namespace attune::dsl;
inline constexpr auto plain = softmax(q * t(k) * rsqrt(depth)) * v;

/// The transpositions that a statement leaves to LLVM: vectors of strided lanes of a stage's memory, and interleaved
/// ones.
class left_to_llvm : public Halide::Internal::IRVisitor {
public:
    int loads = 0, stores = 0;

protected:
    using IRVisitor::visit;
    void visit(const Halide::Internal::Load* load) override {
        const auto* ramp = load->index.as<Halide::Internal::Ramp>();
        const auto stride = ramp ? Halide::Internal::as_const_int(ramp->stride) : std::nullopt;
        if (load->type.bits() == 32 && stride && *stride > 2) ++loads;
        IRVisitor::visit(load);
    }
    void visit(const Halide::Internal::Store* store) override {
        const auto* value = store->value.as<Halide::Internal::Shuffle>();
        if (value && value->is_interleave() && value->vectors.size() > 2) ++stores;
        IRVisitor::visit(store);
    }
};

class looked_at : public Halide::Internal::IRMutator {
public:
    explicit looked_at(left_to_llvm& found) : found_(found) {}
    using IRMutator::mutate;
    Halide::Internal::Stmt mutate(const Halide::Internal::Stmt& all) override {
        all.accept(&found_);
        return all;
    }

private:
    left_to_llvm& found_;
};

/// Numbers of 3 x 2 squares, transposed by reading columns or by writing them.
struct transposed {
    transposed(int side, bool reads) : numbers(3 * side, 2 * side) {
        numbers.for_each_element([&](int i, int j) { numbers(i, j) = static_cast<float>(1000 * i + j); });
        const Var i("i"), j("j"), io("io"), jo("jo");
        Func rows("rows");
        if (reads) {
            rows(i, j) = numbers(i, j) + 0.5f;
            all(j, i) = rows(i, j);
        } else {
            rows(i, j) = numbers(j, i) + 0.5f;
            all(i, j) = rows(i, j);
        }
        const Var &across = reads ? j : i, &down = reads ? i : j;
        all.bound(across, 0, 2 * side).bound(down, 0, 3 * side);
        if (reads) {
            all.split(j, jo, j, side).split(i, io, i, side).reorder(j, i, jo, io).vectorize(j).unroll(i);
            rows.compute_at(all, jo).vectorize(i, side).unroll(j);
        } else {
            all.split(i, io, i, side).split(j, jo, j, side).reorder(i, j, io, jo).vectorize(i);
            rows.compute_at(all, io)
                .bound_extent(i, side)
                .bound_extent(j, side)
                .reorder(j, i)
                .vectorize(j, side)
                .unroll(i);
        }
    }
    Buffer<float> numbers;
    Func all{"all"};
};

}  // namespace

TEST_CASE("squares that are read or written by columns are transposed") {
    for (const int side : {4, 8, 16})
        for (const bool reads : {true, false}) {
            CAPTURE(side, reads);
            transposed of(side, reads);
            left_to_llvm before, after;
            Halide::Pipeline pipeline(of.all);
            pipeline.add_custom_lowering_pass(new looked_at(before));
            pipeline.add_custom_lowering_pass(new transpose_squares);
            pipeline.add_custom_lowering_pass(new looked_at(after));
            const Buffer<float> made = pipeline.realize({2 * side, 3 * side});
            CHECK((reads ? before.loads : before.stores) > 0);
            CHECK(after.loads == 0);
            CHECK(after.stores == 0);
            for (int i = 0; i < 3 * side; ++i)
                for (int j = 0; j < 2 * side; ++j) REQUIRE(made(j, i) == static_cast<float>(1000 * i + j) + 0.5f);
        }
}

TEST_CASE("kernels transpose queries and outputs by whole rows") {
    const variant of{"my::plain", ir_of<plain>};
    for (const char* level : {"x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"}) {
        CAPTURE(level);
        const auto list =
            kernels_of({&of, 1}, {.targets = {level}, .dtypes = {"f32"}, .depths = {"64"}, .shapes = {"prefill"}});
        const Halide::Module module =
            lower(list.front().request).module("plain", halide_target(*list.front().request.target));
        left_to_llvm found;
        for (const auto& function : module.functions()) function.body.accept(&found);
        CHECK(found.loads == 0);
        CHECK(found.stores == 0);
    }
}
