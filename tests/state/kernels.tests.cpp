// Kernels of recurrences: against the golden files, in place, packed, and what is refused.
#include "kernels.hpp"
#include "cases.hpp"

#include <attune/reference.hpp>
#include <attune/runtime.hpp>
#include <attune/runtime/detail/call.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <span>

using namespace attune;
using namespace attune::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using support::file_tensor;
using support::tensor_file;

namespace {

namespace of = state_kernels;

const std::vector<const kernel_table*>& tables() {
    static const std::vector<const kernel_table*> all{
        &detail::table_of<of::retention>(),     &detail::table_of<of::retention_on>(),
        &detail::table_of<of::lightning>(),     &detail::table_of<of::gla>(),
        &detail::table_of<of::gla_on>(),        &detail::table_of<of::gla_shared>(),
        &detail::table_of<of::linear_shared>(), &detail::table_of<of::delta_net>(),
        &detail::table_of<of::delta_net_on>(),  &detail::table_of<of::gated>(),
        &detail::table_of<of::gated_on>(),      &detail::table_of<of::gated_shared_on>(),
        &detail::table_of<of::kda_on>(),        &detail::table_of<of::kda_shared_on>(),
        &detail::table_of<of::mamba2_on>(),     &detail::table_of<of::rwkv7_on>(),
        &detail::table_of<of::rwkv6_on>()};
    return all;
}

const kernel_table* table_of(const graph_ir& graph) {
    const auto found = std::ranges::find_if(
        tables(), [&](const kernel_table* each) { return each->graph.fingerprint == graph.fingerprint; });
    return found == tables().end() ? nullptr : *found;
}

bool has_kernel(const tensor_file& file) {
    const kernel_table* table = table_of(graph_of(file, file.find("state_in") != nullptr));
    if (table == nullptr || !file.params.contains("D")) return false;
    return std::ranges::any_of(table->kernels, [&](const kernel& each) {
        return each.depth == static_cast<int>(file.params.at("D")) &&
               each.value_depth == static_cast<int>(file.params.at("Dv"));
    });
}

tensor view_of(file_tensor& t) { return {t.element, static_cast<void*>(t.bytes.data()), t.shape}; }

detail::named_argument named(std::string_view name, const tensor& view) {
    detail::named_argument made;
    made.name = name, made.view = view;
    return made;
}

file_tensor zeros(std::string name, std::vector<std::int64_t> shape) {
    file_tensor t{std::move(name), element_type::f32, std::move(shape), {}};
    t.bytes.resize(static_cast<std::size_t>(t.count()) * sizeof(float));
    std::fill_n(t.as<float>(), t.count(), std::nanf(""));
    return t;
}

/// One call; outputs are as large as inputs and params say, and filled with NaN before.
std::vector<file_tensor> by_kernels(const graph_ir& graph, const tensor_file& inputs, const options& how = {}) {
    tensor_file own = inputs;
    const auto number = [&](const char* name) { return static_cast<std::int64_t>(inputs.params.at(name)); };
    const file_tensor &q = inputs["q"], &k = inputs["k"], &v = inputs["v"];
    const std::int64_t heads = std::max({q.shape[1], k.shape[1], v.shape[1]}),
                       states = std::max(k.shape[1], v.shape[1]);
    std::vector<file_tensor> made;
    for (const output_declaration& output : graph.outputs)
        made.push_back(graph.nodes[output.node].kind == kind::last_state
                           ? zeros(std::string(output.name), {q.shape[0], states, number("D"), number("Dv")})
                           : zeros(std::string(output.name), {q.shape[0], heads, q.shape[2], number("Dv")}));
    std::vector<detail::named_argument> arguments;
    for (const input_declaration& input : graph.inputs) {
        if (!input.is_scalar) {
            file_tensor& t = *std::ranges::find(own.tensors, input.name, &file_tensor::name);
            arguments.push_back(named(input.name, view_of(t)));
            continue;
        }
        detail::named_argument scalar;
        scalar.name = input.name, scalar.is = detail::named_argument::form::real;
        scalar.real = inputs.params.at(std::string(input.name));
        arguments.push_back(scalar);
    }
    for (file_tensor& t : made) arguments.push_back(named(t.name, view_of(t)));
    detail::call(*table_of(graph), arguments, how);
    return made;
}

/// Random numbers, those of log decays below 0.
std::vector<float> numbers(std::size_t count, unsigned seed, float lowest = -1, float highest = 1) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> draw(lowest, highest);
    std::vector<float> all(count);
    for (float& x : all) x = draw(random);
    return all;
}

}  // namespace

