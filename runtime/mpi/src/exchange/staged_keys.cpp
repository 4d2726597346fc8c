#include "base/text.hpp"

#include <attune/dsl/shard.hpp>
#include <attune/mpi/memory.hpp>
#include <attune/mpi/rows.hpp>
#include <attune/mpi/staged.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

namespace attune::mpi::detail {
namespace {

using attune::detail::fail, attune::detail::say;

std::size_t count(std::int64_t n) { return static_cast<std::size_t>(n); }

}  // namespace

staged_keys::staged_keys(context& world, const layout& plan, const kernel_table& table,
                         std::span<const named_argument> given, bool poison)
    : call_over_ranks(world, plan, table, given), poison_(poison) {
    check_values();
    find_steps();
    find_travellers();
    find_positions();
}

void staged_keys::check_values() const {
    if (plan_.is_of_same_heads()) return;  // whose rows come later: checked where they come from
    check_decided();
}

void staged_keys::find_steps() {
    const int stages = static_cast<int>(exchange_.stages.size());
    if (!plan_.deterministic()) steps_.push_back(own_keys);
    // Sinks join in the first of the fixed stages, whoever sees keys of it.
    const bool with_first = std::ranges::any_of(table_.graph.inputs, [](const input_declaration& input) {
        return input.name == dsl::of_shard::with_sinks.label;
    });
    for (int s = 0; s < stages; ++s)
        if (!plan_.deterministic() || !exchange_.stages[count(s)].is_empty() || (s == 0 && with_first))
            steps_.push_back(s);
    if (steps_.empty()) steps_.push_back(own_keys);  // of which none is seen
}

void staged_keys::find_travellers() {
    const std::int64_t rows = std::ssize(plan_.positions());
    std::int64_t longest[2]{};
    for (std::size_t call = 0; call < steps_.size(); ++call)
        if (steps_[call] != own_keys) {
            const stage& each = exchange_.stages[count(steps_[call])];
            longest[call % 2] = std::max({longest[call % 2], each.tokens, each.keys});
        }
    for (const input_declaration& input : table_.graph.inputs) {
        const named_argument* const passed = find(input.name);
        if (role_of(table_.graph, input) != role::travels || !passed || passed->view.rank() != input.rank) continue;
        const int axis = *axis_of(input, axis_kind::key);
        if (passed->view.extent(axis) != rows) continue;  // one for all keys; another length is refused below
        traveller& each = travellers_.emplace_back(
            traveller{.declared = &input, .own = passed->view, .axis = axis, .row = bytes_of_row(passed->view, axis)});
        for (const int turn : {0, 1}) each.received[turn] = memory_of(each.row * count(longest[turn]));
        if (exchange_.sends.empty()) continue;
        each.sent = memory_of(each.row * count(rows));
    }
}

void staged_keys::find_positions() {
    key_positions_.resize(steps_.size());
    for (int call = 0; call < calls(); ++call) {
        std::vector<std::int32_t>& positions = key_positions_[count(call)];
        if (has_own_keys(call))
            positions.assign(plan_.positions().begin(), plan_.positions().end());
        else if (const stage& each = stage_of(call); plan_.deterministic()) {
            positions.resize(count(each.keys));
            std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(each.first));
        } else
            for (const int c : each.chunks) {
                const auto of_chunk = plan_.chunks().positions(c);
                positions.insert(positions.end(), of_chunk.begin(), of_chunk.end());
            }
    }
}

tensor staged_keys::traveller::of_sent() const { return of_rows(own, axis, own.extent(axis), sent.get()); }

tensor staged_keys::traveller::of_received(int call, std::int64_t rows) const {
    return of_rows(own, axis, rows, received[call % 2].get());
}

staged_keys::arguments staged_keys::of_call(int call, const arguments& common) const {
    arguments all = with_keys(common, keys_of(call), call == 0);
    for (const traveller& each : travellers_)
        for (named_argument& a : all)
            if (!has_own_keys(call) && a.name == each.declared->name)
                a.view = each.of_received(call, std::ssize(keys_of(call)));
    return all;
}

void staged_keys::state(statement& mine) const {
    call_over_ranks::state(mine);
    std::string names;
    for (const traveller& each : travellers_) attune::detail::add_part(names, each.declared->name);
    mine.add("inputs that travel", names, "the same on all ranks");
}

std::vector<request> staged_keys::post_sends(traffic& done) {
    std::vector<request> open;
    for (const traveller& each : travellers_)
        if (each.sent) copy(each.own, each.of_sent());
    for (const auto& [stage, run] : exchange_.sends)
        for (std::size_t t = 0; t < travellers_.size(); ++t) {
            const traveller& each = travellers_[t];
            const outgoing rows = sent_rows(each.of_sent(), each.axis, run.first, run.count, each.sent);
            ++done.messages_sent, done.bytes_sent += static_cast<std::int64_t>(rows.size());
            open.push_back(world_.send(rows, plan_.in_world(run.rank),
                                       stage * static_cast<int>(travellers_.size()) + static_cast<int>(t), "keys"));
        }
    return open;
}

std::vector<request> staged_keys::post_receives(traffic& done, int call) {
    std::vector<request> open;
    while (call < calls() && has_own_keys(call)) ++call;
    if (call >= calls()) return open;
    const int number = steps_[count(call)];
    const stage& of = stage_of(call);
    for (std::size_t t = 0; t < travellers_.size(); ++t) {
        const traveller& each = travellers_[t];
        const std::shared_ptr<std::byte[]>& memory = each.received[call % 2];
        const tensor all = each.of_received(call, std::ssize(keys_of(call)));
        if (poison_)
            std::memset(memory.get(), 0xff, count(all.extent(each.axis)) * each.row);  // NaN in each float type
        std::int64_t next = 0;
        for (const run_of_keys& run : of.runs) {
            const std::int64_t first = plan_.deterministic() ? run.to : next;
            const incoming rows = received_rows(all, each.axis, first, run.count, memory);
            next = first + run.count;
            ++done.messages_received, done.bytes_received += static_cast<std::int64_t>(rows.size());
            open.push_back(world_.receive(rows, plan_.in_world(run.rank),
                                          number * static_cast<int>(travellers_.size()) + static_cast<int>(t), "keys"));
        }
        for (const run_of_keys& run : of.own)
            copy(rows_of(each.own, each.axis, run.first, run.count), rows_of(all, each.axis, run.to, run.count));
    }
    return open;
}

void staged_keys::wait(std::span<const request> all) {
    for (const request each : all) world_.wait(each);
}

}  // namespace attune::mpi::detail
