#include "inspect/picture.hpp"

#include "cpu/precomputed_schedule.hpp"

#include <algorithm>
#include <stdexcept>

namespace attune::generators::inline inspect {
using namespace Halide;

namespace {

Buffer<> buffer_of(const drawn_input& input) {
    std::vector<halide_dimension_t> dims;  // innermost first
    for (std::size_t axis = input.shape.size(); axis-- > 0;)
        dims.emplace_back(0, input.shape[axis], input.strides[axis]);
    return Buffer<>(halide_type(input.element), const_cast<std::byte*>(input.bytes.data()),
                    static_cast<int>(dims.size()), dims.data());
}

/// Gives a pipeline's parameters the values of the inputs that they stand for.
void bind(const std::vector<Internal::Function>& outputs, const std::vector<drawn_input>& inputs) {
    for (const Internal::InferredArgument& inferred : Internal::infer_arguments({}, outputs)) {
        Parameter parameter = inferred.param;
        const auto input = std::find_if(inputs.begin(), inputs.end(),
                                        [&](const drawn_input& i) { return "input_" + i.name == inferred.arg.name; });
        if (!parameter.defined() || input == inputs.end()) continue;
        if (parameter.is_buffer())
            parameter.set_buffer(buffer_of(*input));
        else if (parameter.type().is_float())
            parameter.set_scalar(static_cast<float>(input->number));
        else
            parameter.set_scalar(static_cast<std::int32_t>(input->number));
    }
}

/// The pairs and the blocks of one head of one batch element.
class drawing {
public:
    drawing(const kernel_request& request, const draw_request& of)
        : request_(request), core_(request.core()), frame_(request), first_(frame_), b_(of.batch), h_(of.head) {
        if (!core_.has_core())
            throw std::runtime_error(
                "expected a variant with scores q * t(k), got one without; there is nothing to draw");
        schedule_precomputed(first_, request);
        define_pairs();
        define_blocks();
    }

    /// (queries, keys) of the call: computed tensors have lengths of their own.
    std::pair<int, int> lengths(const std::vector<drawn_input>& inputs) {
        Func numbers("numbers");
        numbers(k) = mux(k, {inputs_.query_length, inputs_.key_length});
        bind({numbers.function()}, inputs);
        const Buffer<int> found = numbers.realize({2});
        return {found(0), found(1)};
    }

    void compute(picture& p, const std::vector<drawn_input>& inputs) {
        Buffer<std::uint8_t> visible(p.visible.data(), p.keys, p.queries),
            blocks(p.blocks.data(), p.key_blocks(), p.query_blocks());
        Buffer<float> score(p.score.data(), p.keys, p.queries);
        Pipeline all({pairs_, blocks_});
        bind({pairs_.function(), blocks_.function()}, inputs);
        product_.set(p.product);
        Realization into(std::vector<Buffer<>>{visible, score, blocks});
        all.realize(into);
    }

private:
    void define_pairs() {
        // Algorithm
        const Expr keys = inputs_.keys_in_use(b_);
        Expr some = Internal::const_false(), shown;  // with several cores: of any of them; the score of the first
        for (const plan* core : core_.cores()) {
            place at{b_, h_, q, k, keys, {}};
            at.known.emplace(core->contraction, quantity{product_, {}});
            for (const further_contraction& other : core->further) at.known.emplace(other.node, quantity{0.0f, {}});
            const quantity score = pointwise(request_, inputs_, at)(core->scores);
            some = some || (score.masked.defined() ? !score.masked : Internal::const_true());
            if (!shown.defined()) shown = score.value;
        }
        pairs_(k, q) = Tuple(cast<std::uint8_t>(k < keys && some), shown);
    }

    void define_blocks() {
        // Algorithm
        Expr all;
        for (const plan* core : core_.cores()) {
            const Expr one = frame_.kind_of_block(tile_mask(frame_.tables, {q, k, h_, b_}).visible(core->scores));
            all = all.defined() ? kernel_frame::joined_kinds(all, one) : one;
        }
        blocks_(k, q) = all;
    }

    const kernel_request& request_;
    const plan& core_;
    kernel_frame frame_;
    precomputed_tensors first_;
    const kernel_inputs& inputs_ = frame_.inputs;
    Expr b_, h_;
    Var k{"k"}, q{"q"};
    Param<float> product_{"product"};
    Func pairs_{"pairs"}, blocks_{"blocks"};
};

bool visible_scores_differ(const picture& p) {
    const float* first = nullptr;
    for (std::size_t i = 0; i < p.score.size(); ++i) {
        if (!p.visible[i]) continue;
        if (!first) first = &p.score[i];
        if (p.score[i] != *first) return true;
    }
    return false;
}

}  // namespace

picture picture_of(const variant& v, const kernel_request& made, draw_request request,
                   std::optional<float> product) try {
    picture p;
    p.name = v.name, p.formula = v.graph.text, p.cut = blocks_of(made.schedule);
    p.inputs = inputs_of_picture(v.graph, request);
    check(made);
    drawing drawn(made, request);
    std::tie(p.queries, p.keys) = drawn.lengths(p.inputs);
    if (p.queries > 1 << 24) p.queries = request.queries;  // no input says how many there are
    if (p.queries < 1 || p.keys < 1 || static_cast<double>(p.queries) * p.keys > (1 << 24))
        throw std::runtime_error("expected a picture of 1 to 2^24 pairs, got " + std::to_string(p.queries) +
                                 " queries and " + std::to_string(p.keys) + " keys");
    p.heads = request.heads, p.key_heads = request.key_heads, p.head = request.head, p.batch = request.batch;
    const std::size_t pairs = static_cast<std::size_t>(p.queries) * static_cast<std::size_t>(p.keys);
    p.visible.resize(pairs), p.score.resize(pairs);
    p.blocks.resize(static_cast<std::size_t>(p.query_blocks() * p.key_blocks()));
    p.product = product.value_or(0.0f);
    drawn.compute(p, p.inputs);
    p.varies = visible_scores_differ(p);
    if (!p.varies && !product) {
        p.product = 1;
        drawn.compute(p, p.inputs);
        p.varies = visible_scores_differ(p);
    }
    return p;
} catch (const Halide::Error& problem) {  // not a std::exception
    throw std::runtime_error(v.name + ": Halide could not compute the picture: " + problem.what());
} catch (const std::runtime_error& problem) {
    throw std::runtime_error(v.name + ": " + problem.what());
}

}  // namespace attune::generators::inline inspect