TEST_CASE("kernels compute the golden states", "[state]") {
    int checked = 0, without = 0;
    for (const auto& path : golden_state_files()) {
        const tensor_file file = support::read_safetensors(path);
        if (!has_kernel(file)) {
            ++without;
            continue;
        }
        for (const int threads : {1, 3}) {
            const auto call = [&](const graph_ir& graph, const tensor_file& inputs) {
                return by_kernels(graph, inputs, {.threads = threads});
            };
            for (const difference& d : differences(file, outputs_of(file, call))) {
                INFO(path.filename().string() << ": " << d.output << ", error " << d.error << ", tolerance "
                                              << d.tolerance << ", threads " << threads);
                CHECK(d.error <= d.tolerance);
                if (threads == 1)
                    std::printf("%-28s %s %.1e (tolerance %.0e)\n", path.stem().string().c_str(), d.output.c_str(),
                                d.error, d.tolerance);
            }
        }
        ++checked;
    }
    std::printf("%d files of recurrent state, by kernels; %d have none\n", checked, without);
    CHECK(checked >= 20);
}

namespace {

/// A call of gated_on: 2 batch elements, 2 heads, depths 16 x 16.
struct gated_call {
    static constexpr std::int64_t batches = 2, heads = 2, depth = 16;
    std::int64_t tokens;
    std::vector<float> q, k, v, decay, beta, state, out, after;

    explicit gated_call(std::int64_t count)
        : tokens(count),
          q(numbers(rows(), 1)),
          k(numbers(rows(), 2)),
          v(numbers(rows(), 3)),
          decay(numbers(rows() / depth, 4, -2, 0)),
          beta(numbers(rows() / depth, 5, 0, 1)),
          state(numbers(states(), 6)),
          out(rows()),
          after(states()) {}
    std::size_t rows() const { return static_cast<std::size_t>(batches * heads * tokens * depth); }
    static std::size_t states() { return static_cast<std::size_t>(batches * heads * depth * depth); }

    /// The tokens from `first` on, so many, and the states before and after.
    void run(std::int64_t first, std::int64_t count, float* before, float* behind,
             const kernel_table& table = detail::table_of<of::gated_on>()) {
        const std::int64_t row[] = {batches, heads, count, depth}, number[] = {batches, heads, count},
                           state_shape[] = {batches, heads, depth, depth};
        const std::int64_t row_steps[] = {heads * tokens * depth, tokens * depth, depth, 1},
                           steps[] = {heads * tokens, tokens, 1};
        const auto rows_of = [&](std::vector<float>& x) { return tensor(x.data() + first * depth, row, row_steps); };
        const auto numbers_of = [&](std::vector<float>& x) { return tensor(x.data() + first, number, steps); };
        const std::vector<detail::named_argument> arguments{
            named("q", rows_of(q)),          named("k", rows_of(k)),
            named("v", rows_of(v)),          named("log_decay", numbers_of(decay)),
            named("beta", numbers_of(beta)), named("state_in", tensor(before, state_shape)),
            named("out", rows_of(out)),      named("state_out", tensor(behind, state_shape))};
        detail::call(table, arguments, {});
    }
};

double largest_difference(const std::vector<float>& x, const std::vector<float>& y) {
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::abs(double{x[i]} - double{y[i]}));
    return worst;
}

}  // namespace

