#pragma once
#include <attune/ir/graph_ir.hpp>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace attune::testing {

/// A graph drawn from the whole language: any mask, score modification, computed tensor, statistic and set of outputs
/// that one kernel may have.
///
/// The depth must be even. Formulas are kept where f32 and double agree: integers stay far from overflow, reals of
/// formulas within a few units, and reals are compared only as they are read from tensors.
class random_graph {
public:
    explicit random_graph(unsigned seed);

    graph_ir view() const { return {nodes_, inputs_, outputs_, "random", fingerprint_, indices_}; }
    std::string text() const;  ///< a line a node

    static std::map<std::string, double> numbers() { return {{"scale", 0.25}, {"gain", 0.75}, {"offset", 7}}; }
    static std::map<std::string, std::int64_t> lengths() {
        return {{"entry", 23}, {"byte", 40}, {"choice", 5}, {"short", 4}};
    }

private:
    using node_id = std::int16_t;

    /// What a formula may mention.
    struct place {
        bool query = false, key = false, channel = false;
        std::vector<node_id> bounds = {};
    };
    struct number {
        node_id node;
        std::int64_t most;  ///< of its magnitude
    };

    int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
    bool one_in(int n) { return below(n) == 0; }

    node_id add(instruction n);
    node_id add(operation op, kind is, std::initializer_list<node_id> arguments = {});
    node_id constant(std::int64_t value);
    node_id constant_real(double value);
    node_id input(std::string_view name, element_type element, std::initializer_list<axis_declaration> axes);
    node_id scalar(std::string_view name, element_type element);
    node_id load(node_id tensor, kind is, std::initializer_list<node_id> at);
    node_id extent(node_id tensor, int axis);
    node_id index(operation op) { return add(op, kind::integer); }
    node_id b() { return index(operation::b); }
    node_id h() { return index(operation::h); }
    node_id query_of(const place& p);
    node_id key_of(const place& p);
    /// An index among so many places, of which there may be none: calls that leave an axis are refused.
    node_id among(node_id places, node_id index);
    node_id among_keys(node_id index);

    number integer_leaf(const place& p);
    number integer(int depth, const place& p);
    node_id at_any(node_id table, int depth, const place& p);
    node_id real_leaf(int depth, const place& p);
    node_id real(int depth, const place& p);
    node_id condition_leaf(int depth, const place& p);
    node_id condition(int depth, const place& p);

    /// A sum or any over a new bound index.
    template <class Body> node_id over(operation op, kind is, const place& p, Body body);

    node_id core_tensor(char which);
    node_id queries(), keys(), values();
    node_id modified(node_id scores);
    void draw_outputs();
    void forget_unused();

    std::mt19937 random_;
    std::vector<instruction> nodes_;
    std::vector<input_declaration> inputs_;
    std::vector<output_declaration> outputs_;
    std::vector<std::string_view> indices_;
    std::uint64_t fingerprint_;
};

}  // namespace attune::testing
