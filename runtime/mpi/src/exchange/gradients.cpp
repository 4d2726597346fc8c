#include "mpi/src/transport/elements.hpp"

#include <attune/mpi/gradients.hpp>
#include <attune/mpi/memory.hpp>
#include <attune/mpi/rows.hpp>

#include <algorithm>
#include <cstring>

namespace attune::mpi::detail {
namespace {

std::size_t count(std::int64_t n) { return static_cast<std::size_t>(n); }

constexpr std::string_view of_others = "gradients of keys";
constexpr int first_part = context::parts / 2;               // keys have the parts before
constexpr std::size_t most_gathered = std::size_t{1} << 24;  // bytes of all ranks at a time

}  // namespace

gradient_call::gradient_call(context& world, const layout& plan, const kernel_table& table,
                             std::span<const named_argument> given, const attune::options& how, bool poison)
    : staged_keys(world, plan, table, given, poison) {
    find_derivatives();
    prepare_calls(common_arguments(plan_.positions()), between_messages(how));
}

void gradient_call::find_derivatives() {
    for (const output_declaration& output : table_.graph.outputs) {
        const input_declaration& input = tensor_of_gradient(table_.graph, output);
        derivative& each = derivatives_.emplace_back(
            derivative{.declared = &output, .of = role_of(table_.graph, input), .own = own_output(output), .axis = 0});
        if (each.own.rank() != input.rank) continue;  // refused when the calls are prepared
        if (each.of == role::own_rows) each.axis = *axis_of(input, axis_kind::query);
        if (each.of == role::travels) each.axis = *axis_of(input, axis_kind::key);
    }
}

void gradient_call::prepare_calls(const arguments& common, const attune::options& how) {
    check_own_tensors(common, how);
    for (derivative& each : derivatives_) {
        std::int64_t longest[2]{};
        for (int call = 0; call < calls(); ++call) longest[call % 2] = std::max(longest[call % 2], rows_of(call, each));
        const std::size_t row = bytes_of_row(each.own, each.axis);
        for (const int turn : {0, 1}) each.made[turn] = memory_of(count(longest[turn]) * row);
        each.sum.resize(count(each.own.extent(each.axis)) * row / count(bytes_of(each.own.type())));
    }
    for (int call = 0; call < calls(); ++call) {
        arguments all = of_call(call, common);
        for (const derivative& each : derivatives_)
            all.push_back({.name = each.declared->name, .view = made_by(call, each)});
        calls_.push_back(attune::detail::prepare(table_, all, how));
    }
}

std::int64_t gradient_call::rows_of(int call, const derivative& each) const {
    return each.of == role::travels ? std::ssize(keys_of(call)) : each.own.extent(each.axis);
}

tensor gradient_call::made_by(int call, const derivative& each) const {
    return of_rows(each.own, each.axis, rows_of(call, each), each.made[call % 2].get());
}

/// The most stages of any rank that this one receives of, or sends to.
int gradient_call::stages_of_all() const {
    int most = static_cast<int>(exchange_.stages.size());
    for (const auto& [stage, run] : exchange_.sends) most = std::max(most, stage + 1);
    return most;
}

int gradient_call::part_of(int stage, const derivative& each) const {
    return first_part + stage * static_cast<int>(derivatives_.size()) + static_cast<int>(&each - derivatives_.data());
}

void gradient_call::derivative::add(const tensor& part, std::int64_t first) {
    const auto rows = count(part.extent(axis)), all = count(own.extent(axis));
    std::size_t inside = 1, outside = 1;
    for (int a = 0; a < own.rank(); ++a)
        if (a != axis) (a < axis ? outside : inside) *= count(own.extent(a));
    with_type(own.type(), [&]<class Element>(Element) {
        const auto* from = static_cast<const Element*>(part.data());
        for (std::size_t plane = 0; plane < outside; ++plane) {
            float* const to = sum.data() + (plane * all + count(first)) * inside;
            for (std::size_t i = 0; i < rows * inside; ++i) to[i] += static_cast<float>(*from++);
        }
    });
}

/// The gradients that a call made for this rank's own keys.
void gradient_call::add_own(int call) {
    for (derivative& each : derivatives_)
        if (each.of != role::travels || has_own_keys(call)) each.add(made_by(call, each), 0);
}

std::vector<request> gradient_call::send_back(traffic& done, int call) {
    std::vector<request> open;
    if (has_own_keys(call)) return open;
    for (const derivative& each : derivatives_) {
        if (each.of != role::travels) continue;
        std::int64_t first = 0;
        for (const run_of_keys& run : stage_of(call).runs) {
            const outgoing rows = sent_rows(made_by(call, each), each.axis, first, run.count, each.made[call % 2]);
            open.push_back(world_.send(rows, run.rank, part_of(steps_[count(call)], each), of_others));
            ++done.messages_sent, done.bytes_sent += static_cast<std::int64_t>(rows.size());
            first += run.count;
        }
    }
    return open;
}

std::vector<gradient_call::returned> gradient_call::post_returns(traffic& done, int stage) {
    std::vector<returned> open;
    for (derivative& each : derivatives_) {
        if (each.of != role::travels) continue;
        for (const auto& [of, run] : exchange_.sends) {
            if (of != stage) continue;
            const std::size_t bytes = count(run.count) * bytes_of_row(each.own, each.axis);
            returned& made = open.emplace_back(returned{&each, run, memory_of(bytes), {}});
            const std::span<std::byte> rows(made.memory.get(), bytes);
            if (poison_) std::ranges::fill(rows, std::byte{0xff});
            made.asked = world_.receive({rows, made.memory}, run.rank, part_of(stage, each), of_others);
            ++done.messages_received, done.bytes_received += std::ssize(rows);
        }
    }
    return open;
}

void gradient_call::add(std::span<const returned> all) {
    for (const returned& each : all) {
        world_.wait(each.asked);
        derivative& to = *each.to;
        to.add(of_rows(to.own, to.axis, each.rows.count, each.memory.get()), each.rows.first);
    }
}

/// For inputs that every rank has whole: adds the parts of all ranks, in their order, so all get the same bits.
void gradient_call::add_up_whole(derivative& each) {
    const auto ranks = count(world_.size());
    const std::size_t most = std::max<std::size_t>(1, most_gathered / sizeof(float) / ranks);
    for (std::size_t first = 0; first < each.sum.size(); first += most) {
        const std::span<float> part = std::span(each.sum).subspan(first, std::min(most, each.sum.size() - first));
        const std::vector<std::byte> all = world_.gather(std::as_bytes(part), "gradients of what all ranks have");
        std::ranges::fill(part, 0.0f);
        for (std::size_t r = 0; r < ranks; ++r)
            for (std::size_t i = 0; i < part.size(); ++i) {
                float of_rank;
                std::memcpy(&of_rank, all.data() + (r * part.size() + i) * sizeof of_rank, sizeof of_rank);
                part[i] += of_rank;
            }
    }
}

/// A rank waits only for earlier stages of others, so no ranks wait in a circle.
traffic gradient_call::run() {
    traffic done;
    for (derivative& each : derivatives_) std::ranges::fill(each.sum, 0.0f);
    const std::vector<request> sends = post_sends(done);
    std::vector<request> coming = post_receives(done, 0), going[2];
    std::vector<returned> returns, later;
    const int last = std::max(calls(), 1 + stages_of_all());
    for (int call = 0; call < last; ++call) {
        if (call > 0) later = post_returns(done, call - 1);
        if (call < calls()) {
            wait(going[call % 2]);  // before the kernel writes there again
            if (!has_own_keys(call)) {
                wait(coming);
                coming = post_receives(done, call + 1);
            }
            attune::detail::call(*calls_[count(call)]);
            add_own(call);
            going[call % 2] = send_back(done, call);
        }
        add(returns);
        returns = std::move(later), later.clear();
    }
    add(returns);
    for (const auto& each : going) wait(each);
    wait(sends);
    for (derivative& each : derivatives_)
        if (each.of == role::whole && world_.size() > 1) add_up_whole(each);
    for (const derivative& each : derivatives_) give(each.sum.data(), each.own);
    return done;
}

}  // namespace attune::mpi::detail
