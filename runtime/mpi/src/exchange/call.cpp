#include "base/text.hpp"
#include "execution/threads.hpp"

#include <attune/dsl/shard.hpp>
#include <attune/ir/gradient_outputs.hpp>
#include <attune/mpi/decode.hpp>
#include <attune/mpi/exchange.hpp>
#include <attune/mpi/gradients.hpp>
#include <attune/mpi/heads.hpp>
#include <attune/mpi/memory.hpp>
#include <attune/mpi/staged.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace attune::mpi::detail {
namespace {

using attune::detail::fail, attune::detail::say;

std::size_t count(std::int64_t n) { return static_cast<std::size_t>(n); }

}  // namespace

call_over_ranks::call_over_ranks(context& world, const layout& plan, const kernel_table& table,
                                 std::span<const named_argument> given)
    : world_(world),
      plan_(plan),
      table_(table),
      exchange_(plan.of(table.graph.fingerprint)),
      given_(given.begin(), given.end()),
      all_keys_(static_cast<std::int32_t>(plan.chunks().tokens())),
      all_queries_(plan.decodes() ? static_cast<std::int32_t>(plan.made_for().queries) : all_keys_) {
    if (plan.in_world(plan.rank()) != world.rank() || plan.ranks_in_world() != world.size())
        fail(say("a plan of rank ", world.rank(), " of ", world.size()),
             say("one of rank ", plan.rank(), " of ", plan.ranks()), "the plan that was made in this context");
    check_tensors(table.graph, given_, all_keys_);
    check_extents();
}

const named_argument* call_over_ranks::find(std::string_view name) const {
    const auto found = std::ranges::find(given_, name, &named_argument::name);
    return found == given_.end() ? nullptr : &*found;
}

/// Messages may stand still while nobody calls the transport.
attune::options call_over_ranks::between_messages(attune::options how) {
    if (world_.size() == 1) return how;
    between_tasks_ = [this, callers = how.between_tasks] {
        if (callers && *callers) (*callers)();
        world_.progress();
    };
    how.between_tasks = &between_tasks_;
    return how;
}

