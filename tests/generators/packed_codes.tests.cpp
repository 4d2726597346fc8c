// Decode over codes of a few bits, several in a byte: what it makes of each is exactly the number that the formula
// says, by whichever instructions.
#include "assembly.hpp"
#include "tested_levels.hpp"

#include "plans/kernel_plan.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace attune;
using support::workload;

namespace {
using namespace attune::dsl;

/// Element i of a row, of the bytes of keys or of values.
template <class Bytes, class Index> constexpr auto at(Bytes bytes, Index i) { return bytes(b, h, kv_idx, i); }
inline constexpr auto low = d_idx < depth / 2;
inline constexpr auto in_half = where(low, d_idx, d_idx - depth / 2);

// Those of the first half of a row below those of the second.
constexpr auto halves = [](auto x) { return ((at(x, in_half) >> where(low, 0, 4)) & 15) - 8; };
constexpr auto without_offset = [](auto x) { return 15 & (at(x, in_half) >> where(low, 0, 4)); };
constexpr auto far_from_zero = [](auto x) { return 32767 + ((at(x, in_half) >> where(low, 1, 7)) & 9); };
constexpr auto below_zero = [](auto x) { return (at(x, in_half) & where(low, 15, 7)) - 32767; };
// Four of two bits each, a quarter of a row apart.
inline constexpr auto quarter = depth / 4;
constexpr auto quarters = [](auto x) {
    return ((at(x, d_idx % quarter) >> where(low, where(d_idx < quarter, 0, 2), where(d_idx < 3 * quarter, 4, 6))) &
            3) -
           1;
};
// Neighbours in one byte.
constexpr auto neighbours = [](auto x) { return ((at(x, d_idx / 2) >> (d_idx % 2 * 4)) & 15) - 8; };
// A mask without a shift, and the shift of a whole byte.
constexpr auto masked = [](auto x) { return (at(x, in_half) & 60) - 20; };
constexpr auto top_bit = [](auto x) { return at(x, in_half) >> 7; };
// What no mask does.
constexpr auto divided = [](auto x) { return where(low, at(x, in_half) % 16, at(x, in_half) / 16) - 8; };
constexpr auto with_sign = [](auto x) { return (at(x, in_half) << where(low, 28, 24)) >> 28; };
constexpr auto from_offset = [](auto x) { return 7 - ((at(x, in_half) >> where(low, 0, 4)) & 15); };
constexpr auto shifted_away = [](auto x) { return ((at(x, in_half) >> where(low, 0, 9)) & 15) - 8; };
constexpr auto wide_mask = [](auto x) { return ((at(x, in_half) >> where(low, 0, 4)) & 271) - 8; };

/// Over one key: `out` is its value, and `lse` the product of its channels with the query's.
template <auto code, auto type> struct over {
    static constexpr auto k_bytes = input<"k_bytes", type>(batch, key_head, key, axis<"byte">);
    static constexpr auto v_bytes = input<"v_bytes", type>(batch, key_head, key, axis<"byte">);
    static constexpr auto scores = q * t(keys(as_real(code(k_bytes))));
    static constexpr auto attention =
        outputs(out = softmax(scores) * values(as_real(code(v_bytes))), lse = log_sum_exp(scores));
};
template <auto code, auto type = u8> graph_ir graph_of() { return ir_of<over<code, type>::attention>; }

struct named_graph {
    std::string name;
    graph_ir graph;
};
std::vector<named_graph> all_graphs() {
    return {{"halves", graph_of<halves>()},
            {"halves of signed bytes", graph_of<halves, i8>()},
            {"without offset", graph_of<without_offset>()},
            {"far from zero", graph_of<far_from_zero>()},
            {"below zero", graph_of<below_zero>()},
            {"quarters", graph_of<quarters>()},
            {"neighbours", graph_of<neighbours>()},
            {"masked", graph_of<masked>()},
            {"top bit", graph_of<top_bit>()},
            {"divided", graph_of<divided>()},
            {"with sign", graph_of<with_sign>()},
            {"from offset", graph_of<from_offset>()},
            {"shifted away", graph_of<shifted_away>()},
            {"wide mask", graph_of<wide_mask>()}};
}

/// One for each way to take codes out of a byte.
std::vector<named_graph> few_graphs() {
    return {{"halves", graph_of<halves>()},         {"halves of signed bytes", graph_of<halves, i8>()},
            {"below zero", graph_of<below_zero>()}, {"quarters", graph_of<quarters>()},
            {"neighbours", graph_of<neighbours>()}, {"top bit", graph_of<top_bit>()}};
}

inline constexpr auto plain = softmax(q * t(k)) * v;

generators::listed_kernel listed(const generators::variant& of, const std::string& level, const std::string& depth) {
    return generators::kernels_of({&of, 1},
                                  {.targets = {level}, .dtypes = {"f32"}, .depths = {depth}, .shapes = {"decode"}})
        .front();
}

/// A call of sequences of one key each, in which every byte is both part of a key and part of a value.
workload call_over(const graph_ir& graph, std::int64_t depth) {
    const std::int64_t bytes = depth / 2, sequences = 256 / bytes;
    workload call(graph,
                  {.batches = sequences, .heads = 2, .key_heads = 2, .keys = 1, .depth = depth, .value_depth = depth},
                  3, {}, {{"byte", bytes}});
    for (const char* const name : {"k_bytes", "v_bytes"}) {
        std::vector<std::uint8_t>& all = call[name].bytes;
        for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint8_t>(name[0] == 'k' ? i : 7 * i + 1);
    }
    std::vector<float> of_query(static_cast<std::size_t>(2 * sequences * depth));
    for (std::size_t i = 0; i < of_query.size(); ++i) of_query[i] = static_cast<float>(i * 5 % 7) - 3.0f;
    call.put("q", of_query);
    return call;
}

/// The vectors of registers that a stage's sums take, the most of all places where it is made.
class vectors_of : public Halide::Internal::IRVisitor {
public:
    vectors_of(std::string stage, int lanes) : stage_(std::move(stage)), lanes_(lanes) {}
    int most = 0;

protected:
    using IRVisitor::visit;
    void visit(const Halide::Internal::Allocate* memory) override {
        if (memory->name.substr(0, memory->name.find_first_of(".$")) == stage_)
            most = std::max(most, static_cast<int>(memory->constant_allocation_size()) / lanes_);
        IRVisitor::visit(memory);
    }

private:
    const std::string stage_;
    const int lanes_;
};

/// The same over one key with queries and weights in codes: what the formula makes of a byte is multiplied as an
/// integer.
template <auto code, auto type> struct over_codes {
    static constexpr auto k_bytes = input<"k_bytes", type>(batch, key_head, key, axis<"byte">);
    static constexpr auto v_bytes = input<"v_bytes", type>(batch, key_head, key, axis<"byte">);
    static constexpr auto scores = queries(quantized<i8>(q)) * t(keys(as_real(code(k_bytes))));
    static constexpr auto attention =
        outputs(out = quantized<u8>(softmax(scores)) * values(as_real(code(v_bytes))), lse = log_sum_exp(scores));
};
template <auto code, auto type = u8> named_graph in_integers(std::string name) {
    return {std::move(name), ir_of<over_codes<code, type>::attention>};
}

void check_is_exact(const named_graph& of, std::string_view level, int depth) {
    CAPTURE(of.name, level, depth);
    const generators::variant variant{"my::cache", of.graph};
    const generators::jit_kernel kernel(listed(variant, std::string(level), std::to_string(depth)));
    workload call = call_over(of.graph, depth);
    attune::detail::call(kernel.table(), call.arguments(), {.threads = 1});
    const auto expected = call.expected();
    CHECK(call.largest_error(expected, "out") == 0);
    CHECK(call.largest_error(expected, "lse") == 0);
}

/// That integers are multiplied, and come to what the formula says.
void check_products(const named_graph& of, const std::string& level) {
    if (!runs(level)) return;
    CAPTURE(of.name, level);
    const generators::variant variant{"my::cache", of.graph};
    const generators::listed_kernel kernel = listed(variant, level, "64");
    const generators::kernel_plan plan = generators::plan_kernel(kernel.request);
    const generators::key_pass& pass = plan.pass_of(0);
    CHECK(generators::made_by<generators::integer_dots>(pass.scores.how));
    CHECK(generators::made_by<generators::integer_dots>(pass.values->how));
    workload call = call_over(of.graph, 64);
    attune::detail::call(generators::jit_kernel(kernel).table(), call.arguments(), {.threads = 1});
    const auto expected = call.expected();
    CHECK(call.largest_error(expected, "out") < 1e-5);
    CHECK(call.largest_error(expected, "lse") < 1e-3);  // of hundreds; another code is 0.1 away at least
}

}  // namespace