TEST_CASE("a state in and out may be one memory", "[state]") {
    for (const std::int64_t tokens : {1, 2, 4, 5, 16, 17, 40}) {
        gated_call apart(tokens), in_place(tokens);
        apart.run(0, tokens, apart.state.data(), apart.after.data());
        in_place.run(0, tokens, in_place.state.data(), in_place.state.data());
        INFO(tokens << " tokens");
        CHECK(apart.out == in_place.out);
        CHECK(apart.after == in_place.state);
    }
}

TEST_CASE("a prompt that goes on where chunks end equals a whole one in bits", "[state]") {
    gated_call whole(48), parts(48);
    whole.run(0, 48, whole.state.data(), whole.state.data());
    parts.run(0, 32, parts.state.data(), parts.state.data());
    parts.run(32, 16, parts.state.data(), parts.state.data());
    CHECK(whole.out == parts.out);
    CHECK(whole.state == parts.state);
}

TEST_CASE("tokens one by one come to what a prompt does", "[state]") {
    gated_call whole(19), tokens(19);
    whole.run(0, 19, whole.state.data(), whole.state.data());
    for (std::int64_t t = 0; t < 19; ++t) tokens.run(t, 1, tokens.state.data(), tokens.state.data());
    CHECK(largest_difference(whole.out, tokens.out) < 2e-5);
    CHECK(largest_difference(whole.state, tokens.state) < 2e-5);
}

TEST_CASE("a call without tokens moves its state", "[state]") {
    gated_call none(1);
    none.run(0, 0, none.state.data(), none.after.data());
    CHECK(none.after == none.state);
}

TEST_CASE("states that overlap in part are refused", "[state]") {
    gated_call call(3);
    std::vector<float> memory(2 * gated_call::states());
    CHECK_THROWS_MATCHES(call.run(0, 3, memory.data(), memory.data() + 16), error,
                         MessageMatches(ContainsSubstring("two tensors that overlap in memory")));
}

TEST_CASE("packed sequences have a state each", "[state]") {
    const tensor_file file =
        support::read_safetensors(std::filesystem::path(ATTUNE_GOLDEN_STATE_FILES) / "kda_packed.safetensors");
    tensor_file whole = file;
    const auto number = [&](const char* name) { return static_cast<std::int64_t>(file.params.at(name)); };
    const std::int64_t sequences = file["cu_seqlens"].shape[0] - 1;
    file_tensor out = zeros("out", file["out"].shape),
                after = zeros("state_out", {sequences, number("Hv"), number("D"), number("Dv")});
    std::vector<detail::named_argument> arguments;
    for (const char* name : {"q", "k", "v", "log_decay", "beta", "state_in"})
        arguments.push_back(named(name, view_of(*std::ranges::find(whole.tensors, name, &file_tensor::name))));
    arguments.push_back(
        named("cu_seqlens_q", view_of(*std::ranges::find(whole.tensors, "cu_seqlens", &file_tensor::name))));
    arguments.push_back(named("out", view_of(out))), arguments.push_back(named("state_out", view_of(after)));
    detail::call(detail::table_of<of::kda_on>(), arguments, {});
    for (const difference& d : differences(file, {out, after})) {
        INFO(d.output << ", error " << d.error);
        CHECK(d.error <= d.tolerance);
    }
}

TEST_CASE("packed sequences without a token keep their states, beside one token", "[state]") {
    gated_call all(1);
    const std::int64_t row[] = {1, 2, 1, 16}, number[] = {1, 2, 1}, one[] = {1, 2, 16, 16}, three[] = {3};
    const auto call = [&](const tensor& before, const tensor& after, const tensor* starts) {
        std::vector<detail::named_argument> arguments{
            named("q", tensor(all.q.data(), row)),          named("k", tensor(all.k.data(), row)),
            named("v", tensor(all.v.data(), row)),          named("log_decay", tensor(all.decay.data(), number)),
            named("beta", tensor(all.beta.data(), number)), named("state_in", before),
            named("out", tensor(all.out.data(), row)),      named("state_out", after)};
        if (starts) arguments.push_back(named("cu_seqlens_q", *starts));
        detail::call(detail::table_of<of::gated_on>(), arguments, {});
        return std::vector(all.out.begin(), all.out.begin() + 32);
    };
    std::vector<float> expected = all.state;
    const std::size_t second = gated_call::states() / 2;
    const tensor alone(expected.data() + second, one);
    const std::vector<float> out = call(alone, alone, nullptr);
    const std::int32_t starts[] = {0, 0, 1};
    const std::int64_t both[] = {2, 2, 16, 16};
    const tensor packed(starts, three);
    CHECK(call(tensor(all.state.data(), both), tensor(all.after.data(), both), &packed) == out);
    CHECK(all.after == expected);
}

