#pragma once
#include "drawn_graph.hpp"

#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <string_view>

namespace attune::testing {

/// A graph of one recurrence, drawn from all that its normal form may be: decays by heads, tokens and channels, down to
/// 0; erasures by the key or by another row; a second pair; a first state that is passed, or a formula; states of heads
/// or of key heads; outputs that read states after a token or before it.
///
/// States stay as large as what is added to them: rows by which a step reads are of length 1 at most, decays from 0 to
/// 1. A call's free axis is `entry`.
class random_recurrence : public drawn_graph {
public:
    explicit random_recurrence(unsigned seed);

private:
    int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
    bool one_in(int n) { return below(n) == 0; }

    node_id add(instruction n);
    node_id add(operation op, kind is, std::initializer_list<node_id> arguments = {});
    node_id real(double value) { return add({.op = operation::constant, .kind = kind::real, .number = value}); }
    node_id integer(std::int64_t value) {
        return add({.op = operation::constant, .kind = kind::integer, .integer = value});
    }
    node_id of_two(operation op, node_id x, node_id y);  ///< an output if either is
    node_id function(operation op, node_id x) { return add(op, kind::real, {x}); }
    node_id index(operation op) { return add(op, kind::integer); }

    input_declaration declared(std::string_view name, std::initializer_list<axis_kind> axes) const;
    node_id input(const input_declaration& d);
    node_id heads_of_step(std::string_view name, std::initializer_list<axis_kind> axes);
    node_id number(std::string_view name), row(std::string_view name, node_id channel);
    node_id any_row(std::string_view name), unit_row(std::string_view name, double length);
    node_id decay(), value(), initial();
    node_id rows_read(node_id states, int number);

    std::mt19937 random_;
    bool of_key_heads_;  ///< of the states: the step reads key heads alone
};

}  // namespace attune::testing
