// Precomputed tensors and chosen blocks, worked out by hand: the reference and kernels for many queries and for few
// give what is written here.
#include "kernel/kernel_list.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/dsl.hpp>
#include <attune/runtime/cpu.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

using namespace attune;
using support::workload;

namespace {
using namespace attune::dsl;

constexpr int size = 3, width = 32;  // keys of a block; channels
constexpr float infinite = std::numeric_limits<float>::infinity(),
                not_a_number = std::numeric_limits<float>::quiet_NaN();

inline constexpr auto n = bound_index<"n">;
inline constexpr auto row = bound_index<"row">;
inline constexpr auto blocks = (key_length + size - 1) / size;
inline constexpr auto importance = input<"importance", f32>(batch, key_head, axis<"block">);
inline constexpr auto numbers = precomputed(importance(b, h, n), n, blocks);

/// The choice, and attention over it.
constexpr auto seen(expression auto choice) {
    return outputs(output<"chosen"> = precomputed(where(choice(b, h, n), 1, 0), n, blocks),
                   out = softmax(mask(q * t(k), choice(b, h, kv_idx / size))) * v);
}
inline constexpr auto by_count = seen(top_k(numbers, scalar<"count", i32>));
inline constexpr auto by_share = seen(top_p(numbers, scalar<"share", f32>));

/// Numbers of blocks of three keys, of which the last has fewer.
inline constexpr auto kept = input<"kept", f32>(batch, key);
inline constexpr auto at = n * size + row;
inline constexpr auto sums = precomputed(sum(row, size, where(at < kv_lengths(b), kept(b, at), 0.0)), n, blocks);
inline constexpr auto tops = precomputed(largest(row, size, where(at < kv_lengths(b), kept(b, at), -inf)), n, blocks);
inline constexpr auto of_both = precomputed(sums(b, h, n) * 10 + tops(b, h, n), n, blocks);
inline constexpr auto made = outputs(output<"sums"> = sums, output<"tops"> = tops, output<"of_both"> = of_both,
                                     out = softmax(mask(q * t(k), top_k(of_both, 1)(b, h, kv_idx / size))) * v);

/// Kernels of a graph, for many queries and for few.
class kernels_of_graph {
public:
    explicit kernels_of_graph(const graph_ir& graph) : variant_{"by_hand", graph} {
        std::string level;
        for (const generators::level& each : generators::levels())
            if (level.empty() && runs(each.name)) level = each.name;
        for (const auto& listed : generators::kernels_of(
                 {&variant_, 1},
                 {.targets = {level}, .dtypes = {"f32"}, .depths = {"32"}, .shapes = {"prefill", "decode"}}))
            all_.push_back(std::make_unique<generators::jit_kernel>(listed));
    }

    /// Keys that are alike, each with a one in the channel of its block: what comes out says what is seen.
    workload call(std::int64_t keys, std::map<std::string, double> numbers) const {
        const std::int64_t blocks = (keys + size - 1) / size;
        workload made(variant_.graph, {.queries = 2, .keys = keys, .depth = width, .value_depth = width}, 1,
                      std::move(numbers), {{"block", blocks}, {"n", blocks}});
        std::vector<float> values(static_cast<std::size_t>(keys * width));
        made.put("k", values);
        for (std::int64_t key = 0; key < keys; ++key) values[static_cast<std::size_t>(key * width + key / size)] = 1;
        made.put("v", values);
        return made;
    }
    /// An output of the reference and of each kernel.
    void check(workload& call, std::string_view output, const std::vector<double>& expected) const {
        CAPTURE(output);
        CHECK(std::ranges::equal(call.expected()[output].values, expected));
        for (const auto& kernel : all_) {
            call.reset_outputs();
            attune::detail::call(kernel->table(), call.arguments(), {.threads = 1});
            CAPTURE(kernel->table().kernels.front().symbol);
            const std::vector<float>& got = call[output].reals;
            CHECK(std::ranges::equal(got, expected,
                                     [](float x, double y) { return x == y || std::abs(x - y) < 1e-6 * std::abs(y); }));
        }
    }
    /// Both queries see the blocks that are chosen, each as much of them as there are keys.
    void check_choice(const std::vector<float>& importance, std::map<std::string, double> by,
                      const std::vector<double>& chosen) const {
        CAPTURE(importance, by, chosen);
        workload made = call(static_cast<std::int64_t>(importance.size()) * size, std::move(by));
        made.put("importance", importance);
        check(made, "chosen", chosen);
        std::vector<double> out(2 * width);
        const auto count = static_cast<double>(std::ranges::count(chosen, 1));
        for (std::size_t i = 0; i < chosen.size(); ++i)
            if (chosen[i] == 1) out[i] = out[width + i] = 1 / count;
        check(made, "out", out);
    }

private:
    generators::variant variant_;
    std::vector<std::unique_ptr<generators::jit_kernel>> all_;
};

}  // namespace

