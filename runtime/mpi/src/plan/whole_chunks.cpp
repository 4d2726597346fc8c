#include <attune/dsl/shard.hpp>
#include <attune/ir/visibility.hpp>
#include <attune/mpi/whole_chunks.hpp>

#include <algorithm>
#include <utility>

namespace attune::mpi::detail {
namespace {

using attune::detail::named_argument;

constexpr std::int64_t most_values = std::int64_t{1} << 28;  // for more, kernels do as well

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

bool is_value(const instruction& n) { return n.kind == kind::integer || n.kind == kind::condition; }

/// The value of a node of which nothing is known.
integer_interval unknown(const instruction& node) {
    return node.kind == kind::condition ? integer_interval{0, 1} : integer_interval::of_32_bits();
}

}  // namespace

whole_chunks::whole_chunks(const graph_ir& shard, const deciders& decide, const planning& of, arguments given,
                           const chunks& tokens, int first, int last)
    : graph_(shard),
      decide_(decide),
      of_(of),
      given_(given),
      first_(first),
      planes_(static_cast<int>(of.batches * of.heads)),
      step_of_node_(shard.nodes.size(), -1) {
    const node_id scores = scores_of(shard);
    if (scores < 0) return;
    const int root = add(scores);
    steps_[at(root)].asked = true;
    for (step& each : steps_)
        if (each.how == found::by_ranges)
            for (const int a : each.arguments) steps_[at(a)].asked = true;
    std::int64_t work = 0;
    for (const step& each : steps_)
        if (each.how == found::at_positions) work += (each.by_plane ? planes_ : 1) * tokens.tokens();
    if (work > most_values) return;
    for (step& each : steps_)
        if (each.how == found::at_positions && each.asked) tabulate(each, tokens, first, last);
    now_.resize(steps_.size());
    if (known_) root_ = root;
}

std::optional<int> whole_chunks::visible(int query_chunk, int key_chunk) {
    if (root_ < 0) return std::nullopt;
    int all = 0;
    for (int plane = 0; plane < planes_; ++plane) {
        for (std::size_t i = 0; i < steps_.size(); ++i) {
            const step& each = steps_[i];
            if (!each.asked) continue;
            if (each.how == found::by_ranges) {
                now_[i] = joined(each);
                continue;
            }
            const std::size_t of_plane = each.ranges.size() / at(each.by_plane ? planes_ : 1);
            const std::size_t chunk = each.of == of_queries ? at(query_chunk - first_)
                                      : each.of == of_keys  ? at(key_chunk)
                                                            : 0;
            now_[i] = each.ranges[(each.by_plane ? at(plane) * of_plane : 0) + chunk];
        }
        const integer_interval seen = now_[at(root_)];
        if (!seen.is_point()) return std::nullopt;
        all += static_cast<int>(seen.highest);
    }
    return all;
}

int whole_chunks::add(node_id number) {
    if (const int done = step_of_node_[at(number)]; done >= 0) return done;
    const instruction& node = graph_.nodes[at(number)];
    step made = is_value(node) ? value(node) : score(node);
    for (const int a : made.arguments) made.by_plane = made.by_plane || (a >= 0 && steps_[at(a)].by_plane);
    steps_.push_back(std::move(made));
    return step_of_node_[at(number)] = static_cast<int>(steps_.size()) - 1;
}

/// Whether a real is not -infinity. Where kernels cannot know, neither can this.
whole_chunks::step whole_chunks::score(const instruction& node) {
    const auto known = [&](int least, int most) {
        step made{&node, found::once};
        made.ranges.push_back({least, most});
        return made;
    };
    const visibility of = visibility_of(node);
    if (of == visibility::always) return known(1, 1);
    if (of == visibility::never) return known(0, 0);
    if (of == visibility::by_value) return known(is_known_finite(node), 1);
    step made{&node, found::by_ranges};
    for (std::size_t a = 0; a < node.argument_count; ++a) made.arguments.push_back(add(node.arguments[a]));
    return made;
}

/// Of an element that kernels are asked about as 0.
bool whole_chunks::is_known_finite(const instruction& node) const {
    if (node.op != operation::load) return false;
    const instruction& read = graph_.nodes[at(node.arguments[0])];
    std::uint8_t side = nowhere;
    for (std::size_t a = 1; a < node.argument_count; ++a) side |= side_of(node.arguments[a]);
    return read.op == operation::input && !decide_.inputs[at(read.input)] && side != of_pairs;
}

whole_chunks::step whole_chunks::value(const instruction& node) {
    step made{&node, found::at_positions};
    if (const auto number = constant(node)) {
        made.how = found::once, made.ranges.push_back({*number, *number});
        return made;
    }
    if (node.op == operation::b || node.op == operation::h) {
        made.by_plane = true;
        return made;
    }
    if (node.op == operation::load) return load(node);
    const family of = family_of(node.op);
    bool can = of == family::arithmetic || of == family::bits || of == family::comparison || of == family::logic ||
               node.op == operation::where || node.op == operation::to_integer;
    for (std::size_t a = 0; a < node.argument_count && can; ++a)
        can = is_value(graph_.nodes[at(node.arguments[a])]) &&
              (of != family::comparison || graph_.nodes[at(node.arguments[a])].kind == kind::integer);
    bool exact = can;
    for (std::size_t a = 0; a < node.argument_count && can; ++a) {
        made.arguments.push_back(add(node.arguments[a]));
        const step& argument = steps_[at(made.arguments.back())];
        made.of |= argument.of;
        exact = exact && is_exact(argument);
    }
    if (!exact || made.of == of_pairs) made.how = found::by_ranges;
    if (!can) made.how = found::once, made.ranges.push_back(unknown(node));
    return made;
}

/// Positions, or elements of a tensor that decides, read at queries or at keys.
whole_chunks::step whole_chunks::load(const instruction& node) {
    using namespace dsl::of_shard;
    step made{&node, found::at_positions}, any{&node, found::once};
    any.ranges.push_back(unknown(node));
    const instruction& tensor_read = graph_.nodes[at(node.arguments[0])];
    if (tensor_read.op != operation::input) return any;
    const input_declaration& declared = graph_.inputs[at(tensor_read.input)];
    const bool positions = declared.name == query_positions.label || declared.name == key_positions.label;
    if (!positions && !(made.read = usable(declared))) return any;
    for (std::size_t a = 1; a < node.argument_count; ++a) {
        const instruction& index = graph_.nodes[at(node.arguments[a])];
        const axis_kind axis = declared.axes[a - 1].kind;
        // The whole tensor's row is that of the position.
        if (axis == axis_kind::query || axis == axis_kind::key) {
            if (index.op != (axis == axis_kind::query ? operation::q_idx : operation::kv_idx)) return any;
            made.of |= axis == axis_kind::query ? of_queries : of_keys;
            made.arguments.push_back(-1);
            continue;
        }
        if (!is_value(index)) return any;
        made.arguments.push_back(add(node.arguments[a]));
        const step& argument = steps_[at(made.arguments.back())];
        if (!is_exact(argument)) return any;
        made.of |= argument.of;
    }
    return made.of == of_pairs ? any : made;
}

std::uint8_t whole_chunks::side_of(node_id number) const {
    const instruction& n = graph_.nodes[at(number)];
    if (n.op == operation::q_idx) return of_queries;
    if (n.op == operation::kv_idx) return of_keys;
    if (n.op == operation::contract) return of_pairs;
    std::uint8_t all = nowhere;
    for (std::size_t a = 0; a < n.argument_count; ++a) all |= side_of(n.arguments[a]);
    return all;
}

/// A tensor that is as a call needs it; others are refused when a kernel is asked.
const tensor* whole_chunks::usable(const input_declaration& declared) const {
    const auto passed = std::ranges::find(given_, declared.name, &named_argument::name);
    if (passed == given_.end() || passed->is != named_argument::form::view) return nullptr;
    const tensor& view = passed->view;
    if (view.rank() != declared.rank || view.type() != declared.element || !view.data() ||
        view.where() != memory::host || (!is_integer(view.type()) && view.type() != element_type::boolean))
        return nullptr;
    const auto whole = [&](axis_kind axis) -> std::int64_t {
        switch (axis) {
            case axis_kind::batch: return of_.batches;
            case axis_kind::head: return of_.heads;
            case axis_kind::key_head: return of_.key_heads;
            case axis_kind::query:
            case axis_kind::key:
            case axis_kind::position: return of_.tokens;
            case axis_kind::depth:
            case axis_kind::value_depth: return -1;
            case axis_kind::free: break;
        }
        return 1;
    };
    for (int a = 0; a < declared.rank; ++a) {
        const axis_kind axis = declared.axes[at(a)].kind;
        const std::int64_t extent = view.extent(a), all = whole(axis);
        const bool longer = axis == axis_kind::position || axis == axis_kind::free;
        if (all < 0 || extent < 1 || (longer ? extent < all : extent != 1 && extent != all)) return nullptr;
    }
    return &view;
}

/// The value of a number that is the same everywhere.
std::optional<std::int64_t> whole_chunks::constant(const instruction& node) const {
    using namespace dsl::of_shard;
    if (node.op == operation::constant) return node.integer;
    if (node.op == operation::load && graph_.nodes[at(node.arguments[0])].op != operation::input) return std::nullopt;
    if (node.op != operation::load && node.op != operation::scalar) return std::nullopt;
    const bool is_load = node.op == operation::load;
    const std::string_view name =
        graph_.inputs[at(is_load ? graph_.nodes[at(node.arguments[0])].input : node.input)].name;
    const auto passed = std::ranges::find(given_, name, &named_argument::name);
    const bool of_all = is_load ? name == lengths.label : name == all_queries.label || name == all_keys.label;
    if (!is_load && name == first_head.label) return 0;
    if (!is_load && name == all_heads.label) return of_.heads;
    if (!is_load && name == all_key_heads.label) return of_.key_heads;
    if (passed == given_.end()) return of_all ? std::optional(of_.tokens) : std::nullopt;
    const bool fits = integer_interval::of(passed->integer).fits();
    return !is_load && passed->is == named_argument::form::integer && fits ? std::optional(passed->integer)
                                                                           : std::nullopt;
}

integer_interval whole_chunks::joined(const step& of) const {
    const operation op = of.node->op;
    const integer_interval &a = now(of, 0), &b = of.arguments.size() > 1 ? now(of, 1) : a;
    if (op == operation::where) {
        const integer_interval& c = now(of, 2);
        if (a.lowest > 0) return b;
        return a.highest == 0 ? c : integer_interval{std::min(b.lowest, c.lowest), std::max(b.highest, c.highest)};
    }
    const visibility rule = is_value(*of.node) ? visibility::always : visibility_of(*of.node);
    if (rule == visibility::as_first) return a;
    if (rule == visibility::as_either) return intervals::most_of(a, b);
    if (rule != visibility::always) return intervals::least_of(a, b);
    if (op == operation::to_integer) return a;
    return interval_of(op, a, b).wrapped();
}

}  // namespace attune::mpi::detail
