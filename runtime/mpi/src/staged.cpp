#include <attune/mpi/staged.hpp>

namespace attune::mpi::detail {

staged_call::staged_call(context& world, const layout& plan, const kernel_table& table,
                         std::span<const named_argument> given, const attune::options& how, bool poison)
    : staged_keys(world, plan, table, given, poison) {
    prepare_calls(common_arguments(plan_.positions()), between_messages(how));
}

/// Where a call finds the results of those before, and where it leaves its own: the last in the caller's outputs.
void staged_call::pass_results(int call, arguments& to) {
    const int turn = (calls() - 1 - call) % 2;
    for (std::size_t o = 0; o < table_.graph.outputs.size(); ++o) {
        const output_declaration& output = table_.graph.outputs[o];
        to.push_back({.name = output.name, .view = results_[turn][o]});
        const input_declaration* const before = before_of(table_.graph, output.name);
        if (!before) continue;
        const tensor left = call == 0 ? nothing_before(output) : results_[1 - turn][o];
        to.push_back({.name = before->name, .view = left});
    }
}

void staged_call::prepare_calls(const arguments& common, const attune::options& how) {
    for (const output_declaration& output : table_.graph.outputs) {
        results_[0].push_back(own_output(output));
        results_[1].push_back(made_like(results_[0].back()));
    }
    if (!has_own_keys(0)) check_own_tensors(common, how);
    for (int call = 0; call < calls(); ++call) {
        arguments all = of_call(call, common);
        pass_results(call, all);
        calls_.push_back(attune::detail::prepare(table_, all, how));
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
        attune::detail::call(*calls_[static_cast<std::size_t>(call)]);
    }
    wait(sends);
    return done;
}

}  // namespace attune::mpi::detail
