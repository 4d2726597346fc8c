#include <attune/workload.hpp>
#include "../kernels/variant_list.hpp"
#include "../kernels/variants.hpp"
#include "../support/workload_values.hpp"

#include <attune/runtime.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <thread>

using namespace attune;
using namespace attune::testing;
using support::shape;
using support::workload;

namespace {

const variant& named(const std::string& name) { return *std::ranges::find(variants(), name, &variant::name); }

workload call_of(const std::string& name, const shape& s, unsigned seed = 21) {
    const variant& v = named(name);
    workload call(v.graph, s, seed, v.numbers);
    if (name == "alibi") scale_by(call, "slopes", 0.05f);
    return call;
}

double largest_difference(const std::vector<float>& x, const std::vector<float>& y) {
    double worst = x.size() == y.size() ? 0 : 1e30;
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
        if (x[i] != y[i]) worst = std::max(worst, std::abs(static_cast<double>(x[i]) - y[i]));
    return worst;
}

bool same_bits(const std::vector<float>& x, const std::vector<float>& y) {
    return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
}

constexpr shape usual{
    .batches = 2, .heads = 4, .key_heads = 2, .queries = 77, .keys = 301, .depth = 32, .value_depth = 32};

}  // namespace

TEST_CASE("weights of a row sum to one, or to zero where nothing is visible") {
    for (const variant& v : variants()) {
        workload call = call_of(v.name, usual);
        std::ranges::fill(call["v"].reals, 1.0f);
        attune::detail::call(*v.kernels, call.arguments(), {});
        const auto& out = call["out"].reals;
        const auto& lse = call["lse"].reals;
        INFO(v.name);
        bool holds = true;
        for (std::size_t row = 0; row < lse.size(); ++row) {
            const float sum = std::isinf(lse[row]) ? 0.0f : 1.0f;
            for (std::size_t d = 0; d < 32; ++d) holds = holds && std::abs(out[row * 32 + d] - sum) <= 2e-6f;
        }
        CHECK(holds);
    }
}

TEST_CASE("plain attention does not know the order of its keys") {
    workload call = call_of("plain", usual);
    attune::detail::call(*named("plain").kernels, call.arguments(), {});
    const auto out = call["out"].reals, lse = call["lse"].reals;
    std::vector<std::size_t> order(301);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, std::mt19937(3));
    for (const char* name : {"k", "v"}) {
        auto& values = call[name].reals;
        const auto before = values;
        for (std::size_t panel = 0; panel < 4; ++panel)
            for (std::size_t key = 0; key < 301; ++key)
                std::copy_n(before.begin() + static_cast<std::ptrdiff_t>((panel * 301 + order[key]) * 32), 32,
                            values.begin() + static_cast<std::ptrdiff_t>((panel * 301 + key) * 32));
    }
    attune::detail::call(*named("plain").kernels, call.arguments(), {});
    CHECK(largest_difference(out, call["out"].reals) < 2e-6);
    CHECK(largest_difference(lse, call["lse"].reals) < 2e-6);
}

TEST_CASE("two halves of the keys, merged by their log-sum-exps, are the whole") {
    workload call = call_of("plain", usual);
    attune::detail::call(*named("plain").kernels, call.arguments(), {});
    const auto whole = call["out"].reals, whole_lse = call["lse"].reals;
    using namespace attune::dsl;
    for (std::int64_t cut : {1, 128, 200, 300}) {
        struct half {
            std::vector<float> out = std::vector<float>(2 * 4 * 77 * 32), lse = std::vector<float>(2 * 4 * 77);
        } first, second;
        const auto part = [&](const char* name, std::int64_t from, std::int64_t to) {
            return tensor(call[name].reals.data() + from * 32, {2, 2, to - from, 32}, {2 * 301 * 32, 301 * 32, 32, 1});
        };
        const auto compute = [&](half& h, std::int64_t from, std::int64_t to) {
            attune::run<under_test::plain>(q = call.view("q"), k = part("k", from, to), v = part("v", from, to),
                                           under_test::scale = 1.0 / std::sqrt(32.0),
                                           out = tensor(h.out.data(), {2, 4, 77, 32}),
                                           lse = tensor(h.lse.data(), {2, 4, 77}));
        };
        compute(first, 0, cut);
        compute(second, cut, 301);
        double worst = 0;
        for (std::size_t row = 0; row < whole_lse.size(); ++row) {
            const double a = first.lse[row], b = second.lse[row], top = std::max(a, b),
                         merged = top + std::log(std::exp(a - top) + std::exp(b - top));
            worst = std::max(worst, std::abs(merged - whole_lse[row]));
            for (std::size_t d = 0; d < 32; ++d) {
                const double sum =
                    first.out[row * 32 + d] * std::exp(a - merged) + second.out[row * 32 + d] * std::exp(b - merged);
                worst = std::max(worst, std::abs(sum - whole[row * 32 + d]));
            }
        }
        INFO("cut at " << cut);
        CHECK(worst < 5e-6);
    }
}

