#include "../../generators/extreme_calls.hpp"
#include "../../generators/extreme_formulas.hpp"
#include "../../kernels/variants.hpp"
#include "../../layers/layers.hpp"
#include "../../support/workload_values.hpp"
#include "halves.hpp"

#include <attune/dlpack.hpp>
#include <attune/reference.hpp>
#include <attune/runtime/run.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

using namespace attune;
using Catch::Matchers::ContainsSubstring;
using support::shape;
using support::workload;

namespace {

constexpr double tolerance = 2e-5;  // absolute, of unit-normal inputs

template <const auto& Graph> void check(const shape& of, const std::map<std::string, std::int64_t>& widths = {}) {
    const graph_ir graph = dsl::ir_of<Graph>;
    workload call(graph, of, 7, {}, widths);
    const auto expected = call.expected();
    detail::call(detail::table_of<Graph>(), call.arguments(), {.target = "opencl"});
    for (const output_declaration& output : graph.outputs) {
        INFO(of.text() << " " << output.name);
        CHECK(call.largest_error(expected, output.name) < tolerance);
    }
    CHECK(outputs_untouched(call, true));
}

}  // namespace

namespace {

std::string missing() { return kernels<under_test::plain>().entries.front().missing; }

/// OpenCL's own functions, for an application's context and buffers. No header of it is needed to build the tests.
class application {
public:
    application() {
        void *platform{}, *device{};
        std::uint32_t count = 0;
        std::int32_t code =
            call<std::int32_t(std::uint32_t, void**, std::uint32_t*)>("clGetPlatformIDs")(1, &platform, &count);
        REQUIRE(code == 0);
        code = call<std::int32_t(void*, std::uint64_t, std::uint32_t, void**, std::uint32_t*)>("clGetDeviceIDs")(
            platform, 0xffffffffu, 1, &device, &count);
        REQUIRE(code == 0);
        context = call<void*(const std::intptr_t*, std::uint32_t, void* const*, void*, void*, std::int32_t*)>(
            "clCreateContext")(nullptr, 1, &device, nullptr, nullptr, &code);
        REQUIRE(code == 0);
        queue =
            call<void*(void*, void*, std::uint64_t, std::int32_t*)>("clCreateCommandQueue")(context, device, 0, &code);
        REQUIRE(code == 0);
    }
    void* buffer(const std::vector<float>& of) const {
        std::int32_t code = 0;
        void* const made = call<void*(void*, std::uint64_t, std::size_t, void*, std::int32_t*)>("clCreateBuffer")(
            context, 1, of.size() * sizeof(float), nullptr, &code);
        REQUIRE(code == 0);
        using write = std::int32_t(void*, void*, std::uint32_t, std::size_t, std::size_t, const void*, std::uint32_t,
                                   const void*, void*);
        REQUIRE(call<write>("clEnqueueWriteBuffer")(queue, made, 1, 0, of.size() * sizeof(float), of.data(), 0, nullptr,
                                                    nullptr) == 0);
        return made;
    }
    void read(void* from, std::vector<float>& to) const {
        using reading = std::int32_t(void*, void*, std::uint32_t, std::size_t, std::size_t, void*, std::uint32_t,
                                     const void*, void*);
        REQUIRE(call<reading>("clEnqueueReadBuffer")(queue, from, 1, 0, to.size() * sizeof(float), to.data(), 0,
                                                     nullptr, nullptr) == 0);
    }
    void wait() const { REQUIRE(call<std::int32_t(void*)>("clFinish")(queue) == 0); }
    void *context{}, *queue{};

private:
    template <class Function> static Function* call(const char* name) {
        static void* const library = dlopen("libOpenCL.so.1", RTLD_LAZY);
        return reinterpret_cast<Function*>(dlsym(library, name));
    }
};

}  // namespace

