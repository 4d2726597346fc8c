// Schedules whose chunk of value depths leaves a shorter last one, which is written beside the loop over the others:
// generated for every CPU's level, and called where it runs here.
#include "../support/workload_values.hpp"
#include "codegen/halide_target.hpp"
#include "codegen/object.hpp"
#include "kernel/kernel_list.hpp"
#include "lower.hpp"
#include "passes/scratch_on_heap.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/workload.hpp>

#include <Halide.h>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace attune;
using namespace Halide::Internal;
using generators::cpu_prefill, generators::level, generators::listed_kernel;

namespace {
namespace formulas {
using namespace attune::dsl;
inline constexpr auto masked = mask(q * t(k) * rsqrt(depth), causal_bottom_right);
inline constexpr auto attention = outputs(out = softmax(masked) * v, lse = log_sum_exp(masked));
}  // namespace formulas

constexpr int value_depth = 64;
const generators::variant variant{"my::attention", dsl::ir_of<formulas::attention>};

/// One vector of queries a task, so that the last chunk is written in no loop; several; and a chunk that no square
/// fits.
enum class chunks { one_vector, several_vectors, no_squares };

cpu_prefill cut_of(chunks which, int lanes) {
    const int queries = which == chunks::one_vector ? 1 : 2, tile = which == chunks::one_vector ? 24 : 6;
    cpu_prefill cut{};
    cut.lanes = lanes;
    cut.query_tile = queries * lanes, cut.query_block = queries * cut.query_tile;
    cut.key_tile = 4, cut.key_block = 128, cut.depth_unroll = 4;
    cut.value_tile = tile, cut.chunk = which == chunks::no_squares ? 3 * tile : 24;
    return cut;
}

listed_kernel kernel_of(const level& isa, const cpu_prefill& cut) {
    listed_kernel kernel =
        generators::kernels_of(
            {&variant, 1},
            {.targets = {std::string(isa.name)}, .dtypes = {"f32"}, .depths = {"32x64"}, .shapes = {"prefill"}})
            .front();
    kernel.request.schedule = cut;
    check(kernel.request);
    return kernel;
}

void for_each_cpu_level(const auto& visit) {
    for (const level& isa : generators::levels())
        if (!isa.is_gpu) visit(isa);
}

/// Buffers that lie within another of their name, which no code can be made of.
class within_their_like : public IRVisitor {
public:
    std::vector<std::string> names;
    int buffers = 0;

protected:
    using IRVisitor::visit;
    void visit(const Allocate* allocate) override {
        ++buffers;
        if (!open_.insert(allocate->name).second) names.push_back(allocate->name);
        IRVisitor::visit(allocate);
        open_.erase(allocate->name);
    }
    void visit(const Free* free) override { open_.erase(free->name); }

private:
    std::set<std::string> open_;
};

Stmt buffer(const std::string& name, int floats, const Halide::Expr& index) {
    const Stmt use = Store::make(name, 0.0f, index, Halide::Parameter(), const_true(), ModulusRemainder());
    return Allocate::make(name, Halide::Float(32), Halide::MemoryType::Auto, {floats}, const_true(), use);
}

Stmt in_loop(const Stmt& body) {
    return For::make("x", 0, 4, ForType::Serial, Halide::Partition::Auto, Halide::DeviceAPI::Host, body);
}

const level& best_level_of_f32() {
    return *std::ranges::find_if(generators::levels(),
                                 [](const level& each) { return runs(each.name) && !each.is_for_bf16(); });
}

void check_sums(const level& isa) {
    // Of AVX-512's lanes, too: there the scratch of one vector of queries is more than the stack is to hold.
    for (const auto& [which, lanes] :
         {std::pair(chunks::one_vector, 16), {chunks::several_vectors, isa.lanes}, {chunks::no_squares, isa.lanes}}) {
        CAPTURE(isa.name, static_cast<int>(which));
        const generators::jit_kernel kernel(kernel_of(isa, cut_of(which, lanes)));
        support::workload call(variant.graph,
                               {.batches = 2,
                                .heads = 4,
                                .key_heads = 2,
                                .queries = 37,
                                .keys = 150,
                                .depth = 32,
                                .value_depth = value_depth,
                                .gaps = true},
                               7);
        detail::call(kernel.table(), call.arguments(), {.threads = 2});
        const auto expected = call.expected();
        CHECK(call.largest_error(expected, "out") < 2e-5);
        CHECK(call.largest_error(expected, "lse") < 2e-5);
        CHECK(outputs_untouched(call, true));
    }
}

}  // namespace

TEST_CASE("scratch of one name, in a loop and beside it, is one buffer or lies apart", "[chunks]") {
    const Halide::Expr x = Variable::make(Halide::Int(32), "x");
    const int large = 2000, fits_loops = 300, small = 8;  // f32
    for (const int looped : {large, fits_loops, small})
        for (const int beside : {large, fits_loops, small}) {
            CAPTURE(looped, beside);
            const Stmt loop = in_loop(buffer("same", looped, x)), rest = buffer("same", beside, 0);
            for (const Stmt& body : {Block::make(loop, rest), Block::make(rest, loop),
                                     Block::make({loop, in_loop(buffer("same", beside, x)), rest})}) {
                within_their_like found;
                generators::scratch_on_heap(body).accept(&found);
                CHECK(found.names == std::vector<std::string>{});
                CHECK(found.buffers > 0);
            }
        }
}

TEST_CASE("a kernel whose last chunk of values is shorter is generated for every level", "[chunks][.long]") {
    const auto file =
        std::filesystem::temp_directory_path() / ("chunks_" + std::to_string(std::random_device{}()) + ".o");
    for_each_cpu_level([&](const level& isa) {
        CAPTURE(isa.name);
        const listed_kernel kernel = kernel_of(isa, cut_of(chunks::one_vector, isa.lanes));
        const Halide::Module made = lower(kernel.request).module("chunks", generators::halide_target(isa));
        within_their_like found;
        for (const LoweredFunc& each : made.functions()) each.body.accept(&found);
        CHECK(found.names == std::vector<std::string>{});
        CHECK(found.buffers > 0);
        CHECK_NOTHROW(generators::emit_object({&kernel, 1}, isa, file.string()));
    });
    std::filesystem::remove(file);
}

TEST_CASE("a shorter last chunk of values has their sums", "[chunks]") { check_sums(best_level_of_f32()); }

TEST_CASE("a shorter last chunk of values has their sums, in vectors of any level that runs here", "[chunks][.long]") {
    for_each_cpu_level([](const level& isa) {
        if (runs(isa.name)) check_sums(isa);
    });
}
