// The prefetches of kernels, in the order of the text: lines of the cache one after the other, as the caches' own
// prefetchers follow them.
#include "codegen/halide_target.hpp"
#include "kernel/kernel_list.hpp"
#include "lower.hpp"
#include "plans/kernel_plan.hpp"

#include <attune/dsl.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

using namespace attune;
using namespace attune::generators;

namespace {

using namespace attune::dsl;
inline constexpr auto plain = softmax(q * t(k) * rsqrt(depth)) * v;

// Rows of 128 bytes, whose values are read by parts in a loop, and of 64, by parts that are written out.
inline constexpr auto k8 = input<"k8", i8>(batch, key_head, key, depth);
inline constexpr auto v8 = input<"v8", i8>(batch, key_head, key, value_depth);
inline constexpr auto of_bytes =
    softmax(q * t(keys(as_real(k8(b, h, kv_idx, d_idx))))) * values(as_real(v8(b, h, kv_idx, d_idx)));
inline constexpr auto v4 = input<"v4", u8>(batch, key_head, key, axis<"byte">);
inline constexpr auto low = d_idx < depth / 2;
inline constexpr auto nibble = (v4(b, h, kv_idx, where(low, d_idx, d_idx - depth / 2)) >> where(low, 0, 4)) & 15;
inline constexpr auto of_nibbles = softmax(q * t(k)) * values(as_real(nibble));

/// Of the address of a fetch, which tensor it is of and which element.
class fetched_element : public Halide::Internal::IRVisitor {
public:
    std::string tensor;
    Halide::Expr element;

protected:
    using IRVisitor::visit;
    void visit(const Halide::Internal::Variable* variable) override {
        if (variable->type.is_handle()) tensor = variable->name;
    }
    void visit(const Halide::Internal::Cast* conversion) override {
        if (conversion->type == Halide::Int(64) && conversion->value.type() == Halide::Int(32))
            element = conversion->value;
        IRVisitor::visit(conversion);
    }
};

/// Distances in elements between fetches that follow each other in the text, of each tensor, where they are known:
/// within a row.
class fetches : public Halide::Internal::IRVisitor {
public:
    std::map<std::string, int> count, at_some_parts;
    std::map<std::string, std::vector<std::int64_t>> distances;

protected:
    using IRVisitor::visit;
    void visit(const Halide::Internal::IfThenElse* choice) override {
        const auto* less = choice->condition.as<Halide::Internal::LT>();
        const bool of_parts = less && less->a.as<Halide::Internal::Mod>();
        some_parts_ += of_parts;
        IRVisitor::visit(choice);
        some_parts_ -= of_parts;
    }
    void visit(const Halide::Internal::Call* call) override {
        IRVisitor::visit(call);
        REQUIRE_FALSE(call->is_intrinsic(Halide::Internal::Call::prefetch));  // prefetchnta
        if (call->name != "llvm.prefetch.p0") return;
        fetched_element at;
        call->args[0].accept(&at);
        if (last_.contains(at.tensor))
            if (const auto distance =
                    Halide::Internal::as_const_int(Halide::Internal::simplify(at.element - last_[at.tensor])))
                distances[at.tensor].push_back(*distance);
        last_[at.tensor] = at.element;
        ++count[at.tensor];
        if (some_parts_ > 0) ++at_some_parts[at.tensor];
    }

private:
    int some_parts_ = 0;
    std::map<std::string, Halide::Expr> last_;
};

}  // namespace

TEST_CASE("decode fetches rows of keys and values ahead, from their first line to their last", "[decode]") {
    const variant of{"my::plain", ir_of<plain>};
    for (const auto& [dtype, line] : {std::pair("f32", 16), std::pair("bf16", 32)}) {
        CAPTURE(dtype);
        const auto list = kernels_of(
            {&of, 1}, {.targets = {"x86-64-v3"}, .dtypes = {dtype}, .depths = {"128"}, .shapes = {"decode"}});
        const Halide::Module module =
            lower(list.front().request).module("decoded", halide_target(*list.front().request.target));
        fetches found;
        for (const auto& function : module.functions()) function.body.accept(&found);
        const auto& cut = std::get<cpu_decode>(list.front().request.schedule);
        const kernel_plan plan = plan_kernel(list.front().request);
        const key_pass& pass = *plan.passes_over_keys().front();
        const int lines = 128 / line;
        REQUIRE(found.count.size() == 2);  // keys and values
        for (const auto& [tensor, count] : found.count) {
            CAPTURE(tensor);
            // that one step reads: of several rows, and of one
            const int rows = tensor == "input_v" ? cut.value_tile + pass.values->keys_of_one_row
                                                 : cut.key_tile + pass.scores.keys_of_one_row;
            CHECK(count == rows * lines);
            CHECK(std::count(found.distances[tensor].begin(), found.distances[tensor].end(), line) ==
                  rows * (lines - 1));
        }
    }
}

TEST_CASE("a line of values that are read part by part is fetched once", "[decode]") {
    for (const auto& [graph, tensor] :
         {std::pair(ir_of<of_bytes>, std::string("input_v8")), {ir_of<of_nibbles>, "input_v4"}}) {
        CAPTURE(tensor);
        const variant of{"my::codes", graph};
        const auto list = kernels_of(
            {&of, 1}, {.targets = {"x86-64-v3"}, .dtypes = {"f32"}, .depths = {"128"}, .shapes = {"decode"}});
        const Halide::Module module =
            lower(list.front().request).module("decoded", halide_target(*list.front().request.target));
        fetches found;
        for (const auto& function : module.functions()) function.body.accept(&found);
        const int rows = std::get<cpu_decode>(list.front().request.schedule).value_tile;
        CHECK(found.count[tensor] == 2 * rows);  // with one row of queries, and with a tile of them
        CHECK(found.at_some_parts[tensor] == (tensor == "input_v8" ? 2 * rows : 0));
    }
}

TEST_CASE("every line of values is fetched where parts of rows do not divide one", "[decode]") {
    const variant of{"my::codes", ir_of<of_bytes>};
    const auto list =
        kernels_of({&of, 1}, {.targets = {"x86-64-v4"}, .dtypes = {"f32"}, .depths = {"96"}, .shapes = {"decode"}});
    const Halide::Module module =
        lower(list.front().request).module("decoded", halide_target(*list.front().request.target));
    fetches found;  // parts of 48 bytes, each of which asks for the line that it begins in
    for (const auto& function : module.functions()) function.body.accept(&found);
    CHECK(found.count["input_v8"] > 0);
    CHECK(found.at_some_parts["input_v8"] == 0);
}

TEST_CASE("long calls fetch the keys of the next tile where rows are long", "[prefetch_rows]") {
    const variant of{"my::plain", ir_of<plain>};
    for (const auto& [depth, lines] : {std::pair("64", 0), std::pair("128", 8)}) {
        CAPTURE(depth);
        const auto list = kernels_of(
            {&of, 1}, {.targets = {"x86-64-v3"}, .dtypes = {"f32"}, .depths = {depth}, .shapes = {"prefill"}});
        const Halide::Module module =
            lower(list.front().request).module("prefilled", halide_target(*list.front().request.target));
        fetches found;
        for (const auto& function : module.functions()) function.body.accept(&found);
        REQUIRE(found.count.size() == (lines > 0 ? 1 : 0));
        for (const auto& [tensor, count] : found.count)
            CHECK(count == std::get<cpu_prefill>(list.front().request.schedule).key_tile * lines);
    }
}