TEST_CASE("a device computes what the reference does") {
    if (!missing().empty()) SKIP("no OpenCL device here: lacks " << missing());
    for (const shape& of : {shape{.queries = 64, .keys = 64}, shape{.queries = 1, .keys = 33},
                            shape{.batches = 2, .heads = 4, .key_heads = 2, .queries = 65, .keys = 97, .gaps = true}}) {
        check<under_test::plain>(of);
        check<under_test::causal_mask>(of);
        check<under_test::documents>(of);
    }
    const shape of_layer{.heads = 2, .key_heads = 2, .queries = 43, .keys = 43, .depth = 16, .value_depth = 16};
    check<layers::normed_heads>(of_layer, {{"model", 32}});
}

TEST_CASE("-infinity in f16 masks on a device, a NaN decides its own pairs, and integers wrap around") {
    if (!missing().empty()) SKIP("no OpenCL device here: lacks " << missing());
    const graph_ir graph = dsl::ir_of<extreme_formulas::all_kinds>;
    for (const shape& of : {testing::long_call, testing::few_queries})
        for (const std::int32_t w : {testing::most, 40, testing::least}) {
            workload call(graph, of, 11, {{"w", static_cast<double>(w)}});
            testing::fill_all_kinds(call, graph);
            const auto expected = call.expected();
            detail::call(detail::table_of<extreme_formulas::all_kinds>(), call.arguments(), {.target = "opencl"});
            INFO(of.text() << ", w = " << w);
            for (const char* const output : {"out", "lse"}) CHECK(call.largest_error(expected, output) < tolerance);
        }
}

namespace {

template <const auto& Graph> void check_lowest(float number, float special) {
    const graph_ir graph = dsl::ir_of<Graph>;
    for (const shape& of : {testing::long_call, testing::few_queries}) {
        workload call(graph, of, 11, {{"x", static_cast<double>(number)}});
        testing::fill_tables(call, graph, special);
        const auto expected = call.expected();
        detail::call(detail::table_of<Graph>(), call.arguments(), {.target = "opencl"});
        INFO(graph.text << ", " << of.text() << ", " << number << ", " << special);
        for (const char* const output : {"out", "lse"}) CHECK(call.largest_error(expected, output) < 1e-4);
    }
}

}  // namespace

TEST_CASE("-infinity that a formula makes masks on a device, and the lowest numbers are scores") {
    if (!missing().empty()) SKIP("no OpenCL device here: lacks " << missing());
    for (const float number : {-testing::infinity, testing::lowest, -1.0f})
        check_lowest<extreme_formulas::made_of_number>(number, 2);
    for (const float special : {-testing::infinity, testing::lowest})
        check_lowest<extreme_formulas::two_biases>(2, special);
}

TEST_CASE("a call says that it runs on a device, and which blocks it visits there") {
    if (!missing().empty()) SKIP("no OpenCL device here: lacks " << missing());
    workload call(dsl::ir_of<under_test::causal_mask>, {.queries = 130, .keys = 130}, 3);
    const explanation said =
        detail::explain(detail::table_of<under_test::causal_mask>(), call.arguments(), {.target = "opencl"});
    CHECK(said.target == "opencl");
    // Tiles of 64 queries by 32 keys, at this depth: the first sees 2 of 5 blocks, the second 4, the last all.
    CHECK(said.blocks == 15);
    CHECK(said.blocks_visited == 11);
}

