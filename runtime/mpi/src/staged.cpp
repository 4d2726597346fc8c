#include "base/text.hpp"

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

staged_call::staged_call(context& world, const layout& plan, const kernel_table& table,
                         std::span<const named_argument> given, const attune::options& how, bool poison)
    : call_over_ranks(world, plan, table, given), poison_(poison) {
    check_values();
    find_travellers();
    prepare_stages(common_arguments(plan_.positions()), between_messages(how));
}

void staged_call::check_values() const {
    const auto now = decided_by(table_.graph, given_, std::nullopt);
    for (const auto& [name, hash] : now)
        if (std::ranges::find(exchange_.decided_by, std::pair(name, hash)) == exchange_.decided_by.end())
            fail(say(name, " as planned, because it decides who needs which keys"), "another value",
                 "a plan with this one");
    for (const auto& [name, hash] : exchange_.decided_by)
        if (!find(name)) fail(say(name, " as planned"), "none", say("passing ", name, " = ..."));
}

void staged_call::find_travellers() {
    const std::int64_t rows = std::ssize(plan_.positions());
    std::int64_t longest[2]{};
    for (std::size_t s = 0; s < exchange_.stages.size(); ++s)
        longest[s % 2] = std::max(longest[s % 2], exchange_.stages[s].tokens);
    for (const input_declaration& input : table_.graph.inputs) {
        const named_argument* const passed = find(input.name);
        if (role_of(table_.graph, input) != role::travels || !passed || passed->view.rank() != input.rank) continue;
        const int axis = *axis_of(input, axis_kind::key);
        if (passed->view.extent(axis) != rows) continue;  // one for all keys; another length is refused below
        traveller& each = travellers_.emplace_back(
            traveller{.declared = &input, .own = passed->view, .axis = axis, .row = bytes_of_row(passed->view, axis)});
        for (const int turn : {0, 1})
            each.received[turn] = std::make_shared<std::byte[]>(each.row * count(longest[turn]));
        if (exchange_.sends.empty()) continue;
        each.sent = std::make_shared<std::byte[]>(each.row * count(rows));
    }
}

/// Where a call finds the results of those before, and where it leaves its own: the last in the caller's outputs.
void staged_call::pass_results(std::size_t call, std::size_t calls, arguments& to) {
    const std::size_t turn = (calls - 1 - call) % 2;
    for (std::size_t o = 0; o < table_.graph.outputs.size(); ++o) {
        const output_declaration& output = table_.graph.outputs[o];
        to.push_back({.name = output.name, .view = results_[turn][o]});
        const input_declaration* const before = before_of(table_.graph, output.name);
        if (!before) continue;
        const tensor left = call == 0 ? nothing_before(output) : results_[1 - turn][o];
        to.push_back({.name = before->name, .view = left});
    }
}

void staged_call::prepare_stages(const arguments& common, const attune::options& how) {
    for (const output_declaration& output : table_.graph.outputs) {
        results_[0].push_back(own_output(output));
        results_[1].push_back(made_like(results_[0].back()));
    }
    const std::size_t calls = exchange_.stages.size() + 1;
    key_positions_.resize(calls);
    for (std::size_t call = 0; call < calls; ++call) {
        using namespace dsl::of_shard;
        auto& positions = key_positions_[call];
        if (call == 0)
            positions.assign(plan_.positions().begin(), plan_.positions().end());
        else
            for (const int c : exchange_.stages[call - 1].chunks) {
                const auto of_chunk = plan_.chunks().positions(c);
                positions.insert(positions.end(), of_chunk.begin(), of_chunk.end());
            }
        arguments all = common;
        for (const input_declaration& input : table_.graph.inputs) {
            if (input.name == key_positions.label)
                all.push_back({.name = input.name, .view = tensor(positions.data(), {std::ssize(positions)})});
            if (input.name == with_sinks.label)
                all.push_back({.name = input.name, .is = named_argument::form::integer, .integer = call == 0});
        }
        for (const traveller& each : travellers_)
            for (named_argument& a : all)
                if (call > 0 && a.name == each.declared->name)
                    a.view = of_rows(each.own, each.axis, std::ssize(positions), each.received[(call - 1) % 2].get());
        pass_results(call, calls, all);
        calls_.push_back(attune::detail::prepare(table_, all, how));
    }
}

void staged_call::state(statement& mine) const {
    call_over_ranks::state(mine);
    std::string names;
    for (const traveller& each : travellers_) attune::detail::add_part(names, each.declared->name);
    mine.add("inputs that travel", names, "the same on all ranks");
}

std::vector<request> staged_call::post_sends(traffic& done) {
    std::vector<request> open;
    std::vector<std::int32_t> all(plan_.positions().size());
    std::iota(all.begin(), all.end(), 0);
    for (const traveller& each : travellers_)
        if (each.sent) copy_rows(each.own, each.axis, all, each.sent.get());
    for (const auto& [stage, run] : exchange_.sends)
        for (std::size_t t = 0; t < travellers_.size(); ++t) {
            const traveller& each = travellers_[t];
            const std::span<const std::byte> rows(each.sent.get() + count(run.first) * each.row,
                                                  count(run.count) * each.row);
            open.push_back(world_.send({rows, each.sent}, run.rank,
                                       stage * static_cast<int>(travellers_.size()) + static_cast<int>(t), "keys"));
            ++done.messages_sent, done.bytes_sent += std::ssize(rows);
        }
    return open;
}

std::vector<request> staged_call::post_receives(traffic& done, std::size_t stage) {
    std::vector<request> open;
    if (stage >= exchange_.stages.size()) return open;
    for (std::size_t t = 0; t < travellers_.size(); ++t) {
        const traveller& each = travellers_[t];
        std::byte* to = each.received[stage % 2].get();
        if (poison_) std::memset(to, 0xff, count(exchange_.stages[stage].tokens) * each.row);  // NaN in each float type
        for (const run_of_keys& run : exchange_.stages[stage].runs) {
            const std::span<std::byte> rows(to, count(run.count) * each.row);
            open.push_back(world_.receive({rows, each.received[stage % 2]}, run.rank,
                                          static_cast<int>(stage * travellers_.size() + t), "keys"));
            ++done.messages_received, done.bytes_received += std::ssize(rows);
            to += rows.size();
        }
    }
    return open;
}

traffic staged_call::run() {
    traffic done;
    const std::vector<request> sends = post_sends(done);
    std::vector<request> coming = post_receives(done, 0);
    for (std::size_t call = 0; call < calls_.size(); ++call) {
        if (call > 0) {
            for (const request each : coming) world_.wait(each);
            coming = post_receives(done, call);
        }
        attune::detail::call(*calls_[call]);
    }
    for (const request each : sends) world_.wait(each);
    return done;
}

}  // namespace attune::mpi::detail
