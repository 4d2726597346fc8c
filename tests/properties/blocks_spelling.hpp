#pragma once
#include "../reference/ir_by_hand.hpp"
#include "blocks_lab.hpp"

#include <deque>
#include <memory>
#include <random>
#include <set>

/// Conditions drawn at random, respelt at random, written as graphs and evaluated pair by pair.
namespace attune::testing {

struct term_node;
using term = std::shared_ptr<const term_node>;

/// An integer or a condition over (q_idx, kv_idx).
struct term_node {
    operation op;
    kind is;
    int value{};        ///< of a constant
    std::string table;  ///< of a load: an i32 for each position
    std::vector<term> arguments;
};

inline term make(operation op, kind is, std::vector<term> arguments) {
    return std::make_shared<const term_node>(term_node{op, is, 0, {}, std::move(arguments)});
}
inline term number(int value) {
    return std::make_shared<const term_node>(term_node{operation::constant, kind::integer, value, {}, {}});
}
inline term query() { return make(operation::q_idx, kind::integer, {}); }
inline term key() { return make(operation::kv_idx, kind::integer, {}); }
inline term at(const std::string& table, term index) {
    return std::make_shared<const term_node>(term_node{operation::load, kind::integer, 0, table, {std::move(index)}});
}
inline term operator+(term a, term b) { return make(operation::add, kind::integer, {a, b}); }
inline term operator-(term a, term b) { return make(operation::subtract, kind::integer, {a, b}); }
inline term operator*(term a, term b) { return make(operation::multiply, kind::integer, {a, b}); }
inline term operator/(term a, term b) { return make(operation::divide, kind::integer, {a, b}); }
inline term operator%(term a, term b) { return make(operation::remainder, kind::integer, {a, b}); }
inline term smaller(term a, term b) { return make(operation::minimum, kind::integer, {a, b}); }
inline term larger(term a, term b) { return make(operation::maximum, kind::integer, {a, b}); }
inline term magnitude(term a) { return make(operation::absolute, kind::integer, {a}); }
inline term compare(operation op, term a, term b) { return make(op, kind::condition, {a, b}); }
inline term both(term a, term b) { return make(operation::logical_and, kind::condition, {a, b}); }
inline term either(term a, term b) { return make(operation::logical_or, kind::condition, {a, b}); }
inline term opposite(term a) { return make(operation::logical_not, kind::condition, {a}); }

/// As one would write it.
std::string text_of(const term& t);

/// softmax(mask(q * t(k), condition)) * v. The strings that its declarations point to live here.
class spelt_graph {
public:
    explicit spelt_graph(const term& condition);
    graph_ir view() const { return builder_.view(); }

private:
    node_id write(const term& t);
    ir_builder builder_;
    std::map<std::string, node_id> written_;
    std::deque<std::string> names_;
};

/// For each block of queries and of keys: 0 no pair is visible, 1 some, 2 all.
std::vector<std::uint8_t> seen_blocks(const term& condition, const lab_inputs& inputs, int query_block, int key_block);

/// The same condition in other words.
class respelling {
public:
    explicit respelling(unsigned seed) : random_(seed) {}
    term operator()(const term& condition);

private:
    term comparison(operation op, const term& a, const term& b);
    int any(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }
    std::mt19937 random_;
};

}  // namespace attune::testing
