#pragma once
#include "ir_by_hand.hpp"

#include <attune/reference.hpp>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <deque>
#include <limits>

namespace attune::testing {

constexpr double inf = std::numeric_limits<double>::infinity();

/// Arguments whose numbers are written in the test.
class given {
public:
    given& reals(std::string_view name, std::vector<std::int64_t> shape, std::vector<float> values) {
        reals_.push_back(std::move(values));
        return add(name, tensor(reals_.back().data(), shape));
    }
    given& integers(std::string_view name, std::vector<std::int64_t> shape, std::vector<std::int32_t> values) {
        integers_.push_back(std::move(values));
        return add(name, tensor(integers_.back().data(), shape));
    }
    given& bytes(std::string_view name, std::vector<std::int64_t> shape, std::vector<std::uint8_t> values) {
        bytes_.push_back(std::move(values));
        return add(name, tensor(bytes_.back().data(), shape));
    }
    given& number(std::string_view name, double x) {
        arguments_.push_back({name, x});
        return *this;
    }

    reference::results of(const ir_builder& graph, const reference::options& how = {}) const {
        return reference::evaluate(graph.view(), arguments_, how);
    }

private:
    given& add(std::string_view name, const tensor& t) {
        arguments_.push_back({name, t});
        return *this;
    }

    std::deque<std::vector<float>> reals_;
    std::deque<std::vector<std::int32_t>> integers_;
    std::deque<std::vector<std::uint8_t>> bytes_;
    std::vector<reference::argument> arguments_;
};

inline void check_close(const std::vector<double>& got, const std::vector<double>& expected) {
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
        INFO("element " << i);
        if (got[i] == expected[i])
            CHECK(true);
        else
            CHECK(got[i] == Catch::Approx(expected[i]).epsilon(1e-6).margin(1e-6));
    }
}

/// Names for what a hand-written graph is made of.
struct writer : ir_builder {
    node_id real_of(operation op, node_id x, node_id y) { return add(op, kind::real, {x, y}); }
    node_id integer_of(operation op, node_id x, node_id y) { return add(op, kind::integer, {x, y}); }
    node_id condition_of(operation op, node_id x, node_id y) { return add(op, kind::condition, {x, y}); }
    node_id load(node_id tensor, std::initializer_list<node_id> at, kind is = kind::real) {
        std::vector<node_id> all{tensor};
        all.insert(all.end(), at);
        switch (all.size()) {
            case 2: return add(operation::load, is, {all[0], all[1]});
            case 3: return add(operation::load, is, {all[0], all[1], all[2]});
            case 4: return add(operation::load, is, {all[0], all[1], all[2], all[3]});
            default: return add(operation::load, is, {all[0], all[1], all[2], all[3], all[4]});
        }
    }
    node_id q_tensor() {
        return input("q", element_type::any, {axis_kind::batch, axis_kind::head, axis_kind::query, axis_kind::depth});
    }
    node_id k_tensor() {
        return input("k", element_type::any, {axis_kind::batch, axis_kind::key_head, axis_kind::key, axis_kind::depth});
    }
    node_id v_tensor() {
        return input("v", element_type::any,
                     {axis_kind::batch, axis_kind::key_head, axis_kind::key, axis_kind::value_depth});
    }
    node_id product(node_id queries, node_id keys) {
        return add(operation::contract, kind::scores, {queries, add(operation::transpose, kind::transposed, {keys})});
    }
    node_id softmax(node_id scores) { return add(operation::softmax, kind::weights, {scores}); }
    node_id weigh(node_id weights, node_id values) {
        return add(operation::weighted_sum, kind::output, {weights, values});
    }
    node_id b() { return index(operation::b); }
    node_id h() { return index(operation::h); }
    node_id q_idx() { return index(operation::q_idx); }
    node_id kv_idx() { return index(operation::kv_idx); }
    node_id d_idx() { return index(operation::d_idx); }
    node_id causal(node_id scores) {
        return add(operation::mask, kind::scores, {scores, condition_of(operation::greater_equal, q_idx(), kv_idx())});
    }
};

}  // namespace attune::testing
