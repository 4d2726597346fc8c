#include "base/text.hpp"

#include <attune/dsl/shard.hpp>
#include <attune/mpi/decode.hpp>
#include <attune/mpi/rows.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <ranges>
#include <utility>

namespace attune::mpi::detail {
namespace {

using attune::detail::fail, attune::detail::say;

constexpr int joined_part = 0, whole_part = 1;  // of a call's messages

std::size_t count(std::int64_t n) { return static_cast<std::size_t>(n); }

}  // namespace

tree_call::tree_call(context& world, const layout& plan, const kernel_table& table,
                     std::span<const named_argument> given, const attune::options& how, bool poison)
    : call_over_ranks(world, plan, table, given),
      states_(table.graph, plan.made_for().batches * plan.made_for().heads * plan.made_for().queries,
              exchange_.value_depth),
      poison_(poison),
      query_positions_(count(plan.made_for().queries)) {
    std::iota(query_positions_.begin(), query_positions_.end(), 0);
    for (const output_declaration& output : table_.graph.outputs) {
        outputs_.push_back(own_output(output));
        if (outputs_.back().rank() == 4 && outputs_.back().extent(3) != exchange_.value_depth)
            fail(say("value depth ", exchange_.value_depth, " in ", output.name, ", as planned"),
                 outputs_.back().description(), "plan<...>(...) with .value_depth of the call");
        of_part_.push_back(made_like(outputs_.back()));
    }
    prepare_parts(common_arguments(query_positions_), between_messages(how));
}

/// A call for each part of the keys. Everything that a kernel would refuse in them, or in the caller's outputs, is
/// refused here.
void tree_call::prepare_parts(const arguments& common, const attune::options& how) {
    const std::int64_t rows = std::ssize(plan_.positions());
    const auto prepared_for = [&](std::int64_t first, std::int64_t keys, bool with_sinks,
                                  const std::vector<tensor>& outputs) {
        arguments all = common;
        for (named_argument& a : all)
            for (const input_declaration& input : table_.graph.inputs) {
                if (input.name != a.name || role_of(table_.graph, input) != role::travels) continue;
                const int axis = *axis_of(input, axis_kind::key);
                if (a.view.rank() == input.rank && a.view.extent(axis) == rows && keys != rows)
                    a.view = rows_of(a.view, axis, first, keys);
            }
        const auto positions = plan_.positions().subspan(count(first), count(keys));
        for (const input_declaration& input : table_.graph.inputs) {
            if (input.name == dsl::of_shard::key_positions.label)
                all.push_back({.name = input.name, .view = tensor(positions.data(), {keys})});
            if (input.name == dsl::of_shard::with_sinks.label)
                all.push_back({.name = input.name, .is = named_argument::form::integer, .integer = with_sinks});
        }
        for (std::size_t o = 0; o < outputs.size(); ++o) {
            const output_declaration& output = table_.graph.outputs[o];
            all.push_back({.name = output.name, .view = outputs[o]});
            if (const input_declaration* const before = before_of(table_.graph, output.name))
                all.push_back({.name = before->name, .view = nothing_before(output)});
        }
        return attune::detail::prepare(table_, all, how);
    };
    of_own_tensors_ = prepared_for(0, rows, true, outputs_);
    if (world_.size() == 1 && exchange_.joins.parts == 1) return calls_.push_back(of_own_tensors_);
    for (std::size_t p = 0; p < exchange_.joins.own.size(); ++p) {
        const run_of_keys& part = exchange_.parts[p];
        calls_.push_back(prepared_for(part.first, part.count, exchange_.joins.own[p] == 0, of_part_));
    }
}

tree_call::numbers tree_call::memory_of(std::size_t states) const {
    return std::make_shared<float[]>(states * count(states_.numbers()));
}

void tree_call::compute(waiting_states<numbers>& mine) {
    for (std::size_t p = 0; p < calls_.size(); ++p) {
        attune::detail::call(*calls_[p]);
        const numbers made = memory_of(1);
        states_.take(of_part_, made.get());
        add(mine, {0, exchange_.joins.own[p]}, made);
    }
}

void tree_call::add(waiting_states<numbers>& mine, const branch& at, numbers state) const {
    mine.add(at, std::move(state), [&](numbers lower, const numbers& upper) {
        states_.join(lower.get(), upper.get(), lower.get());
        return lower;
    });
}

request tree_call::receive(int from, int part, const numbers& to, std::size_t states) {
    const std::span<std::byte> bytes(reinterpret_cast<std::byte*>(to.get()), states * count(states_.bytes()));
    if (poison_) std::memset(bytes.data(), 0xff, bytes.size());
    ++done_.messages_received, done_.bytes_received += std::ssize(bytes);
    return world_.receive({bytes, to}, from, part, part == whole_part ? "results" : "states");
}

request tree_call::send(int to, int part, const numbers& from, std::size_t states) {
    const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(from.get()),
                                           states * count(states_.bytes()));
    ++done_.messages_sent, done_.bytes_sent += std::ssize(bytes);
    return world_.send({bytes, from}, to, part, part == whole_part ? "results" : "states");
}

traffic tree_call::run() {
    const tree& by = exchange_.joins;
    done_ = {};
    if (world_.size() == 1 && by.parts == 1) return attune::detail::call(*calls_[0]), done_;
    std::vector<numbers> memory;
    std::vector<request> coming, sent;
    for (const tree::message& each : by.received) {
        memory.push_back(memory_of(each.branches.size()));
        if (!each.branches.empty())
            coming.push_back(receive(each.rank, joined_part, memory.back(), each.branches.size()));
    }
    numbers whole = memory_of(1);
    if (by.sent) coming.push_back(receive(by.sent->rank, whole_part, whole, 1));

    waiting_states<numbers> mine(by.parts);
    compute(mine);
    auto next = coming.begin();
    for (std::size_t m = 0; m < by.received.size(); ++m) {
        const std::vector<branch>& branches = by.received[m].branches;
        if (branches.empty()) continue;
        world_.wait(*next++);
        for (std::size_t i = 0; i < branches.size(); ++i)
            add(mine, branches[i], numbers(memory[m], memory[m].get() + i * count(states_.numbers())));
    }
    if (by.sent) {
        const numbers together = memory_of(mine.all().size());
        for (float* to = together.get(); const auto& [first, state] : mine.all())
            to = std::copy_n(state.second.get(), states_.numbers(), to);
        if (!mine.all().empty()) sent.push_back(send(by.sent->rank, joined_part, together, mine.all().size()));
        world_.wait(*next);
    } else
        whole = mine.all().begin()->second.second;
    for (const tree::message& each : by.received | std::views::reverse)  // who passes it on the furthest first
        sent.push_back(send(each.rank, whole_part, whole, 1));
    states_.give(whole.get(), outputs_);
    for (const request each : sent) world_.wait(each);
    return done_;
}

}  // namespace attune::mpi::detail
