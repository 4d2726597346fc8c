#include <attune/workload.hpp>
#include "../kernels/variant_list.hpp"
#include "formula_calls.hpp"
#include "guarded_memory.hpp"

#include <attune/runtime/detail/call.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <memory>

using namespace attune;
using namespace attune::testing;
using support::shape;
using support::workload;

namespace {

using guarded = guarded_memory<float>;

/// The call's dense f32 tensors, copied where reading beyond their end (or before their begin) ends the program.
struct guarded_call {
    std::vector<std::unique_ptr<guarded>> memory;
    std::vector<std::unique_ptr<guarded_memory<std::int32_t>>> integers;
    std::vector<std::unique_ptr<guarded_memory<std::uint8_t>>> bytes;
    std::vector<detail::named_argument> arguments;

    guarded_call(workload& call, guarded::flush to) : arguments(call.arguments()) {
        for (auto& argument : arguments) {
            if (argument.is != detail::named_argument::form::view) continue;
            const auto& from = call[argument.name];
            if (!from.reals.empty())
                argument.view = copy(memory, from.reals, argument.view, to == guarded::flush::end);
            else if (!from.integers.empty())
                argument.view = copy(integers, from.integers, argument.view, to == guarded::flush::end);
            else
                argument.view = copy(bytes, from.bytes, argument.view, to == guarded::flush::end);
        }
    }

    const float* result(std::string_view output) const {
        return static_cast<const float*>(
            std::ranges::find(arguments, output, &detail::named_argument::name)->view.data());
    }

    template <class T>
    static tensor copy(std::vector<std::unique_ptr<guarded_memory<T>>>& into, const std::vector<T>& values,
                       const tensor& like, bool at_end) {
        using flush = typename guarded_memory<T>::flush;
        into.push_back(std::make_unique<guarded_memory<T>>(values.size(), at_end ? flush::end : flush::begin));
        std::ranges::copy(values, into.back()->data());
        return {like.type(), static_cast<void*>(into.back()->data()), like.shape(), like.strides()};
    }
};

}  // namespace

TEST_CASE("no kernel touches memory before or after its tensors") {
    for (const variant& v : variants()) {
        const auto& first = v.kernels->kernels.front();
        for (std::int64_t queries : {1, 7, first.query_block + 1})
            for (std::int64_t keys : {1, 5, first.key_block - 1, first.key_block + 1})
                for (auto to : {guarded::flush::end, guarded::flush::begin}) {
                    workload call(v.graph,
                                  {.batches = 1,
                                   .heads = 2,
                                   .key_heads = 2,
                                   .queries = queries,
                                   .keys = keys,
                                   .depth = 32,
                                   .value_depth = 32},
                                  6, v.numbers);
                    detail::call(*v.kernels, call.arguments(), {});
                    guarded_call fenced(call, to);
                    INFO(v.name << " " << queries << "x" << keys);
                    detail::call(*v.kernels, fenced.arguments, {});
                    CHECK(std::equal(call["out"].reals.begin(), call["out"].reals.end(), fenced.result("out")));
                }
    }
}

TEST_CASE("no kernel of a formula touches memory before or after its tensors, whatever it reads and writes") {
    for (const variant& v : formulas()) {
        const auto& first = v.kernels->kernels.front();
        for (std::int64_t queries : {1, first.query_block + 1})
            for (std::int64_t keys : {1, 5, first.key_block + 1})
                for (auto to : {guarded::flush::end, guarded::flush::begin}) {
                    formula_call call(v.name, {.batches = 1,
                                               .heads = 2,
                                               .key_heads = 1,
                                               .queries = queries,
                                               .keys = keys,
                                               .depth = 16,
                                               .value_depth = 16});
                    call.run();
                    guarded_call fenced(call, to);
                    INFO(v.name << " " << queries << "x" << keys);
                    detail::call(*v.kernels, fenced.arguments, {});
                    for (const output_declaration& o : v.graph.outputs)
                        CHECK(same_bits(call.reals(o.name),
                                        {fenced.result(o.name), fenced.result(o.name) + call.reals(o.name).size()}));
                }
    }
}

TEST_CASE("keys beyond their length are never read: NaN there changes no bit") {
    for (const variant& v : variants()) {
        const shape s{
            .batches = 5, .heads = 2, .key_heads = 1, .queries = 33, .keys = 300, .depth = 32, .value_depth = 32};
        workload clean(v.graph, s, 8, v.numbers), dirty(v.graph, s, 8, v.numbers);
        const auto keys = clean["k"].reals, values = clean["v"].reals;
        for (workload* call : {&clean, &dirty}) call->set_lengths({0, 1, 127, 129, 300});
        clean["k"].reals = keys, clean["v"].reals = values;  // what set_lengths replaced by NaN
        clean["k"].view = tensor(clean["k"].reals.data(), clean["k"].view.shape());
        clean["v"].view = tensor(clean["v"].reals.data(), clean["v"].view.shape());
        detail::call(*v.kernels, clean.arguments(), {});
        detail::call(*v.kernels, dirty.arguments(), {});
        INFO(v.name);
        CHECK(clean["out"].reals == dirty["out"].reals);
        CHECK(clean["lse"].reals == dirty["lse"].reals);
    }
    for (const variant& v : formulas()) {
        const auto reads = [&v](std::string_view name) {
            return std::ranges::find(v.graph.inputs, name, &input_declaration::name) != v.graph.inputs.end();
        };
        if (!reads("k") || !reads("v")) continue;
        const shape s{
            .batches = 5, .heads = 2, .key_heads = 1, .queries = 33, .keys = 300, .depth = 16, .value_depth = 16};
        formula_call clean(v.name, s), dirty(v.name, s);
        const auto keys = clean.reals("k"), values = clean.reals("v");
        for (formula_call* call : {&clean, &dirty}) call->set_lengths({0, 1, 127, 129, 300});
        clean.put("k", keys), clean.put("v", values);
        clean.run(), dirty.run();
        INFO(v.name);
        for (const output_declaration& o : v.graph.outputs) CHECK(same_bits(clean.reals(o.name), dirty.reals(o.name)));
    }
}

TEST_CASE("keys beyond their length are never read: they may not even be mapped") {
    for (const variant& v : variants()) {
        const std::int64_t keys = 2 * v.kernels->kernels.front().key_block + 5;
        for (std::int32_t length : {0, 1, 63, v.kernels->kernels.front().key_block,
                                    v.kernels->kernels.front().key_block + 1, static_cast<int>(keys) - 1}) {
            const shape s{
                .batches = 1, .heads = 2, .key_heads = 1, .queries = 9, .keys = keys, .depth = 32, .value_depth = 32};
            workload call(v.graph, s, 12, v.numbers);
            call.set_lengths({length});
            auto arguments = call.arguments();
            detail::call(*v.kernels, arguments, {});
            const auto out = call["out"].reals;
            // k and v end with their last key in use; what the views say lies behind it is not mapped.
            const auto used = static_cast<std::size_t>(length) * 32;
            guarded k(used), v_memory(used);
            std::copy_n(call["k"].reals.begin(), used, k.data());
            std::copy_n(call["v"].reals.begin(), used, v_memory.data());
            for (auto& argument : arguments) {
                if (argument.name == "k") argument.view = tensor(k.data(), {1, 1, keys, 32});
                if (argument.name == "v") argument.view = tensor(v_memory.data(), {1, 1, keys, 32});
            }
            call.reset_outputs();
            INFO(v.name << ", " << length << " of " << keys << " keys");
            detail::call(*v.kernels, arguments, {});
            CHECK(out == call["out"].reals);
        }
    }
}