TEST_CASE("decode makes of every byte exactly what the formula says", "[codes]") {
    const std::string_view level = testing::tested_levels().front().name;
    for (const named_graph& each : few_graphs()) check_is_exact(each, level, 64);
}

TEST_CASE("decode makes of every byte exactly what any formula says, on every level", "[codes][.long]") {
    std::vector<std::string_view> levels;
    for (const generators::level& level : generators::levels())
        if (!level.is_gpu && runs(level.name)) levels.push_back(level.name);
    for (const named_graph& each : all_graphs()) check_is_exact(each, levels.front(), 64);
    for (const std::string_view level : levels) check_is_exact({"halves", graph_of<halves>()}, level, 128);
}

TEST_CASE("integer products take of every byte exactly what the formula says", "[codes]") {
    for (const named_graph& each : {in_integers<halves>("halves"), in_integers<quarters>("quarters"),
                                    in_integers<with_sign>("with sign"), in_integers<divided>("divided")})
        check_products(each, std::string(testing::tested_levels().front().name));
    check_products(in_integers<halves>("halves"), "x86-64-v3");
}

TEST_CASE("integer products take of every byte exactly what any formula says", "[codes][.long]") {
    std::vector<std::string> levels{"x86-64-v3"};
    for (const generators::level& level : generators::levels())
        if (!level.is_gpu && runs(level.name) && level.lanes == 16 && levels.size() == 1)
            levels.emplace_back(level.name);
    for (const std::string& level : levels)
        for (const named_graph& each :
             {in_integers<halves>("halves"), in_integers<halves, i8>("halves of signed bytes"),
              in_integers<without_offset>("without offset"), in_integers<quarters>("quarters"),
              in_integers<neighbours>("neighbours"), in_integers<masked>("masked"), in_integers<top_bit>("top bit"),
              in_integers<with_sign>("with sign"), in_integers<from_offset>("from offset"),
              in_integers<shifted_away>("shifted away"), in_integers<divided>("divided")})
            check_products(each, level);
}

