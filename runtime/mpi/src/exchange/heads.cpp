#include <attune/mpi/heads.hpp>
#include <attune/mpi/memory.hpp>
#include <attune/mpi/rows.hpp>

#include <algorithm>
#include <cstring>

namespace attune::mpi::detail {
namespace {

std::size_t count(std::int64_t n) { return static_cast<std::size_t>(n); }

constexpr int first_in = context::parts / 2, first_out = first_in + context::parts / 4;  // keys have the parts before

void add_messages(traffic& done, const outgoing& sent, const incoming& received) {
    ++done.messages_sent, done.bytes_sent += static_cast<std::int64_t>(sent.size());
    ++done.messages_received, done.bytes_received += static_cast<std::int64_t>(received.size());
}

}  // namespace

heads_call::heads_call(context& world, const layout& plan, const kernel_table& table,
                       std::span<const named_argument> given, const attune::options& how, bool poison)
    : call_over_ranks(world, plan, table, given),
      parts_(plan.head_parts()),
      part_(plan.rank() % parts_),
      poison_(poison) {
    check_values();
    check_own_tensors(common_arguments(plan.positions()), how);
    arguments of_share;
    prepare_inputs(of_share), prepare_outputs(of_share);
    with_same_heads_ = std::make_unique<staged_call>(world, *plan.of_same_heads(), table, of_share, how, poison);
}

void heads_call::prepare_inputs(arguments& of_share) {
    const std::int64_t own = std::ssize(plan_.positions());
    for (const input_declaration& input : table_.graph.inputs) {
        const named_argument* const passed = find(input.name);
        if (!passed) continue;
        named_argument& mine = of_share.emplace_back(*passed);
        if (passed->is != named_argument::form::view) continue;
        const std::optional<int> heads =
            axis_of(input, axis_kind::head) ? axis_of(input, axis_kind::head) : axis_of(input, axis_kind::key_head);
        const role is = role_of(table_.graph, input);
        const std::optional<int> axis = axis_of(input, is == role::own_rows ? axis_kind::query : axis_kind::key);
        if (axis && passed->view.extent(*axis) == own) {  // else one for all of them
            mine.view = shared(add(in_, passed->view, *axis, heads));
        } else if (heads)
            mine.view = share_of(passed->view, *heads, part_);
    }
}

void heads_call::prepare_outputs(arguments& of_share) {
    constexpr int head_axis = 1, query_axis = 2;
    for (const output_declaration& output : table_.graph.outputs) {
        of_share.push_back({.name = output.name, .view = shared(add(out_, own_output(output), query_axis, head_axis))});
    }
}

heads_call::rows& heads_call::add(std::list<rows>& to, const tensor& own, int axis, std::optional<int> heads) {
    const int over = heads && own.extent(*heads) > 1 ? *heads : -1;
    rows& made = to.emplace_back(rows{own, axis, over, bytes_of_row(share_of(own, over, 0), axis)});
    made.shared = memory_of(made.row * plan_.of_same_heads()->positions().size());
    made.apart = memory_of(made.row * plan_.positions().size() * count(parts_));
    return made;
}

/// Of some heads. What has none, or one for all, is the same for each share.
tensor heads_call::share_of(const tensor& all, int heads, int share) const {
    if (heads < 0 || all.extent(heads) == 1) return all;
    const std::int64_t each = all.extent(heads) / parts_;
    return rows_of(all, heads, share * each, each);
}

tensor heads_call::shared(const rows& of) const {
    return of_rows(share_of(of.own, of.heads, part_), of.axis, std::ssize(plan_.of_same_heads()->positions()),
                   of.shared.get());
}

tensor heads_call::apart(const rows& of, int share) const {
    const std::size_t own = plan_.positions().size();
    return of_rows(share_of(of.own, of.heads, share), of.axis, static_cast<std::int64_t>(own),
                   of.apart.get() + count(share) * own * of.row);
}

void heads_call::gather(traffic& done) {
    std::vector<request> open;
    const std::int64_t own = std::ssize(plan_.positions());
    for (int part = first_in; const rows& each : in_) {
        const tensor all = shared(each);
        if (poison_) std::memset(each.shared.get(), 0xff, count(all.extent(each.axis)) * each.row);
        for (int m = 0; m < parts_; ++m) {
            const run_of_keys& member = plan_.group()[count(m)];
            const tensor mine = share_of(each.own, each.heads, m);
            if (m == part_) {
                copy(mine, rows_of(all, each.axis, member.first, member.count));
                continue;
            }
            copy(mine, apart(each, m));
            const outgoing to = sent_rows(apart(each, m), each.axis, 0, own, each.apart);
            const incoming from = received_rows(all, each.axis, member.first, member.count, each.shared);
            open.push_back(world_.receive(from, member.rank, part, "rows of some heads"));
            open.push_back(world_.send(to, member.rank, part, "rows of some heads"));
            add_messages(done, to, from);
        }
        ++part;
    }
    for (const request each : open) world_.wait(each);
}

void heads_call::scatter(traffic& done) {
    std::vector<request> open;
    const std::int64_t own = std::ssize(plan_.positions());
    for (int part = first_out; const rows& each : out_) {
        for (int m = 0; m < parts_; ++m) {
            const run_of_keys& member = plan_.group()[count(m)];
            if (m == part_) continue;
            const outgoing to = sent_rows(shared(each), each.axis, member.first, member.count, each.shared);
            const incoming from = received_rows(apart(each, m), each.axis, 0, own, each.apart);
            if (poison_) std::ranges::fill(from.bytes, std::byte{0xff});
            open.push_back(world_.receive(from, member.rank, part, "results of some heads"));
            open.push_back(world_.send(to, member.rank, part, "results of some heads"));
            add_messages(done, to, from);
        }
        ++part;
    }
    for (const request each : open) world_.wait(each);
    for (const rows& each : out_)
        for (int m = 0; m < parts_; ++m) {
            const run_of_keys& member = plan_.group()[count(m)];
            copy(m == part_ ? rows_of(shared(each), each.axis, member.first, member.count) : apart(each, m),
                 share_of(each.own, each.heads, m));
        }
}

traffic heads_call::run() {
    traffic done;
    gather(done);
    const traffic of_keys = with_same_heads_->run();
    scatter(done);
    done.bytes_sent += of_keys.bytes_sent, done.bytes_received += of_keys.bytes_received;
    done.messages_sent += of_keys.messages_sent, done.messages_received += of_keys.messages_received;
    return done;
}

}  // namespace attune::mpi::detail
