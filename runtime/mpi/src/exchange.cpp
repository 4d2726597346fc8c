#include "base/text.hpp"

#include <attune/dsl/shard.hpp>
#include <attune/mpi/exchange.hpp>
#include <attune/mpi/inputs.hpp>
#include <attune/mpi/rows.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

namespace attune::mpi::detail {
namespace {

using attune::detail::fail, attune::detail::say;

const named_argument* find(std::span<const named_argument> given, std::string_view name) {
    const auto found = std::ranges::find(given, name, &named_argument::name);
    return found == given.end() ? nullptr : &*found;
}

std::size_t count(std::int64_t n) { return static_cast<std::size_t>(n); }

}  // namespace

staged_call::staged_call(context& world, const layout& plan, const kernel_table& table,
                         std::span<const named_argument> given, const attune::options& how, bool poison)
    : world_(world),
      plan_(plan),
      table_(table),
      exchange_(plan.of(table.graph.fingerprint)),
      poison_(poison),
      given_(given.begin(), given.end()),
      all_keys_(static_cast<std::int32_t>(plan.chunks().tokens())) {
    for (const named_argument& each : given_)
        if (each.is == named_argument::form::view && each.view.where() != memory::host)
            fail(say(each.name, " in host memory"), each.view.description(), "a copy of it");
    check_extents();
    check_values();
    find_travellers(given_);
    prepare_stages(of_all_stages(given_), between_messages(how));
}

/// Messages may stand still while nobody calls the transport.
attune::options staged_call::between_messages(attune::options how) {
    if (world_.size() == 1) return how;
    between_tasks_ = [this, callers = how.between_tasks] {
        if (callers && *callers) (*callers)();
        world_.progress();
    };
    how.between_tasks = &between_tasks_;
    return how;
}

void staged_call::check_extents() const {
    const planning& planned = plan_.made_for();
    for (const input_declaration& input : table_.graph.inputs) {
        const named_argument* const passed = find(given_, input.name);
        if (!passed || passed->is != named_argument::form::view || passed->view.rank() != input.rank) continue;
        for (const auto& [axis, extent] :
             {std::pair(axis_kind::batch, planned.batches), std::pair(axis_kind::head, planned.heads),
              std::pair(axis_kind::key_head, planned.key_heads)})
            if (const auto at = axis_of(input, axis)) {
                const std::int64_t got = passed->view.extent(*at);
                if (got != extent && (got != 1 || input.name == "q" || input.name == "k" || input.name == "v"))
                    fail(say(name_of(axis), " extent ", extent, " in ", input.name, ", as planned"),
                         passed->view.description(), "plan<...>(...) with the extents of the call");
            }
    }
}

void staged_call::check_values() const {
    const auto now = decided_by(table_.graph, given_, std::nullopt);
    for (const auto& [name, hash] : now)
        if (std::ranges::find(exchange_.decided_by, std::pair(name, hash)) == exchange_.decided_by.end())
            fail(say(name, " as planned, because it decides who needs which keys"), "another value",
                 "a plan with this one");
    for (const auto& [name, hash] : exchange_.decided_by)
        if (!find(given_, name)) fail(say(name, " as planned"), "none", say("passing ", name, " = ..."));
}

void staged_call::find_travellers(std::span<const named_argument> given) {
    const std::int64_t rows = std::ssize(plan_.positions());
    std::int64_t longest[2]{};
    for (std::size_t s = 0; s < exchange_.stages.size(); ++s)
        longest[s % 2] = std::max(longest[s % 2], exchange_.stages[s].tokens);
    for (const input_declaration& input : table_.graph.inputs) {
        const named_argument* const passed = find(given, input.name);
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

/// The arguments that each stage has alike.
staged_call::arguments staged_call::of_all_stages(std::span<const named_argument> given) {
    using namespace dsl::of_shard;
    arguments all;
    for (const input_declaration& input : table_.graph.inputs) {
        named_argument a{.name = input.name};
        if (input.name == query_positions.label)
            a.view = tensor(plan_.positions().data(), {std::ssize(plan_.positions())});
        else if (input.name == all_queries.label || input.name == all_keys.label)
            a.is = named_argument::form::integer, a.integer = all_keys_;
        else if (const named_argument* const passed = find(given, input.name))
            a = *passed;
        else if (input.name == lengths.label)
            a.view = tensor(&all_keys_, {1});
        else
            continue;  // of a stage
        all.push_back(a);
    }
    return all;
}

/// Where a call finds the results of those before, and where it leaves its own: the last in the caller's outputs.
void staged_call::pass_results(std::size_t call, std::size_t calls, arguments& to) {
    const std::size_t turn = (calls - 1 - call) % 2;
    for (std::size_t o = 0; o < table_.graph.outputs.size(); ++o) {
        const output_declaration& output = table_.graph.outputs[o];
        to.push_back({.name = output.name, .view = results_[turn][o]});
        const input_declaration* const before = before_of(table_.graph, output.name);
        if (!before) continue;
        tensor left = results_[1 - turn][o];
        if (call == 0) {
            // One row for all.
            const tensor& like = results_[0][o];
            std::vector<std::int64_t> strides(count(like.rank()), 0);
            const bool dense = like.rank() == 4;
            if (dense) strides.back() = 1;
            const std::size_t elements = dense ? count(like.extent(3)) : 1;
            std::vector<std::byte>& memory = held_.emplace_back(elements * count(bytes_of(like.type())));
            if (begins_at_minus_infinity(table_.graph, output)) {
                const float least = -std::numeric_limits<float>::infinity();
                std::memcpy(memory.data(), &least, sizeof least);
            }
            left = tensor(like.type(), static_cast<const void*>(memory.data()), like.shape(), strides);
        }
        to.push_back({.name = before->name, .view = left});
    }
}

void staged_call::prepare_stages(const arguments& common, const attune::options& how) {
    for (const output_declaration& output : table_.graph.outputs) {
        const named_argument* const passed = find(given_, output.name);
        if (!passed || passed->is != named_argument::form::view)
            fail(say("a tensor for the output ", output.name, " of ", table_.variant), "none",
                 say("passing ", output.name, " = ..."));
        const tensor& own = passed->view;
        std::size_t elements = 1;
        for (const std::int64_t extent : own.shape()) elements *= count(extent);
        std::vector<std::byte>& memory = held_.emplace_back(elements * count(bytes_of(own.type())));
        results_[0].push_back(own);
        results_[1].emplace_back(own.type(), static_cast<void*>(memory.data()), own.shape());
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
    mine.add("layout", say(plan_.hash()), "the layout that one plan<...> gave on all ranks");
    for (const input_declaration& input : table_.graph.inputs) {
        const named_argument* const passed = find(given_, input.name);
        if (!passed) continue;
        std::string value;
        if (passed->is != named_argument::form::view)
            value = say(passed->integer, " ", exactly(passed->real));
        else {
            value = say(name_of(passed->view.type()), " (");
            for (int a = 0; a < passed->view.rank(); ++a) {
                const axis_kind axis = a < input.rank ? input.axes[count(a)].kind : axis_kind::free;
                const bool own = axis == axis_kind::query || axis == axis_kind::key;
                value += say(a ? ", " : "", own ? say("its ", name_of(axis)) : say(passed->view.extent(a)));
            }
            value += ')';
        }
        mine.add(input.name, value, "the same on all ranks, but for the rows that each has");
    }
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

traffic run(context& world, const layout& plan, const kernel_table& table, std::span<const named_argument> given,
            const attune::options& how, bool poison) {
    std::optional<staged_call> call;
    world.agree(say("run of ", table.variant), [&](statement& mine) {
        call.emplace(world, plan, table, given, how, poison);
        call->state(mine);
        state(mine, how);
    });
    return world.guard([&] { return call->run(); });
}

prepared::prepared(context& in, const layout& by, const kernel_table& table, std::span<const named_argument> given,
                   const attune::options& how, bool poison)
    : world(in), name(say("run of ", table.variant)), plan(by) {
    world.agree(say("prepare of ", table.variant), [&](statement& mine) {
        call.emplace(world, plan, table, given, how, poison);
        call->state(mine);
        mpi::detail::state(mine, how);
    });
}

std::shared_ptr<prepared> prepare(context& world, const layout& plan, const kernel_table& table,
                                  std::span<const named_argument> given, const attune::options& how, bool poison) {
    return std::make_shared<prepared>(world, plan, table, given, how, poison);
}

traffic call(prepared& what) {
    what.world.begin(what.name);
    return what.world.guard([&] {
        what.call->check_values();
        return what.call->run();
    });
}

}  // namespace attune::mpi::detail