TEST_CASE("kv_lengths are refused", "[state]") {
    gated_call call(2);
    const std::int32_t lengths[] = {2, 1};
    const std::int64_t one[] = {2}, row[] = {2, 2, 2, 16}, number[] = {2, 2, 2}, state_shape[] = {2, 2, 16, 16};
    const std::vector<detail::named_argument> arguments{named("q", tensor(call.q.data(), row)),
                                                        named("k", tensor(call.k.data(), row)),
                                                        named("v", tensor(call.v.data(), row)),
                                                        named("log_decay", tensor(call.decay.data(), number)),
                                                        named("beta", tensor(call.beta.data(), number)),
                                                        named("state_in", tensor(call.state.data(), state_shape)),
                                                        named("kv_lengths", tensor(lengths, one)),
                                                        named("out", tensor(call.out.data(), row)),
                                                        named("state_out", tensor(call.after.data(), state_shape))};
    CHECK_THROWS_MATCHES(detail::call(detail::table_of<of::gated_on>(), arguments, {}), error,
                         MessageMatches(ContainsSubstring("a recurrence has no keys in a cache")));
}

namespace {
/// A call of a graph whose outputs are `out` and `state_out`, against the reference evaluator.
void check_call(const kernel_table& table, const std::vector<detail::named_argument>& arguments) {
    detail::call(table, arguments, {});
    std::vector<reference::argument> given;
    for (const detail::named_argument& each : arguments) given.push_back({each.name, each.view});
    const reference::results expected = reference::evaluate(table.graph, given);
    for (const detail::named_argument& each : arguments)
        if (each.name == "out" || each.name == "state_out")
            CHECK(reference::largest_error(each.view, expected[each.name], expected.rows) < 2e-5);
}

/// A call whose first state is a formula of a pool and of tables over channels.
struct pooled_call {
    const std::vector<std::int64_t> row{2, 2, 20, 16}, states{3, 2, 16, 16}, after_shape{2, 2, 16, 16}, two{2};
    std::vector<float> q = numbers(1280, 1), k = numbers(1280, 2), v = numbers(1280, 3), pool = numbers(1536, 4),
                       tilt = numbers(8, 5), ramp = numbers(31, 6), slope = numbers(16, 7),
                       out = std::vector<float>(1280), after = std::vector<float>(1024);
    std::vector<std::int32_t> slots{2, -1};

    std::vector<detail::named_argument> arguments(std::int64_t pairs = 8, std::int64_t steps = 31,
                                                  std::int64_t channels = 16) {
        return {named("q", tensor(q.data(), row)),           named("k", tensor(k.data(), row)),
                named("v", tensor(v.data(), row)),           named("pool", tensor(pool.data(), states)),
                named("slot", tensor(slots.data(), two)),    named("tilt", tensor(tilt.data(), {pairs})),
                named("ramp", tensor(ramp.data(), {steps})), named("slope", tensor(slope.data(), {channels})),
                named("out", tensor(out.data(), row)),       named("state_out", tensor(after.data(), after_shape))};
    }
    std::string refused(const std::vector<detail::named_argument>& given, const options& how = {}) {
        try {
            detail::call(detail::table_of<of::pooled>(), given, how);
        } catch (const error& e) {
            return e.what();
        }
        return "";
    }
};
}  // namespace