TEST_CASE("the number of threads changes no bit") {
    for (const variant& v : variants()) {
        workload call = call_of(v.name, usual);
        attune::detail::call(*v.kernels, call.arguments(), {.threads = 1});
        const auto out = call["out"].reals, lse = call["lse"].reals;
        for (int threads : {2, 3}) {
            call.reset_outputs();
            attune::detail::call(*v.kernels, call.arguments(), {.threads = threads});
            INFO(v.name << ", " << threads << " threads");
            CHECK(same_bits(out, call["out"].reals));
            CHECK(same_bits(lse, call["lse"].reals));
        }
    }
}

namespace {

/// The call of one batch element alone: every tensor that has the axis begins at that element.
std::vector<detail::named_argument> alone(const graph_ir& graph, std::vector<detail::named_argument> arguments,
                                          std::int64_t element) {
    for (auto& a : arguments) {
        const auto declared = std::ranges::find(graph.inputs, a.name, &input_declaration::name);
        const bool is_output = declared == graph.inputs.end();
        if (a.is != detail::named_argument::form::view || (!is_output && declared->axes[0].kind != axis_kind::batch))
            continue;
        std::vector<std::int64_t> extents(a.view.shape().begin(), a.view.shape().end());
        extents[0] = 1;
        auto* const first = static_cast<std::byte*>(const_cast<void*>(a.view.data())) +
                            element * a.view.stride(0) * bytes_of(a.view.type());
        a.view = tensor(a.view.type(), static_cast<void*>(first), extents, a.view.strides());
    }
    return arguments;
}

}  // namespace

TEST_CASE("a batch element's bits do not depend on the others") {
    for (const variant& v : variants()) {
        workload call = call_of(
            v.name,
            {.batches = 3, .heads = 4, .key_heads = 2, .queries = 77, .keys = 301, .depth = 32, .value_depth = 32});
        attune::detail::call(*v.kernels, call.arguments(), {.deterministic = true});
        const auto out = call["out"].reals, lse = call["lse"].reals;
        call.reset_outputs();
        for (const std::int64_t element : {2, 0, 1})
            attune::detail::call(*v.kernels, alone(v.graph, call.arguments(), element), {.deterministic = true});
        INFO(v.name);
        CHECK(same_bits(out, call["out"].reals));
        CHECK(same_bits(lse, call["lse"].reals));
    }
}

TEST_CASE("causal is a window without an end") {
    for (const shape& s : {usual, shape{.queries = 301, .keys = 77, .depth = 32, .value_depth = 32}}) {
        workload causal = call_of("causal_mask", s);
        attune::detail::call(*named("causal_mask").kernels, causal.arguments(), {});
        const variant& v = named("sliding");
        for (const int w : {1 << 30, std::numeric_limits<int>::max() - 200, std::numeric_limits<int>::max()}) {
            INFO("w = " << w);
            workload window(v.graph, s, 21, {{"w", double(w)}});
            attune::detail::call(*v.kernels, window.arguments(), {});
            CHECK(largest_difference(causal["out"].reals, window["out"].reals) < 2e-6);
            CHECK(largest_difference(causal["lse"].reals, window["lse"].reals) < 2e-6);
        }
    }
}

TEST_CASE("calls from several threads at once give the bits of calls one after another") {
    const std::vector<std::string> names{"plain", "alibi", "longformer", "documents", "dense_bias", "causal_mask"};
    std::vector<workload> alone, together;
    for (std::size_t i = 0; i < names.size(); ++i) {
        alone.push_back(call_of(names[i], usual, static_cast<unsigned>(40 + i)));
        together.push_back(call_of(names[i], usual, static_cast<unsigned>(40 + i)));
        attune::detail::call(*named(names[i]).kernels, alone[i].arguments(), {});
    }
    for (int round = 0; round < 5; ++round) {
        for (workload& call : together) call.reset_outputs();
        std::vector<std::thread> callers;
        for (std::size_t i = 0; i < names.size(); ++i)
            callers.emplace_back([&, i] {
                attune::detail::call(*named(names[i]).kernels, together[i].arguments(),
                                     {.threads = static_cast<int>(1 + i % 3)});
            });
        for (std::thread& caller : callers) caller.join();
        for (std::size_t i = 0; i < names.size(); ++i) {
            INFO(names[i] << ", round " << round);
            CHECK(same_bits(alone[i]["out"].reals, together[i]["out"].reals));
            CHECK(same_bits(alone[i]["lse"].reals, together[i]["lse"].reals));
        }
    }
}
