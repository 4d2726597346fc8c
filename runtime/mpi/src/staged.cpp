#include "base/text.hpp"

#include <attune/dsl/shard.hpp>
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
    find_steps();
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

void staged_call::find_steps() {
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

void staged_call::find_travellers() {
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
    // What a kernel would refuse of the caller's own tensors, which stages may replace.
    if (steps_[0] != own_keys) {
        arguments own = of_step(own_keys, plan_.positions(), common);
        pass_results(0, 1, own);
        attune::detail::prepare(table_, own, how);
    }
    key_positions_.resize(steps_.size());
    for (std::size_t call = 0; call < steps_.size(); ++call) {
        std::vector<std::int32_t>& positions = key_positions_[call];
        if (steps_[call] == own_keys)
            positions.assign(plan_.positions().begin(), plan_.positions().end());
        else if (const stage& each = exchange_.stages[count(steps_[call])]; plan_.deterministic()) {
            positions.resize(count(each.keys));
            std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(each.first));
        } else
            for (const int c : each.chunks) {
                const auto of_chunk = plan_.chunks().positions(c);
                positions.insert(positions.end(), of_chunk.begin(), of_chunk.end());
            }
        arguments all = of_step(static_cast<int>(call), positions, common);
        pass_results(call, steps_.size(), all);
        calls_.push_back(attune::detail::prepare(table_, all, how));
    }
}

/// The arguments of a call, or of none in particular with the rank's own keys.
staged_call::arguments staged_call::of_step(int call, std::span<const std::int32_t> positions,
                                            const arguments& common) const {
    using namespace dsl::of_shard;
    arguments all = common;
    const bool own = call < 0 || steps_[count(call)] == own_keys;
    for (const traveller& each : travellers_)
        for (named_argument& a : all)
            if (!own && a.name == each.declared->name)
                a.view = of_rows(each.own, each.axis, std::ssize(positions), each.received[call % 2].get());
    for (const input_declaration& input : table_.graph.inputs) {
        if (input.name == key_positions.label)
            all.push_back({.name = input.name, .view = tensor(positions.data(), {std::ssize(positions)})});
        if (input.name == with_sinks.label)
            all.push_back({.name = input.name, .is = named_argument::form::integer, .integer = call <= 0});
    }
    return all;
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

/// Of a call; and copies what this rank has of it itself.
std::vector<request> staged_call::post_receives(traffic& done, std::size_t call) {
    std::vector<request> open;
    while (call < steps_.size() && steps_[call] == own_keys) ++call;
    if (call >= steps_.size()) return open;
    const int number = steps_[call];
    const stage& of = exchange_.stages[count(number)];
    for (std::size_t t = 0; t < travellers_.size(); ++t) {
        const traveller& each = travellers_[t];
        std::byte* const begin = each.received[call % 2].get();
        if (poison_)
            std::memset(begin, 0xff, count(std::max(of.tokens, of.keys)) * each.row);  // NaN in each float type
        for (std::byte* to = begin; const run_of_keys& run : of.runs) {
            if (plan_.deterministic()) to = begin + count(run.to) * each.row;
            const std::span<std::byte> rows(to, count(run.count) * each.row);
            open.push_back(world_.receive({rows, each.received[call % 2]}, run.rank,
                                          number * static_cast<int>(travellers_.size()) + static_cast<int>(t), "keys"));
            ++done.messages_received, done.bytes_received += std::ssize(rows);
            to += rows.size();
        }
        for (const run_of_keys& run : of.own) {
            std::vector<std::int32_t> rows(count(run.count));
            std::iota(rows.begin(), rows.end(), static_cast<std::int32_t>(run.first));
            copy_rows(each.own, each.axis, rows, begin + count(run.to) * each.row);
        }
    }
    return open;
}

traffic staged_call::run() {
    traffic done;
    const std::vector<request> sends = post_sends(done);
    std::vector<request> coming = post_receives(done, 0);
    for (std::size_t call = 0; call < calls_.size(); ++call) {
        if (steps_[call] != own_keys) {
            for (const request each : coming) world_.wait(each);
            coming = post_receives(done, call + 1);
        }
        attune::detail::call(*calls_[call]);
    }
    for (const request each : sends) world_.wait(each);
    return done;
}

}  // namespace attune::mpi::detail