TEST_CASE("every f16 is read as what it is, and bf16 rounded as on the CPU") {
    if (!missing().empty()) SKIP("no OpenCL device here: lacks " << missing());
    // One key, so that the output is the value: 2048 heads of 32 channels hold all there are.
    constexpr std::int64_t width = 32, heads = 0x10000 / width;
    const std::vector<std::uint16_t> zeros(static_cast<std::size_t>(width));
    std::vector<float16> values;
    for (std::uint32_t word = 0; word < 0x10000; ++word)
        values.push_back(std::bit_cast<float16>(static_cast<std::uint16_t>(word)));
    std::vector<float> out(values.size()), sums(static_cast<std::size_t>(heads));
    const auto zero = tensor(element_type::f16, static_cast<const void*>(zeros.data()),
                             std::vector<std::int64_t>{1, heads, 1, width}, std::vector<std::int64_t>{0, 0, 0, 1});
    run<under_test::halves>(dsl::q = zero, dsl::k = zero, dsl::v = tensor(values.data(), {1, heads, 1, width}),
                            under_test::scale = 1.0f, dsl::out = tensor(out.data(), {1, heads, 1, width}),
                            dsl::lse = tensor(sums.data(), {1, heads, 1}), options{.target = "opencl"});
    std::size_t wrong = 0;
    for (std::size_t word = 0; word < values.size(); ++word) {
        const float right = static_cast<float>(values[word]);
        wrong += !(out[word] == right || (std::isnan(out[word]) && std::isnan(right)));
    }
    CHECK(wrong == 0);

    workload call(dsl::ir_of<under_test::halves>,
                  {.batches = 2, .heads = 4, .key_heads = 2, .queries = 65, .keys = 97, .gaps = true}, 13);
    for (const char* each : {"q", "k", "v", "out"}) call.convert(each, element_type::bf16);
    call.reset_outputs();
    const auto expected = call.expected();
    detail::call(detail::table_of<under_test::halves>(), call.arguments(), {.target = "opencl"});
    CHECK(outputs_untouched(call, true));
    CHECK(call.largest_error(expected, "lse") < tolerance);
    CHECK(call.largest_error(expected, "out") <
          tolerance + 0x1p-8 * 4);  // half a unit in the last place of numbers below 4
}

namespace {

/// The arguments with all tensors but the row in buffers.
std::vector<detail::named_argument> in_buffers(workload& call, const application& own) {
    std::vector<detail::named_argument> arguments = call.arguments();
    for (detail::named_argument& each : arguments)
        if (each.is == detail::named_argument::form::view && each.name != "lse") {
            const std::vector<std::int64_t> shape(each.view.shape().begin(), each.view.shape().end());
            each.view = tensor(element_type::f32, own.buffer(call[each.name].reals), shape).in(memory::opencl);
        }
    return arguments;
}

const tensor& view_of(const std::vector<detail::named_argument>& arguments, std::string_view name) {
    return std::ranges::find(arguments, name, &detail::named_argument::name)->view;
}

std::string refusal(const std::vector<detail::named_argument>& arguments, const options& how) {
    try {
        detail::call(detail::table_of<under_test::causal_mask>(), arguments, how);
    } catch (const kernel_failure&) {
        return "the kernel was run";
    } catch (const error& e) {
        return e.what();
    }
    return "";
}

}  // namespace

TEST_CASE("tensors of an application's own buffers are used where they lie") {
    if (!missing().empty()) SKIP("no OpenCL device here: lacks " << missing());
    const application own;
    workload call(dsl::ir_of<under_test::causal_mask>,
                  {.batches = 2, .heads = 2, .key_heads = 1, .queries = 40, .keys = 70}, 11);
    const auto expected = call.expected();
    auto arguments = in_buffers(call, own);
    const auto out = std::ranges::find(arguments, "out", &detail::named_argument::name);
    // No target is named: where the tensors lie says it. The row comes back to the host.
    detail::call(detail::table_of<under_test::causal_mask>(), arguments, {.context = own.context, .stream = own.queue});
    CHECK(call.largest_error(expected, "lse") < tolerance);
    CHECK(call["out"].reals[0] == support::pattern);
    own.read(const_cast<void*>(out->view.data()), call["out"].reals);
    CHECK(call.largest_error(expected, "out") < tolerance);

    out->view = out->view.in(memory::cuda);
    CHECK_THAT(
        refusal(arguments, {}),
        ContainsSubstring("expected memory of opencl for out, as for q, or the host's, got memory of cuda; try "));
}

