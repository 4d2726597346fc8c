#include "blocks_lab.hpp"

#include "block_mask/block_mask.hpp"
#include "kernel/cpu_schedule.hpp"

#include <stdexcept>

namespace attune::testing {
using namespace Halide;
using namespace generators;

namespace {

constexpr int depth = 4;  // no block depends on it

Buffer<> buffer_of(const Type& type, const lab_inputs::table& table) {
    std::vector<int> extents(table.extents.rbegin(), table.extents.rend());
    Buffer<> buffer(type, extents);
    for (std::size_t i = 0; i < table.values.size(); ++i) {
        const double value = table.values[i];
        if (type == Float(32))
            static_cast<float*>(buffer.data())[i] = static_cast<float>(value);
        else if (type == Int(32))
            static_cast<std::int32_t*>(buffer.data())[i] = static_cast<std::int32_t>(value);
        else
            static_cast<std::uint8_t*>(buffer.data())[i] = static_cast<std::uint8_t>(value);
    }
    return buffer;
}

Buffer<> queries_or_keys(const lab_inputs& of, bool queries) {
    Buffer<float> buffer(depth, queries ? of.queries : of.keys, of.heads, of.batches);
    buffer.fill(0.0f);
    return buffer;
}

}  // namespace

void lab_count::add(int decision, int seen) {
    ++blocks, ideal += seen != 0, visited += decision != 0, whole += seen == 2, must += decision == 2;
    wrongly_skipped += decision == 0 && seen != 0, wrongly_unmasked += decision == 2 && seen != 2;
}

schedule usual_schedule(const graph_ir& graph) {
    return default_cpu_prefill(level_named("x86-64-v3"), {64, 64}, facts_of(graph)->hides);
}

namespace {

/// Both stages of one graph, and its inputs.
class lab {
public:
    lab(const graph_ir& graph, const schedule& cut, const lab_inputs& given)
        : request_{facts_of(graph),
                   {element_type::f32, element_type::f32, element_type::f32, element_type::f32},
                   {depth, depth},
                   &level_named("x86-64-v3"),
                   cut},
          core_(request_.core()),
          inputs_(request_),
          tables_(request_, inputs_),
          given_(given),
          state(count_of(given.keys, request_.blocks().key_block),
                count_of(given.queries, request_.blocks().query_block), given.heads, given.batches) {}

    Func decided() {
        const verdict visible = tile_mask(tables_, {qt, kb, h, b}).visible(core_.scores);
        Func states("states");
        states(kb, qt, h, b) = select(!visible.may, cast<std::uint8_t>(0),
                                      select(visible.must, cast<std::uint8_t>(2), cast<std::uint8_t>(1)));
        return states;
    }

    /// Whether any and whether all pairs of each block are visible: all of them are looked at.
    Func seen() {
        // Algorithm
        const auto [queries_a_block, keys_a_block] = request_.blocks();
        RDom key(0, keys_a_block, "key"), query(0, queries_a_block, "query");
        const Expr q = qt * queries_a_block + qi, k = kb * keys_a_block + key, keys = inputs_.keys_in_use(b);
        place at{b, h, q, k, keys};
        at.known.emplace(core_.contraction, quantity{0.0f, {}});
        const quantity score = pointwise(request_, inputs_, at)(core_.scores);
        Expr visible = k < keys;
        if (score.masked.defined()) visible = visible && !score.masked;
        const Expr none = cast<std::uint8_t>(0), one = cast<std::uint8_t>(1), inside = q < inputs_.query_length;
        Func row("row"), seen("seen");
        row(qi, kb, qt, h, b) = Tuple(none, one);
        const FuncRef so_far = row(qi, kb, qt, h, b);
        row(qi, kb, qt, h, b) =
            Tuple(select(visible && inside, one, so_far[0]), select(visible || !inside, so_far[1], none));
        seen(kb, qt, h, b) = Tuple(none, one);
        const FuncRef all = seen(kb, qt, h, b), of_row = row(query, kb, qt, h, b);
        seen(kb, qt, h, b) = Tuple(max(all[0], of_row[0]), min(all[1], of_row[1]));

        // Schedule
        row.compute_at(seen, kb).vectorize(qi, 8).update().reorder(qi, key).vectorize(qi, 8);
        return seen;
    }

    void run(const std::vector<Func>& functions, const std::vector<Buffer<>>& into) {
        std::vector<Internal::Function> outputs;
        for (const Func& f : functions) outputs.push_back(f.function());
        for (const Internal::InferredArgument& inferred : Internal::infer_arguments({}, outputs))
            if (inferred.param.defined()) bind(inferred.param, inferred.arg.name.substr(std::string("input_").size()));
        Pipeline(functions).realize(Realization(into));
    }

private:
    static int count_of(int length, int block) { return (length + block - 1) / block; }

    void bind(Parameter parameter, const std::string& name) const {
        if (!parameter.is_buffer()) {
            const double number = given_.numbers.at(name);
            if (parameter.type().is_float())
                parameter.set_scalar(static_cast<float>(number));
            else
                parameter.set_scalar(static_cast<std::int32_t>(number));
        } else if (given_.tables.contains(name)) {
            parameter.set_buffer(buffer_of(parameter.type(), given_.tables.at(name)));
        } else if (name == "kv_lengths") {
            parameter.set_buffer(buffer_of(
                Int(32),
                {{given_.batches}, std::vector<double>(static_cast<std::size_t>(given_.batches), given_.keys)}));
        } else {
            parameter.set_buffer(queries_or_keys(given_, name == "q"));
        }
    }

    kernel_request request_;
    const plan& core_;
    kernel_inputs inputs_;
    tile_tables tables_;
    const lab_inputs& given_;
    Var kb{"kb"}, qt{"qt"}, h{"h"}, b{"b"}, qi{"qi"};

public:
    Buffer<std::uint8_t> state;
};

}  // namespace

std::vector<std::uint8_t> decide_blocks(const graph_ir& graph, const schedule& cut, const lab_inputs& given) try {
    lab made(graph, cut, given);
    made.run({made.decided()}, {made.state});
    return {made.state.data(), made.state.data() + made.state.number_of_elements()};
} catch (const Halide::Error& problem) {  // not a std::exception
    throw std::runtime_error(problem.what());
}

lab_count count_blocks(const graph_ir& graph, const schedule& cut, const lab_inputs& given) try {
    lab made(graph, cut, given);
    Buffer<std::uint8_t> any = Buffer<std::uint8_t>::make_with_shape_of(made.state),
                         all = Buffer<std::uint8_t>::make_with_shape_of(made.state);
    made.run({made.decided(), made.seen()}, {made.state, any, all});
    lab_count result;
    for (std::size_t i = 0; i < made.state.number_of_elements(); ++i)
        result.add(made.state.data()[i], any.data()[i] + all.data()[i] * any.data()[i]);
    return result;
} catch (const Halide::Error& problem) {
    throw std::runtime_error(problem.what());
}

}  // namespace attune::testing
