#include "call/run/parts.hpp"
#include "base/text.hpp"
#include "call/run/packed.hpp"
#include "call/shape/axis_use.hpp"
#include "call/shape/view_part.hpp"

#include <attune/ir/stores.hpp>
#include <attune/runtime/error.hpp>

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace attune::detail {
namespace {

constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();

/// What a whole call may reach, in elements, and how many parts it may have: more is a mistake in the strides.
constexpr std::int64_t farthest = std::int64_t{1} << 35, most_parts = 4096;

/// Whether a view's steps lie within so many elements, along each axis and together.
bool is_within(const tensor& t, std::int64_t elements = most) {
    if (t.empty()) return true;
    std::int64_t reach = 1;
    for (int axis = 0; axis < t.rank(); ++axis) {
        const std::int64_t extent = t.extent(axis), step = t.stride(axis);
        if (extent <= 1) continue;
        if (extent > most || step > elements || step < -elements || std::abs(step) > elements / extent) return false;
        reach += (extent - 1) * std::abs(step);
    }
    return reach <= elements;
}

bool is_head(axis_kind axis) { return axis == axis_kind::head || axis == axis_kind::key_head; }

/// Whether a formula is about one head at a time: it reads axes of heads at h, and uses neither h nor the number of
/// heads otherwise. Then some of them can be a call of their own, which counts from 0.
bool has_heads_apart(const graph_ir& graph) {
    for (const output_declaration& output : graph.outputs)
        if (kind_of(graph, output) == kind::precomputed ||
            std::ranges::none_of(axes_of_output(graph, output).view(), is_head))
            return false;
    for (const instruction& n : graph.nodes)
        if (n.op == operation::heads || n.op == operation::key_heads || n.op == operation::keep ||
            n.op == operation::tokens || n.kind == kind::precomputed || (states_length(n) && n.argument_count > 2) ||
            (n.op == operation::load && node_of(graph, n.arguments[0]).input < 0))  // of what the kernel makes
            return false;
    return use_of_axes(graph, operation::h, is_head) == axis_use::apart;
}

/// A tensor of the call, and its axes of the batch and of heads. A tensor that is written does not broadcast.
struct placed {
    const named_argument* given;
    bool is_written;
    int batch = -1, head = -1, key_head = -1;
};

class division {
public:
    division(const graph_ir& graph, std::span<const named_argument> arguments, const matched_arguments& whole)
        : arguments_(arguments) {
        const auto add = [&](const named_argument* given, std::span<const axis_kind> axes, bool is_written) {
            placed& made = tensors_.emplace_back(placed{given, is_written});
            for (std::size_t i = 0; i < axes.size(); ++i) {
                if (axes[i] == axis_kind::batch) made.batch = static_cast<int>(i);
                if (axes[i] == axis_kind::head) made.head = static_cast<int>(i);
                if (axes[i] == axis_kind::key_head) made.key_head = static_cast<int>(i);
            }
            fits_rank_ = fits_rank_ && given->view.rank() == static_cast<int>(axes.size());
        };
        for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
            const input_declaration& d = graph.inputs[i];
            std::array<axis_kind, max_rank> kinds{};
            for (std::size_t axis = 0; axis < d.rank; ++axis) kinds[axis] = d.axes[axis].kind;
            if (!d.is_scalar) add(whole.inputs[i], std::span(kinds).first(d.rank), is_stored(graph, i));
        }
        static constexpr axis_kind of_lengths[] = {axis_kind::batch};
        if (whole.kv_lengths) add(whole.kv_lengths, of_lengths, false);
        for (std::size_t i = 0; i < graph.outputs.size(); ++i)
            if (whole.outputs[i]) add(whole.outputs[i], axes_of_output(graph, graph.outputs[i]).view(), true);
        for (const placed& each : tensors_) {
            batches_ = std::max(batches_, extent(each, each.batch)), heads_ = std::max(heads_, extent(each, each.head));
            key_heads_ = std::max(key_heads_, extent(each, each.key_head));
        }
        heads_ = std::max(heads_, key_heads_);
        // All read the same keys, or none that differ by head.
        if (key_heads_ == 1 && !writes_of_key_heads()) key_heads_ = heads_;
    }

    bool is_needed() const {
        return std::ranges::any_of(tensors_, [](const placed& each) { return !is_within(each.given->view); });
    }

    /// Finds how many batch elements and key heads a part has; false where no part would do.
    bool find(const graph_ir& graph) {
        if (!fits_rank_ || heads_ % key_heads_ != 0 || needs_whole_batch(graph) ||
            !std::ranges::all_of(tensors_, [&](const placed& each) {
                const auto is = [&](int axis, std::int64_t of) {
                    const std::int64_t own = extent(each, axis);
                    return axis < 0 || (own == 1 && !each.is_written) || own == of;
                };
                return each.given->view.where() == memory::host && is_within(each.given->view, farthest) &&
                       is(each.batch, batches_) && is(each.head, heads_) && is(each.key_head, key_heads_);
            }))
            return false;
        of_batch_ = largest(batches_, [&](std::int64_t count) { return fits(count, heads_); });
        of_heads_ = heads_;
        if (of_batch_ == 0 && has_heads_apart(graph)) of_batch_ = 1, of_heads_ = largest_heads();
        return of_batch_ > 0 && of_heads_ > 0 &&
               (batches_ + of_batch_ - 1) / of_batch_ * ((heads_ + of_heads_ - 1) / of_heads_) <= most_parts;
    }

    /// `with(arguments, first_batch, first_head)` for each part.
    template <class With> void each_part(With with) const {
        for (std::int64_t b = 0; b < batches_; b += of_batch_)
            for (std::int64_t h = 0; h < heads_; h += of_heads_) {
                std::vector<named_argument> all(arguments_.begin(), arguments_.end());
                for (const placed& each : tensors_)
                    all[static_cast<std::size_t>(each.given - arguments_.data())].view =
                        part(each, b, std::min(of_batch_, batches_ - b), h, std::min(of_heads_, heads_ - h));
                with(std::move(all), b, h);
            }
    }

private:
    static std::int64_t extent(const placed& t, int axis) { return axis < 0 ? 1 : t.given->view.extent(axis); }

    /// The largest number up to `of` for which `does` holds; 0: none.
    template <class Does> static std::int64_t largest(std::int64_t of, Does does) {
        std::int64_t none = 0, some = of + 1;  // `does` holds for the first, or it is 0, and not for the last
        while (some - none > 1) {
            const std::int64_t middle = none + (some - none) / 2;
            (does(middle) ? none : some) = middle;
        }
        return none;
    }

    bool fits(std::int64_t batches, std::int64_t heads) const {
        return std::ranges::all_of(tensors_, [&](const placed& t) { return is_within(part(t, 0, batches, 0, heads)); });
    }

    /// Whether a tensor that is written has key heads, as the gradient of keys has: all query heads of a key head make
    /// it together.
    bool writes_of_key_heads() const {
        return std::ranges::any_of(tensors_, [](const placed& t) { return t.is_written && t.key_head >= 0; });
    }

    /// Query heads of a part: those of some key heads; else an equal share of one key head's.
    std::int64_t largest_heads() const {
        const std::int64_t group = heads_ / key_heads_;
        if (const std::int64_t count = largest(key_heads_, [&](std::int64_t n) { return fits(1, n * group); });
            count > 0)
            return count * group;
        if (writes_of_key_heads()) return 0;
        for (std::int64_t count = group - 1; count > 0; --count)
            if (group % count == 0 && fits(1, count)) return count;
        return 0;
    }

    tensor part(const placed& t, std::int64_t batch, std::int64_t batches, std::int64_t head,
                std::int64_t heads) const {
        view_part made(t.given->view);
        const auto cut = [&](int axis, std::int64_t first, std::int64_t count) {
            if (axis >= 0 && t.given->view.extent(axis) != 1) made.cut(axis, first, count);
        };
        const std::int64_t group = heads_ / key_heads_;
        cut(t.batch, batch, batches), cut(t.head, head, heads);
        cut(t.key_head, head / group, std::max<std::int64_t>(heads / group, 1));
        return made.view();
    }

    std::span<const named_argument> arguments_;
    std::vector<placed> tensors_;
    bool fits_rank_ = true;
    std::int64_t batches_ = 1, heads_ = 1, key_heads_ = 1, of_batch_ = 0, of_heads_ = 0;
};

}  // namespace

