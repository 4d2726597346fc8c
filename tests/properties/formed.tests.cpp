// Queries, keys and values made of formulas: laws of the embeddings, and the same tensors made before the call.
#include "formula_calls.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>

using namespace attune;
using namespace attune::testing;
using support::shape;

namespace {

/// Plain attention of the given keys, and of the values and queries of another call.
std::vector<float> plain_out(formula_call& other, const std::vector<float>& keys,
                             const std::vector<float>* values = nullptr) {
    formula_call plain("plain", usual_formula);
    plain.put("q", other.reals("q")), plain.put("k", keys),
        plain.put("v", values != nullptr ? *values : other.reals("v"));
    plain.run();
    return plain.reals("out");
}

/// (batch, head, key, channel) of two tensors, one behind the other along the keys.
std::vector<float> joined(const std::vector<float>& near, const std::vector<float>& far) {
    std::vector<float> all;
    for (std::ptrdiff_t panel = 0; panel < 4; ++panel) {
        const auto part = [&](const std::vector<float>& from) {
            const std::ptrdiff_t size = std::ssize(from) / 4;
            all.insert(all.end(), from.begin() + panel * size, from.begin() + (panel + 1) * size);
        };
        part(near), part(far);
    }
    return all;
}

}  // namespace

TEST_CASE("rotary embedding: scores know distances only") {
    formula_call here("rotary", usual_formula);
    here.run();
    for (int shift : {1, 17, 400}) {
        formula_call there("rotary", usual_formula, 21, {{"shift", shift}});
        there.run();
        INFO("shifted by " << shift);
        CHECK(largest_difference(here.reals("scores"), there.reals("scores")) < 1e-5);
        CHECK(largest_difference(here.reals("out"), there.reals("out")) < 1e-5);
    }
}

TEST_CASE("rotary embedding keeps lengths: at one position it is not there") {
    const shape one{.batches = 2, .heads = 4, .key_heads = 2, .queries = 1, .keys = 1, .depth = 16, .value_depth = 16};
    formula_call turned("rotary", one, 21, {{"shift", 33}}), straight("rotary", one, 21, {{"shift", 0}});
    turned.run(), straight.run();  // position 0 turns nothing
    CHECK(largest_difference(turned.reals("scores"), straight.reals("scores")) < 2e-6);
}

TEST_CASE("root mean square normalisation does not know the scale of q and k") {
    formula_call call("normed", usual_formula);
    const auto out = call.run().reals("out"), lse = call.reals("lse");
    for (float& x : call.reals("q")) x *= 7.0f;
    for (float& x : call.reals("k")) x *= 0.03f;
    call.run();
    CHECK(largest_difference(out, call.reals("out")) < 5e-6);
    CHECK(largest_difference(lse, call.reals("lse")) < 5e-6);
}

TEST_CASE("keys of two tensors are the tensors one behind the other") {
    formula_call keys("concatenated", usual_formula), both("concatenated_both", usual_formula);
    both.take_inputs(keys);
    keys.run(), both.run();
    const auto k = joined(keys.reals("near_k"), keys.reals("far_k"));
    CHECK(largest_difference(keys.reals("out"), plain_out(keys, k)) < 3e-6);
    const auto v = joined(both.reals("near_v"), both.reals("far_v"));
    CHECK(largest_difference(both.reals("out"), plain_out(both, k, &v)) < 3e-6);
}

TEST_CASE("keys gathered by index are a tensor gathered before") {
    formula_call call("gathered", usual_formula);
    call.run();
    std::vector<float> k;
    for (std::size_t batch = 0; batch < 2; ++batch)
        for (std::size_t head = 0; head < 2; ++head)
            for (std::size_t key = 0; key < 301; ++key) {
                const auto cell = static_cast<std::size_t>(call["place"].integers[batch * 301 + key]);
                const auto from = call.reals("pool").begin() + static_cast<std::ptrdiff_t>((cell * 2 + head) * 16);
                k.insert(k.end(), from, from + 16);
            }
    CHECK(largest_difference(call.reals("out"), plain_out(call, k)) < 3e-6);
}

TEST_CASE("keys of few bits are their reals") {
    formula_call call("dequantised", usual_formula);
    call.run();
    std::vector<float> k;
    for (std::size_t i = 0; i < call["codes"].bytes.size(); ++i)
        k.push_back((static_cast<float>(call["codes"].bytes[i]) - 8.0f) * call.reals("step")[i / (301 * 16) % 2]);
    CHECK(largest_difference(call.reals("out"), plain_out(call, k)) < 3e-6);
}

TEST_CASE("a second product of queries and keys adds its channels") {
    formula_call call("two_products", usual_formula), plain("plain", usual_formula);
    plain.take_inputs(call);
    for (const char* name : {"q_part", "k_part"}) std::ranges::fill(call.reals(name), 0.0f);
    call.run(), plain.run();
    CHECK(largest_difference(call.reals("out"), plain.reals("out")) < 2e-6);
    // Six of the sixteen channels moved over: the scores are the same.
    const auto move = [](std::vector<float>& from, std::vector<float>& to) {
        for (std::size_t i = 0; i < from.size() / 16; ++i)
            for (std::size_t d = 0; d < 6; ++d) to[i * 6 + d] = from[i * 16 + 10 + d], from[i * 16 + 10 + d] = 0.0f;
    };
    move(call.reals("q"), call.reals("q_part")), move(call.reals("k"), call.reals("k_part"));
    call.run();
    CHECK(largest_difference(call.reals("out"), plain.reals("out")) < 3e-6);
}

TEST_CASE("heads of a group are heads with their keys and values repeated") {
    for (const char* name : {"plain", "every", "sunk", "normed", "rotary"}) {
        shape repeated = usual_formula;
        repeated.key_heads = 4;
        formula_call group(name, usual_formula), each(name, repeated);
        for (const input_declaration& d : group.of().graph.inputs) {
            if (d.is_scalar) continue;
            const auto& from = group.reals(d.name);
            auto& to = each.reals(d.name);
            if (d.name != "k" && d.name != "v")
                each.put(d.name, from);
            else
                for (std::size_t i = 0; i < to.size(); ++i) {
                    const std::size_t panel = i / (301 * 16);
                    to[i] = from[panel / 2 * (301 * 16) + i % (301 * 16)];
                }
        }
        group.run(), each.run();
        for (const output_declaration& o : group.of().graph.outputs) {
            INFO(name << ", " << o.name);
            CHECK(largest_difference(group.reals(o.name), each.reals(o.name)) < 2e-6);
        }
    }
}