void call_over_ranks::check_extents() const {
    const planning& planned = plan_.made_for();
    for (const input_declaration& input : table_.graph.inputs) {
        const named_argument* const passed = find(input.name);
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

void call_over_ranks::check_decided() const {
    const auto now = decided_by(table_.graph, given_, std::nullopt);
    for (const auto& [name, hash] : now)
        if (std::ranges::find(exchange_.decided_by, std::pair(name, hash)) == exchange_.decided_by.end())
            fail(say(name, " as planned, because it decides who needs which keys"), "another value",
                 "a plan with this one");
    for (const auto& [name, hash] : exchange_.decided_by)
        if (!find(name)) fail(say(name, " as planned"), "none", say("passing ", name, " = ..."));
}

void call_over_ranks::check_own_values() const {
    if (const named_argument* const passed = find(dsl::of_shard::lengths.label)) {
        const auto* const values = static_cast<const std::int32_t*>(passed->view.data());
        for (std::int64_t b = 0; b < passed->view.extent(0); ++b)
            if (const std::int32_t length = values[b * passed->view.stride(0)]; length < 0 || length > all_keys_)
                fail(say("lengths from 0 to ", all_keys_, ", the tokens of all ranks"), say(length, " at batch ", b),
                     "the keys of each sequence");
    }
    attune::detail::check_values(*of_own_tensors_);
}

call_over_ranks::arguments call_over_ranks::common_arguments(std::span<const std::int32_t> queries) const {
    using namespace dsl::of_shard;
    arguments all;
    for (const input_declaration& input : table_.graph.inputs) {
        named_argument a{.name = input.name};
        if (input.name == query_positions.label)
            a.view = tensor(queries.data(), {std::ssize(queries)});
        else if (input.name == all_queries.label || input.name == all_keys.label) {
            a.is = named_argument::form::integer;
            a.integer = input.name == all_keys.label ? all_keys_ : all_queries_;
        } else if (input.name == first_head.label || input.name == all_heads.label ||
                   input.name == all_key_heads.label) {
            const planning& share = plan_.made_for();
            a.is = named_argument::form::integer;
            a.integer = input.name == first_head.label  ? share.heads * plan_.share_of_heads()
                        : input.name == all_heads.label ? share.heads * plan_.shares_of_heads()
                                                        : share.key_heads * plan_.shares_of_heads();
        } else if (const named_argument* const passed = find(input.name))
            a = *passed;
        else if (input.name == lengths.label)
            a.view = tensor(&all_keys_, {1});
        else
            continue;  // of one call
        all.push_back(a);
    }
    return all;
}

call_over_ranks::arguments call_over_ranks::with_keys(arguments common, std::span<const std::int32_t> positions,
                                                      bool with_sinks) const {
    for (const input_declaration& input : table_.graph.inputs) {
        if (input.name == dsl::of_shard::key_positions.label)
            common.push_back({.name = input.name, .view = tensor(positions.data(), {std::ssize(positions)})});
        if (input.name == dsl::of_shard::with_sinks.label)
            common.push_back({.name = input.name, .is = named_argument::form::integer, .integer = with_sinks});
    }
    return common;
}

void call_over_ranks::check_own_tensors(const arguments& common, const attune::options& how) {
    arguments own = with_keys(common, plan_.positions(), true);
    for (const output_declaration& output : table_.graph.outputs) {
        own.push_back({.name = output.name, .view = own_output(output)});
        if (const input_declaration* const before = before_of(table_.graph, output.name))
            own.push_back({.name = before->name, .view = nothing_before(output)});
    }
    of_own_tensors_ = attune::detail::prepare(table_, own, how);
}

const tensor& call_over_ranks::own_output(const output_declaration& output) const {
    const named_argument* const passed = find(output.name);
    if (!passed || passed->is != named_argument::form::view)
        fail(say("a tensor for the output ", output.name, " of ", table_.variant), "none",
             say("passing ", output.name, " = ..."));
    return passed->view;
}

tensor call_over_ranks::made_like(const tensor& output) {
    std::size_t elements = 1;
    for (const std::int64_t extent : output.shape()) elements *= count(extent);
    const auto& memory = held_.emplace_back(memory_of(elements * count(bytes_of(output.type()))));
    return {output.type(), static_cast<void*>(memory.get()), output.shape()};
}

tensor call_over_ranks::nothing_before(const output_declaration& output) {
    // One row for all.
    const tensor& like = own_output(output);
    std::vector<std::int64_t> strides(count(like.rank()), 0);
    const bool dense = like.rank() == 4;
    if (dense) strides.back() = 1;
    const std::size_t elements = dense ? count(like.extent(3)) : 1;
    const element_type type = dense ? like.type() : element_type::f32;  // of rows, whatever the caller passed
    const auto& memory = held_.emplace_back(memory_of(elements * count(bytes_of(type))));
    if (begins_at_minus_infinity(table_.graph, output)) {
        const float least = -std::numeric_limits<float>::infinity();
        std::memcpy(memory.get(), &least, sizeof least);
    }
    return {type, static_cast<const void*>(memory.get()), like.shape(), strides};
}

void call_over_ranks::state(statement& mine) const {
    mine.add("layout", say(plan_.hash()), "the layout that one plan<...> gave on all ranks");
    for (const input_declaration& input : table_.graph.inputs) {
        const named_argument* const passed = find(input.name);
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
}

std::unique_ptr<call_over_ranks> make_call(context& world, const layout& plan, const kernel_table& table,
                                           std::span<const named_argument> given, const attune::options& how,
                                           bool poison) {
    attune::detail::check_version(table);
    attune::options as_planned = how;
    as_planned.deterministic = plan.deterministic();
    if (plan.decodes()) return std::make_unique<tree_call>(world, plan, table, given, as_planned, poison);
    if (makes_gradients(table.graph))
        return std::make_unique<gradient_call>(world, plan, table, given, as_planned, poison);
    if (plan.of_same_heads()) return std::make_unique<heads_call>(world, plan, table, given, as_planned, poison);
    return std::make_unique<staged_call>(world, plan, table, given, as_planned, poison);
}

namespace {

/// All ranks say the same of both, so that all throw this.
void check_deterministic(const layout& plan, const attune::options& how) {
    if (attune::detail::is_deterministic(how) && !plan.deterministic())
        fail("a plan that was made with options::deterministic", "one without it",
             "plan<...>(..., attune::options{.deterministic = true})");
}

}  // namespace

traffic run(context& world, const layout& plan, const kernel_table& table, std::span<const named_argument> given,
            const attune::options& how, bool poison) {
    std::unique_ptr<call_over_ranks> call;
    world.agree(say("run of ", table.variant), [&](statement& mine) {
        call = make_call(world, plan, table, given, how, poison);
        call->check_own_values();
        call->state(mine);
        state(mine, how);
    });
    check_deterministic(plan, how);
    return world.guard([&] { return call->run(); });
}

prepared::prepared(context& in, const layout& by, const kernel_table& table, std::span<const named_argument> given,
                   const attune::options& how, bool poison)
    : world(in), name(say("run of ", table.variant)), plan(by) {
    world.agree(say("prepare of ", table.variant), [&](statement& mine) {
        call = make_call(world, plan, table, given, how, poison);
        call->state(mine);
        mpi::detail::state(mine, how);
    });
    check_deterministic(plan, how);
}

std::shared_ptr<prepared> prepare(context& world, const layout& plan, const kernel_table& table,
                                  std::span<const named_argument> given, const attune::options& how, bool poison) {
    return std::make_shared<prepared>(world, plan, table, given, how, poison);
}

traffic call(prepared& what) {
    what.world.begin(what.name);
    return what.world.guard([&] {
        what.call->check_values();
        what.call->check_own_values();
        return what.call->run();
    });
}

}  // namespace attune::mpi::detail
