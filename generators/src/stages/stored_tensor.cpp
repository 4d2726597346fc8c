#include "stages/stored_tensor.hpp"

#include "expr/math.hpp"
#include "stages/kept_number.hpp"

#include <attune/ir/stores.hpp>

#include <array>
#include <map>

namespace attune::generators::inline stages {
using namespace Halide;

namespace {

/// A number as an element of a tensor.
Expr element_of(element_type element, const Type& type, const quantity& x) {
    if (x.value.type().is_bool()) return cast(type, x.value);
    const Expr number = x.masked.defined() ? or_negative_infinity(!x.masked, x.value) : x.value;
    const bool e4m3 = element == element_type::f8_e4m3;
    return e4m3 || element == element_type::f8_e5m2 ? to_f8(e4m3, number) : stored_as(type, number);
}

std::vector<int> arguments_of(const instruction& node) {
    return {node.arguments.begin(), node.arguments.begin() + node.argument_count};
}

/// Numbers that all channels of a row share, each computed once a row.
class shared_by_channels {
public:
    using row = std::array<Expr, 3>;  ///< query, key head, batch
    shared_by_channels(const kernel_frame& frame, int lanes) : f_(frame), lanes_(lanes) {}

    /// The place of a row, at which the shared numbers under the roots are known.
    place at(const std::vector<int>& roots, const row& of) {
        place here{of[2], clamp(of[1] * f_.group(), 0, f_.inputs.heads - 1), of[0], 0, f_.inputs.key_length};
        for (const int n : f_.request.on_gpu() ? sums_under(roots) : hoistable(f_.graph(), f_.depends, roots, {}))
            here.known.emplace(n, number(n, of));
        return here;
    }
    std::vector<Func> all;  ///< (query, key head, batch)
    std::vector<stored_tensor::made_store::lanes> by_lanes;

private:
    /// On a GPU sums alone are shared, since threads would wait for each number: all else takes each a few
    /// instructions.
    std::vector<int> sums_under(const std::vector<int>& roots) const {
        const std::vector<bool> reached = under(f_.graph(), roots);
        std::vector<int> sums;
        for (int n = 0; n < static_cast<int>(reached.size()); ++n)
            if (reached[n] && family_of(f_.node(n).op) == family::sums && !f_.depends[n].channel &&
                !f_.depends[n].bound)
                sums.push_back(n);
        return sums;
    }
    /// The largest element of a row of whole vectors, in lanes: a maximum depends on no order. Undefined for other
    /// nodes.
    quantity largest_by_lanes(int n, const place& here) {
        const instruction& it = f_.node(n);
        if (it.op != operation::largest || it.kind != kind::real) return {};
        const auto extent = as_const_int(simplify(f_.evaluate(it.arguments[1], here).value));
        if (!extent || *extent <= 0 || *extent % lanes_ != 0) return {};
        // Algorithm
        const RDom steps(0, static_cast<int>(*extent) / lanes_, "steps");
        const Var lane("lane");
        place within = here;
        within.indices[static_cast<int>(f_.node(it.arguments[0]).integer)] = steps.x * lanes_ + lane;
        const quantity x = f_.evaluate(it.arguments[2], within);
        Func largest_lanes("largest_lanes");
        const Expr none = cast<std::uint32_t>(0), order = in_order(x.value);
        largest_lanes(lane, f_.q, f_.h, f_.b) = none;
        largest_lanes(lane, f_.q, f_.h, f_.b) =
            max(largest_lanes(lane, f_.q, f_.h, f_.b), x.masked.defined() ? select(x.masked, none, order) : order);
        std::vector<Expr> each;
        for (int i = 0; i < lanes_; ++i) each.emplace_back(largest_lanes(i, f_.q, f_.h, f_.b));
        for (; each.size() > 1; each.resize((each.size() + 1) / 2))
            for (std::size_t i = 0, half = (each.size() + 1) / 2; i + half < each.size(); ++i)
                each[i] = max(each[i], each[i + half]);
        by_lanes.push_back({largest_lanes, lane, steps.x});
        return {select(each[0] == none, 0.0f, from_order(each[0])), each[0] == none};
    }

