#include "cut_gradient.hpp"

#include <attune/dsl/sharding.hpp>
#include <attune/ir/gradient_outputs.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace attune::testing {

gradient_of_drawn gradient_of(const drawn_graph& forward, const std::vector<std::string_view>& of) {
    using namespace dsl::detail;
    const ir_builder list = forward.list(), whole = differentiation(list).run(of, {});
    if (!whole.sound()) return {};
    const ir_builder shard = differentiation(sharding(list).of_parts()).run(of, {});
    return {drawn_graph::made_of(whole, forward.fingerprint), drawn_graph::made_of(shard, forward.fingerprint),
            shard.sound()};
}

whole_gradient::whole_gradient(whole_call& forward, const graph_ir& gradient, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (const input_declaration& d : gradient.inputs) {
        if (std::ranges::find(forward.graph.inputs, d.name, &input_declaration::name) != forward.graph.inputs.end())
            continue;
        const auto is_it = [&](const reference::array& each) {
            return each.name == d.name || "d" + each.name == d.name;
        };
        const reference::array& like = *std::ranges::find_if(forward.expected.outputs, is_it);
        std::vector<float>& memory = held_.emplace_back();
        for (const double saved : like.values)
            memory.push_back(like.name == d.name ? static_cast<float>(saved) : normal(random));
        forward.arguments.push_back({d.name, tensor(memory.data(), like.shape)});
    }
    expected = reference::evaluate(gradient, forward.arguments, forward.how);
}

namespace {

/// Adds a call's part of one gradient to where the whole has it.
void add(const reference::array& part, const input_declaration& of, const positions& queries, const positions& keys,
         const some_heads& heads, reference::array& to) {
    for (std::size_t element = 0; element < part.values.size(); ++element) {
        std::size_t rest = element, at = 0, step = 1;
        for (std::size_t a = part.shape.size(); a-- > 0;) {
            std::size_t i = rest % static_cast<std::size_t>(part.shape[a]);
            rest /= static_cast<std::size_t>(part.shape[a]);
            const axis_kind over = of.axes[a].kind;
            if (over == axis_kind::query || over == axis_kind::key)
                i = static_cast<std::size_t>((over == axis_kind::query ? queries : keys)[i]);
            if (over == axis_kind::head) i += static_cast<std::size_t>(heads.first);
            if (over == axis_kind::key_head) i += static_cast<std::size_t>(heads.first_key_head);
            at += i * step, step *= static_cast<std::size_t>(to.shape[a]);
        }
        to.values.at(at) += part.values[element];
    }
}

}  // namespace

reference::results gradient_in_parts(const whole_call& forward, const whole_gradient& whole, const graph_ir& shard,
                                     const cut& by, std::mt19937& random, const shard_call& run) {
    reference::results all = whole.expected;
    for (reference::array& each : all.outputs) std::ranges::fill(each.values, 0.0);
    cut_arguments arguments(forward, shard);
    for (const some_heads& heads : random_heads(forward, random))
        for (const positions& queries : by.queries) {
            if (queries.empty()) continue;
            const std::size_t sinks_in = random() % by.keys.size();
            for (std::size_t part = 0; part < by.keys.size(); ++part) {
                const auto made = run(arguments.of(queries, by.keys[part], part == sinks_in, heads));
                for (std::size_t o = 0; o < made.size(); ++o)
                    add(made[o], shard.inputs[static_cast<std::size_t>(input_of_gradient(shard, shard.outputs[o]))],
                        queries, by.keys[part], heads,
                        *std::ranges::find(all.outputs, made[o].name, &reference::array::name));
            }
        }
    return all;
}

double largest_difference(const reference::results& got, const whole_gradient& whole) {
    double worst = 0;
    for (std::size_t i = 0; i < whole.expected.outputs.size(); ++i) {
        const reference::array &x = got.outputs.at(i), &y = whole.expected.outputs[i];
        if (x.name != y.name || x.shape != y.shape) return std::numeric_limits<double>::infinity();
        double largest = 1, off = 0;
        for (std::size_t at = 0; at < y.values.size(); ++at) {
            if (!std::isfinite(y.values[at])) continue;
            const double error = std::abs(x.values[at] - y.values[at]);
            largest = std::max(largest, std::abs(y.values[at]));
            off = std::max(off, std::isnan(error) ? std::numeric_limits<double>::infinity() : error);
        }
        worst = std::max(worst, off / largest);
    }
    return worst;
}

}  // namespace attune::testing