TEST_CASE("a first state may be a formula", "[state]") {
    pooled_call c;
    const auto arguments = c.arguments();
    detail::call(detail::table_of<of::pooled>(), arguments, {.checked = true});
    std::vector<reference::argument> given;
    for (const detail::named_argument& each : arguments) given.push_back({each.name, each.view});
    const reference::results expected = reference::evaluate(dsl::ir_of<of::pooled>, given);
    CHECK(reference::largest_error(tensor(c.out.data(), c.row), expected["out"], expected.rows) < 2e-5);
    CHECK(reference::largest_error(tensor(c.after.data(), c.after_shape), expected["state_out"], expected.rows) < 2e-5);
}

TEST_CASE("a table of a first state that is shorter than its channels is refused", "[state]") {
    pooled_call c;
    CHECK(c.refused(c.arguments(7)) ==
          "attune: expected value_idx / 2 from 0 to 6, an index along pair of tilt, got 7 at (value_idx 14), the first "
          "of 2; try a longer tilt, or positions that are in it");
    CHECK(c.refused(c.arguments(8, 31, 13)) ==
          "attune: expected value_idx from 0 to 12, an index along channel of slope, got 13 at (value_idx 13), the "
          "first of 3; try a longer slope, or positions that are in it");
    CHECK(
        c.refused(c.arguments(8, 30), {.checked = true}) ==
        "attune: expected d_idx + value_idx from 0 to 29, an index along step of ramp, got 30 at (d_idx 15, value_idx "
        "15); try a longer ramp, or positions that are in it");
}

TEST_CASE("what a first state reads beyond a table of two channels is the table's last element", "[state]") {
    pooled_call c;
    std::fill(c.ramp.begin() + 20, c.ramp.end(), c.ramp[19]);
    REQUIRE(c.refused(c.arguments()).empty());
    const std::vector<float> expected = c.after;
    std::fill(c.ramp.begin() + 20, c.ramp.end(), std::numeric_limits<float>::quiet_NaN());
    REQUIRE(c.refused(c.arguments(8, 20)).empty());
    CHECK(c.after == expected);
}

TEST_CASE("heads with states of their own may begin with those of key heads", "[state]") {
    const std::int64_t keys[] = {2, 4, 20, 16}, values[] = {2, 4, 20, 32}, first[] = {2, 2, 16, 32},
                       states[] = {2, 4, 16, 32};
    std::vector<float> q = numbers(2560, 1), k = numbers(2560, 2), v = numbers(5120, 3), before = numbers(4096, 4),
                       out(5120), after(4096);  // beyond the first states lie other numbers
    check_call(detail::table_of<of::retention_shared>(),
               {named("q", tensor(q.data(), keys)), named("k", tensor(k.data(), keys)),
                named("v", tensor(v.data(), values)), named("first_of_key_heads", tensor(before.data(), first)),
                named("out", tensor(out.data(), values)), named("state_out", tensor(after.data(), states))});
}

TEST_CASE("a state that is read elsewhere, too, does not go on in place", "[state]") {
    kernel_table table = detail::table_of<of::gated_on>();
    table.graph = dsl::ir_of<of::gated_and_first>;
    gated_call call(3);
    const std::vector<float> before = call.state;
    CHECK_THROWS_MATCHES(call.run(0, 3, call.state.data(), call.state.data(), table), error,
                         MessageMatches(ContainsSubstring("expected state_out apart from state_in")));
    CHECK(call.state == before);
}

TEST_CASE("a decay of NaN reaches the outputs of its head from its token on", "[state]") {
    gated_call call(20);
    constexpr std::int64_t spoilt = 5, row = gated_call::depth;
    call.decay[spoilt] = std::nanf("");  // of batch element 0 and head 0
    call.run(0, 20, call.state.data(), call.after.data());
    const auto is_nan = [](float x) { return std::isnan(x); };
    const auto of_head = std::span(call.out).first(20 * row);
    CHECK(std::ranges::all_of(of_head.subspan(spoilt * row), is_nan));
    CHECK(std::ranges::all_of(std::span(call.after).first(row * row), is_nan));
    CHECK(std::ranges::none_of(std::span(call.out).subspan(20 * row), is_nan));
    CHECK(std::ranges::none_of(std::span(call.after).subspan(row * row), is_nan));
}