    quantity number(int n, const row& of) {
        const auto [found, is_new] = known_.try_emplace(n);
        if (is_new) {
            // Algorithm
            const place here = at(arguments_of(f_.node(n)), {f_.q, f_.h, f_.b});
            quantity x = largest_by_lanes(n, here);
            if (!x.value.defined()) x = f_.evaluate(n, here);
            found->second = {Func("shared_" + std::to_string(n)), x.value.type().is_bool(), x.masked.defined()};
            found->second.of(f_.q, f_.h, f_.b) =
                Tuple(x.value.type().is_bool() ? cast(flag_of_rows(f_.request), x.value) : x.value,
                      cast(flag_of_rows(f_.request), x.masked.defined() ? x.masked : Internal::const_false()));
            all.push_back(found->second.of);
        }
        const kept& its = known_.at(n);
        const FuncRef made = its.of(of[0], of[1], of[2]);
        const Expr zero = cast(flag_of_rows(f_.request), 0);
        return {its.is_condition ? made[0] != zero : Expr(made[0]), its.may_be_masked ? made[1] != zero : Expr()};
    }

    struct kept {
        Func of;
        bool is_condition, may_be_masked;
    };
    const kernel_frame& f_;
    const int lanes_;
    std::map<int, kept> known_;
};

}  // namespace

stored_tensor::stored_tensor(const kernel_frame& f, int input, int lanes)
    : result("stored_" + std::to_string(input)), input(input) {
    // Algorithm
    const ImageParam& tensor = f.inputs.tensor(input);
    std::vector<Var> axes;
    for (int axis = 0; axis < tensor.dimensions(); ++axis) axes.emplace_back("axis_" + std::to_string(axis));
    result(axes) = undef(tensor.type());
    for (const store_declaration& each : f.graph().stores)
        if (tensor_of(f.graph().nodes, each) == input) add(f, each, lanes);
}

void stored_tensor::add(const kernel_frame& f, const store_declaration& store, int lanes) {
    // Algorithm
    const dependence &place_varies = f.depends[store.element], &value_varies = f.depends[store.value];
    const auto count = [](bool varies, const Expr& extent) { return varies ? extent : Expr(1); };
    RDom rows({{0, count(place_varies.head || value_varies.head, f.inputs.key_heads)},
               {0, count(place_varies.query || value_varies.query, f.inputs.query_length)},
               {0, count(place_varies.batch || value_varies.batch, f.inputs.batches)}},
              "rows");
    const int axis = channel_axis(f.graph().nodes, store);
    made_store made{rows, axis < 0 ? -1 : result.dimensions() - 1 - axis, {}, {}, {}};
    std::vector<int> roots = arguments_of(f.node(store.element));
    const stored_value written = value_of(f.graph().nodes, store);
    roots.push_back(written.value);
    if (written.has_condition()) roots.push_back(written.condition);
    shared_by_channels shared(f, lanes);
    place at = shared.at(roots, {rows.y, rows.x, rows.z});
    if (made.channels >= 0) at.d = result.args()[static_cast<std::size_t>(made.channels)];
    pointwise of(f.request, f.inputs, at);
    std::vector<Expr> to = of.place_of(store.element);
    if (made.channels >= 0) to[static_cast<std::size_t>(made.channels)] = at.d;  // every channel is within the row
    const element_type element = f.graph().inputs[static_cast<std::size_t>(input)].element;
    if (f.request.on_gpu()) {
        // Indices in a GPU's memory are not checked before the call: a row without a place is left out. One number
        // says so for all threads.
        const bool by_row = written.has_condition() && !f.depends[written.condition].channel;
        pointwise of_row(f.request, f.inputs, shared.at(roots, {f.q, f.h, f.b}));
        Expr stores = of_row.is_inside(store.element);
        if (by_row) stores = stores && of_row.is_inside(written.condition) && of_row(written.condition).value;
        Func placed("placed");
        placed(f.q, f.h, f.b) = cast(flag_of_rows(f.request), stores);
        shared.all.push_back(placed);
        rows.where(placed(rows.y, rows.x, rows.z) != cast(flag_of_rows(f.request), 0));
        if (written.has_condition() && !by_row)
            rows.where(of.is_inside(written.condition) && of(written.condition).value);
    } else if (written.has_condition()) {
        rows.where(of(written.condition).value);
    }
    result(to) = element_of(element, f.inputs.tensor(input).type(), of(written.value));
    made.shared = shared.all, made.by_lanes = shared.by_lanes;
    made.elements = rows.x.extent() * rows.y.extent() * rows.z.extent();
    if (made.channels >= 0) made.elements = made.elements * f.inputs.tensor(input).dim(made.channels).extent();
    stores.push_back(made);
}

}  // namespace attune::generators::inline stages