TEST_CASE(
    "buffers come and go through DLPack, and a call that is not waited for is done when it is synchronised with") {
    if (!missing().empty()) SKIP("no OpenCL device here: lacks " << missing());
    const application own;
    workload call(dsl::ir_of<under_test::causal_mask>,
                  {.batches = 1, .heads = 3, .key_heads = 3, .queries = 66, .keys = 40}, 17);
    const auto expected = call.expected();
    auto arguments = in_buffers(call, own);
    const auto row = std::ranges::find(arguments, "lse", &detail::named_argument::name);
    row->view = tensor(element_type::f32, own.buffer(call["lse"].reals), row->view.shape()).in(memory::opencl);
    std::vector<DLManagedTensorVersioned*> passed;
    for (detail::named_argument& each : arguments)
        if (each.is == detail::named_argument::form::view) {
            passed.push_back(to_dlpack(each.view.in(memory::opencl, 0)));
            CHECK(passed.back()->dl_tensor.device.device_type == kDLOpenCL);
            each.view = from_dlpack(*passed.back());
            CHECK(each.view.device() == 0);
        }
    // The queue says which context it is of.
    const options how{.stream = own.queue, .wait = false};
    detail::call(detail::table_of<under_test::causal_mask>(), arguments, how);
    synchronize<under_test::causal_mask>(how);
    for (const char* each : {"out", "lse"}) {
        own.read(const_cast<void*>(view_of(arguments, each).data()), call[each].reals);
        CHECK(call.largest_error(expected, each) < tolerance);
    }
    for (DLManagedTensorVersioned* each : passed) each->deleter(each);
}

TEST_CASE("devices, contexts and buffers that a call cannot use are refused before anything is written") {
    if (!missing().empty()) SKIP("no OpenCL device here: lacks " << missing());
    const application own, other;
    workload call(dsl::ir_of<under_test::causal_mask>, {.queries = 40, .keys = 70}, 19);
    auto arguments = in_buffers(call, own);
    const options how{.context = own.context, .stream = own.queue};
    const auto with = [&](std::string_view name, const tensor& view) {
        auto spoilt = arguments;
        std::ranges::find(spoilt, name, &detail::named_argument::name)->view = view;
        return spoilt;
    };
    CHECK_THAT(refusal(call.arguments(), {.target = "opencl", .device = 99}),
               ContainsSubstring("expected a device of opencl from 0 to ") && ContainsSubstring("got device 99; try "));
    CHECK_THAT(refusal(call.arguments(), {.target = "opencl", .device = -3}), ContainsSubstring("got -3; try "));
    CHECK_THAT(refusal(with("q", view_of(arguments, "q").in(memory::opencl, 99)), how),
               ContainsSubstring("got device 99"));
    CHECK_THAT(refusal(with("q", view_of(arguments, "q").in(memory::opencl, 0)),
                       {.device = 1, .context = own.context, .stream = own.queue}),
               ContainsSubstring("expected device 1 for q"));
    CHECK_THAT(refusal(arguments, {}),
               ContainsSubstring("in an OpenCL buffer of the call's context, got a buffer of another; try "));
    CHECK_THAT(refusal(arguments, {.context = other.context, .stream = other.queue}),
               ContainsSubstring("expected q in an OpenCL buffer of the call's context"));
    CHECK_THAT(refusal(arguments, {.context = own.context}),
               ContainsSubstring("expected a command queue beside the OpenCL context, got none"));
    CHECK_THAT(refusal(arguments, {.context = own.context, .stream = other.queue}),
               ContainsSubstring("expected a command queue of the context"));
    const tensor small =
        tensor(element_type::f32, own.buffer(std::vector<float>(100)), view_of(arguments, "out").shape())
            .in(memory::opencl);
    CHECK_THAT(refusal(with("out", small), how),
               ContainsSubstring("expected an OpenCL buffer of at least 5120 bytes for out, got 400; try "));
    const tensor& keys = view_of(arguments, "k");
    const std::vector<std::int64_t> backwards{keys.stride(0), keys.stride(1), -keys.stride(2), 1};
    CHECK_THAT(
        refusal(
            with("k",
                 tensor(element_type::f32, const_cast<void*>(keys.data()), keys.shape(), backwards).in(memory::opencl)),
            how),
        ContainsSubstring("got a negative stride"));
    CHECK(refusal(arguments, {.context = own.context, .stream = own.queue, .wait = false}) == "");
    own.wait();
    workload untouched(dsl::ir_of<under_test::causal_mask>, {.queries = 40, .keys = 70}, 19);
    CHECK(refusal(untouched.arguments(), {.target = "opencl", .device = 99}) != "");
    CHECK(outputs_untouched(untouched));
}
