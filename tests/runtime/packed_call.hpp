#pragma once
#include "by_hand.hpp"
#include "fake_variant.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// Calls with cu_seqlens_q of the variant whose kernels are ordinary functions.
namespace packed_queries {

using attune::tensor;
using starts = std::vector<std::int32_t>;

/// A right call of the fake variant with packed queries: five sequences unless said.
struct packed {
    explicit packed(starts of = {0, 1, 2, 2, 7, 8}) : where(std::move(of)) {
        c.batches = sequences(), c.queries = where.empty() ? 0 : where.back();
        c.fill();
        for (std::int64_t b = 0; b < sequences(); ++b) c.lengths.push_back(static_cast<std::int32_t>(b * 2 % 8));
        all = c.arguments();
        set("q", {c.q.data(), {1, c.heads, c.queries, c.depth}});
        set("bias", {c.bias.data(), {1, c.heads, c.queries, c.keys}});
        set("out", {c.out.data(), {1, c.heads, c.queries, c.value_depth}});
        set("lse", {c.lse.data(), {1, c.heads, c.queries}});
        all.push_back(by_hand::view("kv_lengths", {c.lengths.data(), {sequences()}}));
        all.push_back(by_hand::view("cu_seqlens_q", {where.data(), {static_cast<std::int64_t>(where.size())}}));
    }
    std::int64_t sequences() const { return static_cast<std::int64_t>(where.size()) - 1; }
    attune::detail::named_argument& argument(std::string_view name) {
        for (auto& each : all)
            if (each.name == name) return each;
        throw std::out_of_range(std::string(name));
    }
    void set(std::string_view name, tensor t) { argument(name).view = t; }

    /// The results of one call for each sequence, in the places of c.out and c.lse.
    std::pair<std::vector<float>, std::vector<float>> expected() {
        std::vector<float> out(c.out.size()), lse(c.lse.size());
        for (std::int64_t b = 0; b < sequences(); ++b) {
            const auto at = static_cast<std::size_t>(b);
            const std::int64_t from = where[at], count = where[at + 1] - from, total = c.queries;
            const auto rows = [&](float* data, std::int64_t width) {
                return tensor(data + from * width, {1, c.heads, count, width},
                              {c.heads * total * width, total * width, width, 1});
            };
            auto one = c.arguments();
            for (auto& each : one) {
                if (each.name == "q") each.view = rows(c.q.data(), c.depth);
                if (each.name == "bias") each.view = rows(c.bias.data(), c.keys);
                if (each.name == "out") each.view = rows(out.data(), c.value_depth);
                if (each.name == "lse")
                    each.view = tensor(lse.data() + from, {1, c.heads, count}, {c.heads * total, total, 1});
                if (each.name == "k")
                    each.view =
                        tensor(c.k.data() + b * c.key_heads * c.keys * c.depth, {1, c.key_heads, c.keys, c.depth});
                if (each.name == "v")
                    each.view = tensor(c.v.data() + b * c.key_heads * c.keys * c.value_depth,
                                       {1, c.key_heads, c.keys, c.value_depth});
            }
            one.push_back(by_hand::view("kv_lengths", {c.lengths.data() + b, {1}}));
            attune::detail::call(fake::kernels(), one, {.threads = 1});
        }
        return {out, lse};
    }
    void expect_right_results() {
        const auto [out, lse] = expected();
        const auto rows = static_cast<std::size_t>(c.heads * c.queries);
        CHECK(std::equal(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(rows) * c.value_depth, c.out.begin()));
        CHECK(std::equal(lse.begin(), lse.begin() + static_cast<std::ptrdiff_t>(rows), c.lse.begin()));
    }

    starts where;
    fake::call c;
    std::vector<attune::detail::named_argument> all;
};

}  // namespace packed_queries
