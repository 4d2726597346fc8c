#include "formula_shards.hpp"

#include "../../shards/cut_call.hpp"
#include "formula_inputs.hpp"
#include "relaid.hpp"

#include <attune/runtime/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <random>
#include <stdexcept>
#include <string_view>

namespace fuzz {
namespace {

using attune::element_type, attune::input_declaration, attune::tensor;
using attune::testing::drawn_graph;
using form = attune::detail::named_argument::form;

struct different_bits : std::runtime_error {
    using runtime_error::runtime_error;
};
struct written_beside : std::runtime_error {
    using runtime_error::runtime_error;
};

/// One call, of arguments as the reference takes them: twice, with two numbers of threads.
class shard_kernel {
public:
    shard_kernel(const formula_case& it, const drawn_graph& shard, const attune::kernel_table& table)
        : it_(it), shard_(shard), table_(table), random_(it.seed + 3) {}

    std::vector<attune::reference::array> operator()(const std::vector<attune::reference::argument>& given) {
        std::deque<relaid_tensor> moved;
        std::deque<formula_memory> rounded;
        std::vector<attune::detail::named_argument> call;
        std::int64_t queries = 0, heads = it_.shape.heads;
        for (const auto& a : given) {
            const auto declared = std::ranges::find(shard_.inputs, a.name, &input_declaration::name);
            if (a.name == "query_positions") queries = std::get<tensor>(a.value).extent(0);
            if (a.name == "q") heads = std::get<tensor>(a.value).extent(1);
            if (declared != shard_.inputs.end()) call.push_back(argument(a, *declared, moved, rounded));
        }
        std::vector<attune::reference::array> made;
        std::vector<relaid_tensor*> outputs;
        for (const attune::output_declaration& o : shard_.outputs) {
            std::vector<std::int64_t> shape{it_.shape.batches, heads, queries};
            if (shard_.nodes[o.node].kind == attune::kind::output) shape.push_back(it_.shape.value_depth);
            const formula_memory& memory = rounded.emplace_back(o.name, shape);
            outputs.push_back(&moved.emplace_back(memory.of.view, true, false, random_));
            call.push_back({.name = o.name, .view = outputs.back()->view()});
            made.push_back({std::string(o.name), shape, {}});
        }
        std::vector<std::vector<std::byte>> first;
        for (const int threads : {it_.threads, it_.threads % 4 + 1}) {
            for (relaid_tensor* const output : outputs) output->clear();
            attune::detail::call(table_, call, {.threads = threads});
            for (std::size_t i = 0; i < outputs.size(); ++i) {
                if (outputs[i]->is_spilled()) throw written_beside(made[i].name);
                if (first.size() == i) first.push_back(outputs[i]->elements());
                if (first[i] != outputs[i]->elements()) throw different_bits(made[i].name);
                made[i].values = numbers_in(outputs[i]->view());
            }
        }
        return made;
    }

private:
    attune::detail::named_argument argument(const attune::reference::argument& a, const input_declaration& declared,
                                            std::deque<relaid_tensor>& moved, std::deque<formula_memory>& rounded) {
        attune::detail::named_argument to{.name = a.name};
        if (const auto* const number = std::get_if<double>(&a.value)) {
            to.is = attune::is_integer(declared.element) ? form::integer : form::real;
            to.real = *number, to.integer = static_cast<std::int64_t>(*number);
            return to;
        }
        to.view = std::get<tensor>(a.value);
        if (to.view.type() == element_type::f64) {  // what the calls before left
            const std::vector<std::int64_t> shape(to.view.shape().begin(), to.view.shape().end());
            formula_memory& memory = rounded.emplace_back(a.name, shape);
            std::size_t next = 0;
            for (const double x : numbers_in(to.view)) memory.of.reals[next++] = static_cast<float>(x);
            to.view = memory.of.view;
        }
        if (it_.relaid) to.view = moved.emplace_back(to.view, has_dense_rows(declared), false, random_).view();
        return to;
    }

    const formula_case& it_;
    const drawn_graph& shard_;
    const attune::kernel_table& table_;
    std::mt19937 random_;
};

}  // namespace

outcome outcome_of_shards(const formula_case& it, const drawn_graph& shard, const attune::kernel_table& table,
                          const attune::generators::element_types& types) try {
    attune::support::workload call = drawn_workload(it, types);
    const attune::testing::whole_call whole(it.graph.view(), call.reference_arguments(),
                                            {.depth = it.depth, .value_depth = it.value_depth});
    std::mt19937 random(it.seed + 9);
    const attune::testing::cut by = attune::testing::random_cut(it.shape.queries, it.shape.keys, random);
    shard_kernel kernel(it, shard, table);
    attune::reference::results got;
    try {
        got = attune::testing::in_parts(whole, shard.view(), by, random, std::ref(kernel));
    } catch (const attune::error& refusal) {
        if (!wants_an_entry(refusal.what(), call.reference_arguments())) throw;
        return {outcome_kind::refused, refusal.what()};
    }
    const double allowed = 2e-5 * static_cast<double>(by.keys.size());  // each call rounds what it joins
    outcome result{outcome_kind::agrees, {}, attune::testing::largest_difference(got, whole) / allowed};
    if (!(result.error <= 1))
        result = {outcome_kind::wrong,
                  fmt::format("{} shards are off by {:.3g} times what is allowed", by.queries.size() * by.keys.size(),
                              result.error),
                  result.error};
    return result;
} catch (const different_bits& output) {
    return {outcome_kind::unequal, fmt::format("output {}", output.what())};
} catch (const written_beside& output) {
    return {outcome_kind::spilled, fmt::format("beside the elements of {}", output.what())};
}

}  // namespace fuzz
