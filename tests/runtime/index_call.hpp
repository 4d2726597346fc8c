#pragma once
#include "index_formulas.hpp"

#include <attune/runtime/detail/call.hpp>
#include <attune/runtime/error.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace index_calls {

inline constexpr float untouched = -12345.0f;
inline constexpr std::int64_t batches = 3, heads = 4, key_heads = 2, queries = 2, depth = 8, value_depth = 4;

inline int calls_made = 0;
inline int note(void**) { return ++calls_made, 0; }

/// Arguments of a call; what a kernel would do with them is not of interest here.
struct call {
    std::vector<attune::detail::named_argument> given;
    std::vector<float> q = std::vector<float>(batches * heads * queries * depth),
                       out = std::vector<float>(batches * heads * queries * value_depth, untouched);
    std::vector<float> plenty = std::vector<float>(1 << 16);
    attune::options how{.threads = 1};

    call() {
        add("q", {q.data(), {batches, heads, queries, depth}});
        add("out", {out.data(), {batches, heads, queries, value_depth}});
    }
    call(const call&) = delete;
    void add(std::string_view name, attune::tensor t) {
        given.push_back({.name = name, .is = attune::detail::named_argument::form::view, .view = t});
    }
    void reals(std::string_view name, attune::tensor::extent_list shape) { add(name, {plenty.data(), shape}); }
    void keys(std::int64_t length) { reals("k", {batches, key_heads, length, depth}); }
    void values(std::int64_t length) { reals("v", {batches, key_heads, length, value_depth}); }

    static attune::kernel kernel_of(int of_keys = depth, int of_values = value_depth) {
        constexpr auto f32 = attune::element_type::f32;
        return {"noted", formulas::level, f32, f32, f32, f32, of_keys, of_values, 16, 32, 1000, "{}", note, nullptr};
    }
    static attune::kernel_table table_of(const attune::graph_ir& graph, const attune::kernel& only) {
        return {.version = attune::kernel_table_version, .variant = "noted", .graph = graph, .kernels = {&only, 1}};
    }

    /// The message of a refusal, which has written nothing; empty if the kernel was called.
    std::string made(const attune::graph_ir& graph, int of_keys = depth, int of_values = value_depth) {
        const attune::kernel only = kernel_of(of_keys, of_values);
        const attune::kernel_table table = table_of(graph, only);
        const std::string said = refusal_of([&] { attune::detail::call(table, given, how); });
        CHECK(refusal_of([&] { attune::detail::call(*attune::detail::prepare(table, given, how)); }) == said);
        return said;
    }
    template <class Make> std::string refusal_of(Make make) {
        const int before = calls_made;
        try {
            make();
        } catch (const attune::error& e) {
            CHECK((calls_made == before && std::ranges::count(out, untouched) == std::ssize(out)));
            return e.what();
        }
        CHECK(calls_made == before + 1);
        return "";
    }
    template <const auto& Graph> std::string made() { return made(attune::dsl::ir_of<Graph>); }

    /// Of a gradient by q and another tensor, the first of `own`: what these are not is as long as its axes say.
    std::string made_gradient(const attune::graph_ir& graph, const std::vector<attune::detail::named_argument>& own) {
        given = own;
        float* at = plenty.data();
        const auto next = [&] { return at += 1024; };
        for (const attune::input_declaration& d : graph.inputs) {
            if (std::ranges::find(own, d.name, &attune::detail::named_argument::name) != own.end()) continue;
            std::vector<std::int64_t> extents;
            for (std::size_t axis = 0; axis < d.rank; ++axis) {
                using enum attune::axis_kind;
                const auto is = d.axes[axis].kind;
                extents.push_back(is == batch      ? batches
                                  : is == head     ? heads
                                  : is == key_head ? key_heads
                                  : is == query    ? queries
                                  : is == key      ? 4
                                  : is == depth    ? index_calls::depth
                                                   : index_calls::value_depth);
            }
            add(d.name, {next(), std::span<const std::int64_t>(extents)});
        }
        const std::array of_q{batches, heads, queries, depth};
        for (const attune::output_declaration& o : graph.outputs)
            add(o.name, {next(), o.name == "dq" ? std::span<const std::int64_t>(of_q) : own.front().view.shape()});
        return made(graph);
    }
};

}  // namespace index_calls
