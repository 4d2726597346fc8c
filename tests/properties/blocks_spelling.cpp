#include "blocks_spelling.hpp"

#include <attune/ir/operations.hpp>

#include <algorithm>
#include <stdexcept>

namespace attune::testing {
namespace {

using enum operation;

/// The sign between two arguments; empty for a function.
std::string_view sign_of(operation op) { return about(op).most == 2 && about(op).precedence > 0 ? about(op).text : ""; }

/// Values for one query, of all keys: one where they are equal.
using column = std::vector<int>;

template <class F> column joined(const column& x, const column& y, F f) {
    column result(std::max(x.size(), y.size()));
    if (x.size() == y.size())
        for (std::size_t i = 0; i < result.size(); ++i) result[i] = f(x[i], y[i]);
    else if (x.size() == 1)
        for (std::size_t i = 0; i < result.size(); ++i) result[i] = f(x[0], y[i]);
    else
        for (std::size_t i = 0; i < result.size(); ++i) result[i] = f(x[i], y[0]);
    return result;
}

using of_two = int (*)(int, int);
constexpr by_operation<family::arithmetic, of_two> of_arithmetic{
    {negate, [](int a, int) { return -a; }},
    {absolute, [](int a, int) { return a < 0 ? -a : a; }},
    {add, [](int a, int b) { return a + b; }},
    {subtract, [](int a, int b) { return a - b; }},
    {multiply, [](int a, int b) { return a * b; }},
    {divide, [](int a, int b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }},  // divisors are positive
    {remainder, [](int a, int b) { return (a % b + b) % b; }},
    {minimum, [](int a, int b) { return std::min(a, b); }},
    {maximum, [](int a, int b) { return std::max(a, b); }}};
constexpr by_operation<family::comparison, of_two> of_comparisons{
    {equal, [](int a, int b) { return int(a == b); }},  {not_equal, [](int a, int b) { return int(a != b); }},
    {less, [](int a, int b) { return int(a < b); }},    {less_equal, [](int a, int b) { return int(a <= b); }},
    {greater, [](int a, int b) { return int(a > b); }}, {greater_equal, [](int a, int b) { return int(a >= b); }}};
constexpr by_operation<family::logic, of_two> of_logic{{logical_and, [](int a, int b) { return a & b; }},
                                                       {logical_or, [](int a, int b) { return a | b; }},
                                                       {logical_not, [](int a, int) { return 1 - a; }}};

class row_evaluator {
public:
    explicit row_evaluator(const lab_inputs& inputs) : inputs_(inputs), keys_(static_cast<std::size_t>(inputs.keys)) {
        for (std::size_t k = 0; k < keys_.size(); ++k) keys_[k] = static_cast<int>(k);
        for (const auto& [name, table] : inputs.tables) tables_[name].assign(table.values.begin(), table.values.end());
    }

    const column& operator()(const term& t, int q) {
        const bool of_query = differs_with(t, q_idx);
        const auto [found, added] = done_.try_emplace(t.get());
        if (!added && (!of_query || found->second.first == q)) return found->second.second;
        column value = compute(t, q);
        auto& kept = done_[t.get()];
        kept = {q, std::move(value)};
        return kept.second;
    }

private:
    bool differs_with(const term& t, operation index) {
        if (t->op == index) return true;
        const auto [found, added] = of_query_.try_emplace(t.get());
        if (added) {
            bool differs = false;
            for (const term& a : t->arguments) differs = differs_with(a, index) || differs;
            of_query_[t.get()] = differs;
            return differs;
        }
        return found->second;
    }

    column compute(const term& t, int q) {
        const auto argument = [&](std::size_t i) -> const column& { return (*this)(t->arguments[i], q); };
        if (t->op == constant) return {t->value};
        if (t->op == q_idx) return {q};
        if (t->op == kv_idx) return keys_;
        if (t->op == to_integer) return argument(0);
        if (t->op == load) {
            column index = argument(0);
            const std::vector<int>& table = tables_.at(t->table);
            for (int& i : index)
                i = table[static_cast<std::size_t>(std::clamp(i, 0, static_cast<int>(table.size()) - 1))];
            return index;
        }
        const column a = argument(0);
        const column& b = t->arguments.size() > 1 ? argument(1) : a;
        switch (family_of(t->op)) {
            case family::arithmetic: return joined(a, b, of_arithmetic[t->op]);
            case family::comparison: return joined(a, b, of_comparisons[t->op]);
            case family::logic: return joined(a, b, of_logic[t->op]);
            case family::terminal:
            case family::tensors:
            case family::sums:
            case family::conversion:
            case family::bits:
            case family::function:
            case family::function_of_two:
            case family::classification:
            case family::selection:
            case family::random:
            case family::attention:
            case family::recurrent:
            case family::patterns: break;
        }
        throw std::logic_error("a term that no drawn condition has");
    }