TEST_CASE("the largest blocks by count, by hand", "[precomputed]") {
    const kernels_of_graph of(ir_of<by_count>);
    const auto check = [&](const std::vector<float>& importance, double count, const std::vector<double>& chosen) {
        of.check_choice(importance, {{"count", count}}, chosen);
    };
    check({3, 1, 2}, 1, {1, 0, 0});
    check({3, 1, 2}, 2, {1, 0, 1});
    check({-4, -1, -3, -2}, 2, {0, 1, 0, 1});
    // Of equal ones the first, whichever sign a zero has.
    check({1, 1, 2, 1}, 2, {1, 0, 1, 0});
    check({2, 2, 2, 2}, 3, {1, 1, 1, 0});
    check({0.0f, -0.0f, -1, 0.0f}, 2, {1, 1, 0, 0});
    check({-0.0f, 0.0f, -1, 0.0f}, 1, {1, 0, 0, 0});
    // -infinity never.
    check({-infinite, 5, -infinite, 1}, 3, {0, 1, 0, 1});
    check({-infinite, -infinite}, 2, {0, 0});
    // NaN as the largest.
    check({1, not_a_number, 3, 2}, 1, {0, 1, 0, 0});
    check({1, not_a_number, 3, 2}, 2, {0, 1, 1, 0});
    check({not_a_number, infinite, not_a_number, 1}, 2, {1, 0, 1, 0});
    check({not_a_number, infinite, not_a_number, 1}, 3, {1, 1, 1, 0});
    check({-infinite, not_a_number}, 2, {0, 1});
    // None, and more than there are.
    check({3, 1, 2}, 0, {0, 0, 0});
    check({3, 1, 2}, -1, {0, 0, 0});
    check({3, 1, 2}, 9, {1, 1, 1});
    check({7}, 1, {1});
}

TEST_CASE("the largest blocks by share, by hand", "[precomputed]") {
    const kernels_of_graph of(ir_of<by_share>);
    const auto check = [&](const std::vector<float>& importance, double share, const std::vector<double>& chosen) {
        of.check_choice(importance, {{"share", share}}, chosen);
    };
    // Of 10: 4 are 0.375 of it, it takes 4 + 3 for a half, 4 + 3 + 2 for 0.875.
    check({1, 2, 3, 4}, 0.375, {0, 0, 0, 1});
    check({1, 2, 3, 4}, 0.5, {0, 0, 1, 1});
    check({1, 2, 3, 4}, 0.875, {0, 1, 1, 1});
    check({1, 2, 3, 4}, 1, {1, 1, 1, 1});
    check({1, 2, 3, 4}, 0, {0, 0, 0, 0});
    check({2, 2, 2, 2}, 0.5, {1, 1, 0, 0});
    check({2, 2, 2, 2}, 0.625, {1, 1, 1, 0});
    // Negative elements count as 0, so 4 + 3 is the whole sum.
    check({4, -1, 3, -2}, 1, {1, 0, 1, 0});
    // NaN, too, and comes first.
    check({-1, 5, not_a_number, 5}, 0.5, {0, 1, 1, 0});
    check({-infinite, 1, -infinite, 1}, 1, {0, 1, 0, 1});
    // More than all: all that may be chosen.
    check({1, 2, -infinite, -3}, 2, {1, 1, 0, 1});
}

TEST_CASE("numbers of blocks, by hand", "[precomputed]") {
    const kernels_of_graph of(ir_of<made>);
    const std::vector<float> kept{1, 3, 5, 7, -2, 10, -4, -6};
    workload call = of.call(8, {});
    call.put("kept", kept);
    of.check(call, "sums", {9, 15, -10});
    of.check(call, "tops", {5, 10, -4});
    of.check(call, "of_both", {95, 160, -104});
    std::vector<double> out(2 * width);
    out[1] = out[width + 1] = 1;
    of.check(call, "out", out);
    // Of four keys in use, the second block has one and the third none.
    call.set_lengths({4});
    of.check(call, "sums", {9, 7, 0});
    of.check(call, "tops", {5, 7, -infinite});
    of.check(call, "of_both", {95, 77, -infinite});
    out.assign(2 * width, 0);
    out[0] = out[width] = 1;
    of.check(call, "out", out);
}
