#include <attune/mpi/rows.hpp>
#include <attune/mpi/staged.hpp>

#include <algorithm>

namespace attune::mpi::detail {

staged_call::staged_call(context& world, const layout& plan, const kernel_table& table,
                         std::span<const named_argument> given, const attune::options& how, bool poison)
    : staged_keys(world, plan, table, given, poison) {
    prepare_calls(common_arguments(plan_.positions()), between_messages(how));
}

bool staged_call::sees(const rows& some, int call) const {
    if (has_own_keys(call) || plan_.deterministic()) return true;
    const stage& of = stage_of(call);
    return of.first_query <= some.first && some.first + some.count <= of.first_query + of.queries;
}

std::vector<staged_call::rows> staged_call::rows_alike() const {
    std::vector<std::int64_t> ends{0, std::ssize(plan_.positions())};
    for (int call = 0; call < calls() && !plan_.deterministic(); ++call)
        if (!has_own_keys(call))
            for (const std::int64_t end :
                 {stage_of(call).first_query, stage_of(call).first_query + stage_of(call).queries})
                ends.push_back(end);
    std::ranges::sort(ends);
    std::vector<rows> all;
    for (std::size_t i = 1; i < ends.size(); ++i)
        if (ends[i] > ends[i - 1] || (all.empty() && ends.back() == 0))
            all.push_back({ends[i - 1], ends[i] - ends[i - 1]});
    for (rows& each : all)
        for (int call = 0; call < calls(); ++call) each.calls += sees(each, call);
    return all;
}

/// Where a call finds the results of those before, and where it leaves its own.
void staged_call::pass_results(const rows& some, arguments& to) const {
    constexpr int query_axis = 2;
    const auto cut = [&](const tensor& all) { return rows_of(all, query_axis, some.first, some.count); };
    for (std::size_t o = 0; o < table_.graph.outputs.size(); ++o) {
        const output_declaration& output = table_.graph.outputs[o];
        to.push_back({.name = output.name, .view = cut(results_[some.place()][o])});
        if (const input_declaration* const before = before_of(table_.graph, output.name))
            to.push_back(
                {.name = before->name, .view = cut(some.done == 0 ? nothing_[o] : results_[1 - some.place()][o])});
    }
}

staged_call::arguments staged_call::of_rows_alone(arguments all, const rows& some) const {
    for (named_argument& each : all) {
        const auto input = std::ranges::find(table_.graph.inputs, each.name, &input_declaration::name);
        if (each.is != named_argument::form::view) continue;
        if (const auto axis = axis_of(*input, axis_kind::query); axis && each.view.extent(*axis) != 1)
            each.view = rows_of(each.view, *axis, some.first, some.count);
    }
    return all;
}

void staged_call::prepare_calls(const arguments& common, const attune::options& how) {
    check_own_tensors(common, how);
    for (const output_declaration& output : table_.graph.outputs) {
        results_[0].push_back(own_output(output));
        results_[1].push_back(made_like(results_[0].back()));
        nothing_.push_back(nothing_before(output));
    }
    std::vector<rows> all = rows_alike();
    for (int call = 0; call < calls(); ++call) {
        const arguments of_stage = of_call(call, common);
        calls_.emplace_back();
        for (std::size_t i = 0; i < all.size();) {
            rows some = all[i];
            // Neighbours whose results lie alike are one call.
            const auto alike = [&](const rows& each) {
                return sees(each, call) && each.place() == some.place() && (each.done == 0) == (some.done == 0);
            };
            if (!sees(some, call)) {
                ++i;
                continue;
            }
            for (some.count = 0; i < all.size() && alike(all[i]); ++i) some.count += all[i].count, ++all[i].done;
            arguments of_some = of_rows_alone(of_stage, some);
            pass_results(some, of_some);
            calls_.back().push_back(attune::detail::prepare(table_, of_some, how));
        }
    }
}

traffic staged_call::run() {
    traffic done;
    const std::vector<request> sends = post_sends(done);
    std::vector<request> coming = post_receives(done, 0);
    for (int call = 0; call < calls(); ++call) {
        if (!has_own_keys(call)) {
            wait(coming);
            coming = post_receives(done, call + 1);
        }
        for (const auto& of_some : calls_[static_cast<std::size_t>(call)]) attune::detail::call(*of_some);
    }
    wait(sends);
    return done;
}

}  // namespace attune::mpi::detail