    const lab_inputs& inputs_;
    column keys_;
    std::map<std::string, std::vector<int>> tables_;
    std::map<const term_node*, bool> of_query_;
    std::map<const term_node*, std::pair<int, column>> done_;
};

}  // namespace

std::string text_of(const term& t) {
    const auto argument = [&](std::size_t i) { return text_of(t->arguments[i]); };
    const auto call = [&](const char* function) {
        std::string text = function;
        for (std::size_t i = 0; i < t->arguments.size(); ++i) text.append(i == 0 ? "(" : ", ").append(argument(i));
        return text.append(")");
    };
    if (const std::string_view sign = sign_of(t->op); !sign.empty())
        return std::string("(").append(argument(0)).append(sign).append(argument(1)).append(")");
    if (t->op == constant) return std::to_string(t->value);
    if (t->op == load) return call(t->table.c_str());
    return t->arguments.empty() ? std::string(about(t->op).text) : call(std::string(about(t->op).text).c_str());
}

spelt_graph::spelt_graph(const term& condition) {
    const auto scores = builder_.scores();
    builder_.output("out", builder_.attend(builder_.add(mask, kind::scores, {scores, write(condition)})));
}

node_id spelt_graph::write(const term& t) {
    const std::string text = text_of(t);
    if (const auto found = written_.find(text); found != written_.end())
        return found->second;  // a graph_ir has every node once
    node_id node{};
    if (t->op == constant) {
        node = builder_.integer(t->value);
    } else if (t->op == load) {
        const std::string declared = "tensor " + t->table;
        if (!written_.contains(declared)) {
            names_.push_back(t->table);
            written_[declared] = builder_.input(names_.back(), element_type::i32, {axis_kind::position});
        }
        node = builder_.add(load, t->is, {written_[declared], write(t->arguments[0])});
    } else if (t->arguments.empty()) {
        node = builder_.index(t->op);
    } else if (t->arguments.size() == 1) {
        node = builder_.add(t->op, t->is, {write(t->arguments[0])});
    } else {
        const auto a = write(t->arguments[0]), b = write(t->arguments[1]);
        node = builder_.add(t->op, t->is, {a, b});
    }
    return written_[text] = node;
}

std::vector<std::uint8_t> seen_blocks(const term& condition, const lab_inputs& inputs, int query_block, int key_block) {
    const int query_blocks = (inputs.queries + query_block - 1) / query_block,
              key_blocks = (inputs.keys + key_block - 1) / key_block;
    std::vector<std::uint8_t> any(static_cast<std::size_t>(query_blocks * key_blocks), 0), all(any.size(), 1);
    row_evaluator evaluate(inputs);
    for (int q = 0; q < inputs.queries; ++q) {
        const column& row = evaluate(condition, q);
        for (int j = 0; j < key_blocks; ++j) {
            const int first = j * key_block, count = std::min(key_block, inputs.keys - first);
            int visible = 0;
            if (row.size() == 1)
                visible = row[0] * count;
            else
                for (int k = first; k < first + count; ++k) visible += row[static_cast<std::size_t>(k)];
            const auto block = static_cast<std::size_t>(q / query_block * key_blocks + j);
            any[block] |= visible > 0, all[block] &= visible == count;
        }
    }
    for (std::size_t i = 0; i < any.size(); ++i) any[i] = static_cast<std::uint8_t>(any[i] + all[i]);
    return any;
}

term respelling::comparison(operation op, const term& a, const term& b) {
    const term one = number(1), zero = number(0);
    if (op == equal) {
        switch (any(6)) {
            case 0: return compare(equal, b, a);
            case 1: return opposite(compare(not_equal, a, b));
            case 2: return both(compare(less_equal, a, b), compare(greater_equal, a, b));
            case 3: return compare(equal, a - b, zero);
            case 4: return compare(less_equal, magnitude(b - a), zero);
            default: return compare(equal, a + number(7), number(7) + b);
        }
    }
    if (op == not_equal) return opposite(comparison(equal, a, b));
    if (op == greater) return comparison(less, b, a);
    if (op == greater_equal) return comparison(less_equal, b, a);
    if (op == less_equal) {
        switch (any(4)) {
            case 0: return opposite(compare(less, b, a));
            case 1: return compare(greater_equal, b, a);
            case 2: return comparison(less, a, b + one);
            default: return comparison(less, a - one, b);
        }
    }
    switch (any(11)) {
        case 0: return compare(greater, b, a);
        case 1: return opposite(compare(greater_equal, a, b));
        case 2: return compare(less_equal, a + one, b);
        case 3: return compare(less, a - b, zero);
        case 4: return compare(greater, b - a, zero);
        case 5: return compare(less, number(13) - b, number(13) - a);
        case 6: return compare(less, a * number(2), number(2) * b);
        case 7: return compare(greater, larger(a, b), a);
        case 8: return compare(equal, smaller(a, b - one), a);
        case 9: return compare(greater_equal, make(to_integer, kind::integer, {compare(less, a, b)}), one);
        default: return opposite(opposite(compare(less, a, b)));
    }
}

term respelling::operator()(const term& t) {
    const auto said = [&](std::size_t i) { return (*this)(t->arguments[i]); };
    if (t->op == logical_and) {
        const term &x = t->arguments[0], &y = t->arguments[1];
        if (y->op == logical_or && any(3) == 0)
            return either(both(said(0), (*this)(y->arguments[0])), both(said(0), (*this)(y->arguments[1])));
        switch (any(4)) {
            case 0: return both(said(1), said(0));
            case 1: return opposite(either((*this)(opposite(x)), (*this)(opposite(y))));
            case 2: return both(said(0), both(said(1), x));
            default: return both(said(0), said(1));
        }
    }
    if (t->op == logical_or) {
        const term &x = t->arguments[0], &y = t->arguments[1];
        switch (any(3)) {
            case 0: return either(said(1), said(0));
            case 1: return opposite(both((*this)(opposite(x)), (*this)(opposite(y))));
            default: return either(said(0), said(1));
        }
    }
    if (t->op == logical_not)
        return t->arguments[0]->op == logical_not ? (*this)(t->arguments[0]->arguments[0]) : opposite(said(0));
    return comparison(t->op, t->arguments[0], t->arguments[1]);
}

}  // namespace attune::testing