TEST_CASE("packed codes become reals without conversions, and bytes are widened as they are read", "[codes]") {
    const auto of_plain = assembly_of_decode(ir_of<plain>, "x86-64-v3"),
               of_halves = assembly_of_decode(graph_of<halves>(), "x86-64-v3"),
               of_masked = assembly_of_decode(graph_of<masked>(), "x86-64-v3"),
               of_top_bit = assembly_of_decode(graph_of<top_bit>(), "x86-64-v3");
    const int others = count_of("cvtdq2ps", of_plain);
    CHECK(count_of("cvtdq2ps", of_halves) == others);
    CHECK(count_of("cvtdq2ps", of_masked) == others);
    CHECK(count_of("cvtdq2ps", of_top_bit) > others);  // no mask
    // from a register, which takes longer, only where vectors have no other way
    CHECK(count_of("vpmovzxbd\t%xmm", of_halves) == 0);
}

TEST_CASE("sums of codes leave registers for codes and weights", "[codes]") {
    for (const char* const name : {"x86-64-v3", "x86-64-v4"}) {
        const generators::level& level = generators::level_named(name);
        const graph_ir graph = graph_of<halves>();
        const generators::variant of{"my::cache", graph};
        const generators::listed_kernel kernel = listed(of, name, "128");
        const Halide::Module module =
            generators::lower(kernel.request).module("decoded", generators::halide_target(*kernel.request.target));
        vectors_of sums("sums", level.lanes);
        for (const auto& function : module.functions()) function.body.accept(&sums);
        CAPTURE(name, sums.most);
        CHECK(sums.most >= 4);
        CHECK(sums.most <= level.registers / 2);
    }
}