std::unique_ptr<parted_call> parted_call::of(const kernel_table& table, std::span<const named_argument> arguments,
                                             const options& how, bound_call::outputs wanted, bool explain) {
    const auto is_view = [](const named_argument& each) { return each.is == named_argument::form::view; };
    if (std::ranges::all_of(arguments,
                            [&](const named_argument& each) { return !is_view(each) || is_within(each.view); }))
        return {};
    if (std::ranges::any_of(arguments, [&](const named_argument& each) {
            return is_view(each) && each.view.where() == memory::opencl;  // a part of it has no address
        }))
        return {};
    const matched_arguments whole =
        match(table, arguments, wanted == bound_call::outputs::needed, *std::pmr::get_default_resource());
    division parts(table.graph, arguments, whole);
    if (whole.cu_seqlens_q || !parts.is_needed() || !parts.find(table.graph)) return {};
    auto made = std::make_unique<parted_call>();
    parts.each_part([&](std::vector<named_argument> some, std::int64_t first_batch, std::int64_t first_head) {
        part& each = made->parts_.emplace_back(std::move(some), first_batch, first_head);
        each.call.emplace(table, each.arguments, how, wanted, explain, first_batch);
    });
    check_apart(table.graph, whole);
    return made;
}

void parted_call::check_values() const {
    for (const part& each : parts_) each.call->check_values();
}

block_map parted_call::blocks() {
    block_map all;
    for (part& last = parts_.back(); part& each : parts_) {
        const block_map some = each.call->blocks();
        const std::size_t of_head = static_cast<std::size_t>(some.query_blocks) * some.key_blocks;
        if (&each == &parts_.front()) {
            all = some;
            all.batches = static_cast<int>(last.batch + last.call->shape()[axis_kind::batch]);
            all.heads = static_cast<int>(last.head + last.call->shape()[axis_kind::head]);
            const std::int64_t shape[] = {all.batches, all.heads, all.query_blocks, all.key_blocks};
            if (std::int64_t{all.batches} * all.heads >
                most / std::max<std::int64_t>(some.query_blocks * std::int64_t{some.key_blocks}, 1))
                fail(say("at most ", most, " blocks"), list_of(shape), "asking for fewer batch elements or heads");
            all.blocks.assign(static_cast<std::size_t>(all.batches) * all.heads * of_head, 0);
        }
        for (std::int64_t b = 0; b < some.batches; ++b)
            std::copy_n(
                some.blocks.begin() + b * some.heads * static_cast<std::ptrdiff_t>(of_head),
                static_cast<std::size_t>(some.heads) * of_head,
                all.blocks.begin() + ((each.batch + b) * all.heads + each.head) * static_cast<std::ptrdiff_t>(of_head));
    }
    return all;
}

void parted_call::run(int threads) const {
    std::vector<const bound_call*> calls;
    for (const part& each : parts_) calls.push_back(&*each.call);
    bound_call::run_all(calls, threads);
}

}  // namespace attune::detail
