// The runtime's calls of CUDA's driver, seen by one that stands in for it (stand_in_driver.cpp): contexts, streams,
// memory, shared memory, errors; the kernels run on a device in software. And the same program without any driver. It
// holds a kernel for the CPU, too. The variant is causal attention.
#include "../../support/workload_values.hpp"
#include "../opencl/halves.hpp"
#include "stand_in_driver.hpp"

#include <attune/runtime.hpp>
#include <attune/workload.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

using namespace attune;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using support::workload;

namespace {

constexpr support::shape sizes{
    .batches = 2, .heads = 4, .key_heads = 2, .queries = 70, .keys = 90, .depth = 128, .value_depth = 128};

const stand_in::controls& driver() {
    static void* const library = dlopen("libcuda.so.1", RTLD_LAZY);
    static const auto* const controls =
        library ? static_cast<const stand_in::controls*>(dlsym(library, stand_in::controls_name)) : nullptr;
    if (!controls) throw std::runtime_error("expected the driver that stands in for CUDA's, got another");
    return *controls;
}
template <class Function> Function* of_driver(const char* name) {
    return reinterpret_cast<Function*>(dlsym(dlopen("libcuda.so.1", RTLD_LAZY), name));
}

/// A context that this thread has made its own, as CUDA's runtime does.
class made_current {
public:
    explicit made_current(void* context) { REQUIRE(of_driver<int(void*)>("cuCtxPushCurrent_v2")(context) == 0); }
    ~made_current() {
        void* was = nullptr;
        of_driver<int(void**)>("cuCtxPopCurrent_v2")(&was);
    }
};
void* current_context() {
    void* now = nullptr;
    REQUIRE(of_driver<int(void**)>("cuCtxGetCurrent")(&now) == 0);
    return now;
}

/// Every call of a function of the driver's fails.
class failing {
public:
    failing(const char* function, int code) { driver().fail(function, code); }
    ~failing() { driver().clear(); }
    failing(const failing&) = delete;
};

struct fresh_call : workload {
    fresh_call() : workload(dsl::ir_of<under_test::halves>, sizes, 5) {
        REQUIRE(of_driver<int(unsigned)>("cuInit")(0) == 0);
        driver().clear();
    }
    stand_in::record run(const options& how) { return run(arguments(), how); }
    stand_in::record run(const std::vector<detail::named_argument>& given, const options& how) {
        detail::call(detail::table_of<under_test::halves>(), given, how);
        return driver().so_far();
    }
    std::string refused(const std::vector<detail::named_argument>& given, const options& how) {
        try {
            run(given, how);
        } catch (const kernel_failure& e) {
            return std::string("failed: ") + e.what();
        } catch (const error& e) {
            CHECK(outputs_untouched(*this));
            CHECK(driver().so_far().launches.empty());
            return e.what();
        }
        return "";
    }
    /// The arguments with q, k, v and out in memory of an application's context.
    std::vector<detail::named_argument> on_device(void* context, int device) {
        const made_current now(context);
        auto given = arguments();
        for (detail::named_argument& each : given) {
            if (each.is != detail::named_argument::form::view || each.name == "lse") continue;
            std::uint64_t address = 0;
            REQUIRE(of_driver<int(std::uint64_t*, std::size_t)>("cuMemAlloc_v2")(
                        &address, (*this)[each.name].reals.size() * sizeof(float)) == 0);
            each.view =
                tensor(element_type::f32, reinterpret_cast<void*>(address), each.view.shape(), each.view.strides())
                    .in(memory::cuda, device);
        }
        driver().clear();
        return given;
    }
};

std::ptrdiff_t count(const stand_in::record& of, const char* name) { return std::ranges::count(of.calls, name); }
std::ptrdiff_t place(const stand_in::record& of, const char* name) {
    return std::ranges::find(of.calls, name) - of.calls.begin();
}
bool holds(const stand_in::launch& of, const void* address) {
    return std::ranges::find(of.arguments, reinterpret_cast<std::uint64_t>(address)) != of.arguments.end();
}
const void* address_of(const std::vector<detail::named_argument>& given, std::string_view name) {
    return std::ranges::find(given, name, &detail::named_argument::name)->view.data();
}

}  // namespace

TEST_CASE(
    "a call with tensors of the host runs in the first device's primary context, and its outputs are those of the "
    "device",
    "[driver]") {
    fresh_call call;
    const auto seen = call.run({.target = "cuda"});
    REQUIRE(seen.launches.size() == 1);
    const stand_in::launch& launched = seen.launches.front();
    CHECK(launched.context == driver().primary_of(0));
    CHECK(launched.stream == nullptr);
    CHECK(launched.shared_bytes > 48u << 10);  // which has to be asked for
    CHECK(place(seen, "cuFuncSetAttribute") < place(seen, "cuLaunchKernel"));
    CHECK(count(seen, "cuMemcpyHtoDAsync") > 0);
    CHECK(count(seen, "cuMemcpyDtoH") > 0);
    CHECK(seen.calls.back() == "cuStreamSynchronize");
    for (const char* output : {"out", "lse"}) CHECK(call.largest_error(call.expected(), output) < 2e-5);
    CHECK(seen.unbalanced == 0);
    CHECK(current_context() == nullptr);
    CHECK(count(seen, "cuCtxCreate") == 0);

    const auto again = fresh_call().run({.target = "cuda"});
    CHECK(count(again, "cuModuleLoadData") == 0);  // once a context
    CHECK(again.allocated_bytes <=
          seen.allocated_bytes);  // Halide keeps 32 pieces that are not in use: those of other tests may go
}

TEST_CASE("an application's context, stream and memory are used as they are", "[driver]") {
    fresh_call call;
    int stream = 0;
    void* const context = driver().context_of(1);
    auto given = call.on_device(context, 1);
    const auto seen = call.run(given, {.context = context, .stream = &stream});
    REQUIRE(seen.launches.size() == 1);
    CHECK(seen.launches[0].context == context);
    CHECK(seen.launches[0].stream == &stream);
    for (const char* each : {"q", "k", "v", "out"}) CHECK(holds(seen.launches[0], address_of(given, each)));
    CHECK(count(seen, "cuDevicePrimaryCtxRetain") == 0);
    // The row comes back to the host, by the stream, and is there; nothing else does.
    CHECK(count(seen, "cuMemcpyDtoHAsync") > 0);
    CHECK(call["lse"].reals[0] != support::pattern);
    CHECK(call["out"].reals[0] == support::pattern);
    CHECK(seen.unbalanced == 0);
    CHECK(current_context() == nullptr);
}

TEST_CASE("a call does not wait if it is told not to, and is waited for", "[driver]") {
    fresh_call call;
    int stream = 0;
    void* const context = driver().context_of(0);
    auto given = call.on_device(context, 0);
    auto& row = std::ranges::find(given, "lse", &detail::named_argument::name)->view;
    std::uint64_t address = 0;
    {
        const made_current now(context);
        REQUIRE(of_driver<int(std::uint64_t*, std::size_t)>("cuMemAlloc_v2")(
                    &address, call["lse"].reals.size() * sizeof(float)) == 0);
    }
    row = tensor(element_type::f32, reinterpret_cast<void*>(address), row.shape(), row.strides()).in(memory::cuda);
    const options how{.context = context, .stream = &stream, .wait = false};
    CHECK(count(call.run(given, how), "cuStreamSynchronize") == 0);
    synchronize<under_test::halves>(how);
    CHECK(count(driver().so_far(), "cuStreamSynchronize") == 1);
    CHECK(driver().so_far().unbalanced == 0);
    {
        const failing now("cuStreamSynchronize", 700);
        CHECK_THROWS_MATCHES(
            synchronize<under_test::halves>(how), kernel_failure,
            MessageMatches(ContainsSubstring("CUDA_ERROR_ILLEGAL_ADDRESS, an illegal memory access was encountered")));
    }
    CHECK(count(call.run(given, {.context = context, .stream = &stream}), "cuStreamSynchronize") > 0);
}

TEST_CASE("what is current in the thread is used, unless it is of another device than asked for", "[driver]") {
    fresh_call call;
    const made_current own(driver().context_of(0));
    CHECK(call.run({.target = "cuda"}).launches.back().context == driver().context_of(0));
    CHECK(call.run({.target = "cuda", .device = 0}).launches.back().context == driver().context_of(0));
    CHECK(call.run({.target = "cuda", .device = 1}).launches.back().context == driver().primary_of(1));
    CHECK(call.run({.target = "cuda", .context = driver().context_of(1)}).launches.back().context ==
          driver().context_of(1));
    // Where tensors say that they lie.
    auto given = call.on_device(driver().context_of(1), 1);
    CHECK(call.run(given, {}).launches.back().context == driver().primary_of(1));
    CHECK(current_context() == driver().context_of(0));
    CHECK(driver().so_far().unbalanced == 1);  // this test's
}

TEST_CASE("devices that there are not, and tensors of another than the call's, are refused", "[driver]") {
    fresh_call call;
    CHECK(call.refused(call.arguments(), {.target = "cuda", .device = 7}) ==
          "attune: expected a device of cuda from 0 to 1, as many as there are, got device 7; try "
          "attune::options::device = 0");
    auto given = call.on_device(driver().context_of(1), 1);
    CHECK_THAT(call.refused(given, {.device = 0}),
               ContainsSubstring("expected device 0 for q, as for attune::options::device, got device 1; try "));
    CHECK_THAT(
        call.refused(given, {.context = driver().context_of(0)}),
        ContainsSubstring("expected a CUDA context of device 1") && ContainsSubstring("got one of another device"));
    auto& keys = std::ranges::find(given, "k", &detail::named_argument::name)->view;
    keys = keys.in(memory::cuda, 0);
    CHECK_THAT(call.refused(given, {}), ContainsSubstring("expected device 1 for k, as for q, got device 0; try "));
    int none = 0;
    CHECK_THAT(call.refused(call.arguments(), {.target = "cuda", .context = &none}),
               ContainsSubstring("expected a CUDA context in attune::options::context, got CUDA_ERROR_INVALID_CONTEXT, "
                                 "invalid device context"));
    const failing now("cuDevicePrimaryCtxRetain", 2);
    CHECK_THAT(call.refused(call.arguments(), {.target = "cuda"}),
               ContainsSubstring("got CUDA_ERROR_OUT_OF_MEMORY, out of memory"));
    CHECK(driver().so_far().unbalanced == 0);
}

TEST_CASE("what the driver refuses is said in its words, and the next call is as if nothing had been", "[driver]") {
    fresh_call().run({.target = "cuda"});
    const std::int64_t before = driver().so_far().allocated_bytes;
    for (const char* step : {"cuMemcpyHtoDAsync", "cuModuleGetFunction", "cuFuncSetAttribute", "cuLaunchKernel",
                             "cuMemcpyDtoH", "cuStreamSynchronize"}) {
        INFO(step);
        fresh_call call;
        {
            const failing now(step, 700);
            CHECK_THAT(call.refused(call.arguments(), {.target = "cuda"}),
                       ContainsSubstring("failed: ") && ContainsSubstring("CUDA_ERROR_ILLEGAL_ADDRESS"));
            CHECK(driver().so_far().unbalanced == 0);
        }
        CHECK(fresh_call().run({.target = "cuda"}).launches.size() == 1);
        CHECK(driver().so_far().allocated_bytes <= before);
    }
    const failing now("cuMemAlloc", 2);
    workload large(dsl::ir_of<under_test::halves>, {.queries = 700, .keys = 900, .depth = 128, .value_depth = 128},
                   5);  // more than is kept from earlier calls
    CHECK_THROWS_MATCHES(detail::call(detail::table_of<under_test::halves>(), large.arguments(), {.target = "cuda"}),
                         kernel_failure, MessageMatches(ContainsSubstring("CUDA_ERROR_OUT_OF_MEMORY")));
    CHECK(driver().so_far().unbalanced == 0);
}

TEST_CASE("threads launch at once, each in its context and on its stream", "[driver]") {
    fresh_call{};
    int streams[4]{};
    {
        std::vector<std::jthread> threads;
        for (int& stream : streams)
            threads.emplace_back([&stream, device = static_cast<int>(&stream - streams) % 2] {
                workload call(dsl::ir_of<under_test::halves>, sizes, 9);
                const auto arguments = call.arguments();
                for (int i = 0; i < 8; ++i)
                    detail::call(detail::table_of<under_test::halves>(), arguments,
                                 {.target = "cuda", .context = driver().context_of(device), .stream = &stream});
            });
    }
    const auto seen = driver().so_far();
    CHECK(seen.launches.size() == 32);
    for (const stand_in::launch& each : seen.launches)
        CHECK(each.context == driver().context_of(static_cast<int>(static_cast<int*>(each.stream) - streams) % 2));
    CHECK(seen.unbalanced == 0);
}

TEST_CASE("a call without a word of a GPU does not ask the driver", "[driver]") {
    fresh_call call;
    CHECK(call.run({}).calls.empty());
}

TEST_CASE("kernels for the CPU run beside those for a GPU, with a driver and without", "[driver][none]") {
    workload call(dsl::ir_of<under_test::halves>, sizes, 5);
    detail::call(detail::table_of<under_test::halves>(), call.arguments(), {});
    for (const char* output : {"out", "lse"}) CHECK(call.largest_error(call.expected(), output) < 2e-5);
    synchronize<under_test::halves>();
}

TEST_CASE("without a driver a call for a GPU is refused, with what is missing", "[none]") {
    workload call(dsl::ir_of<under_test::halves>, sizes, 5);
    const auto& table = detail::table_of<under_test::halves>();
    const std::string lacks =
        "expected a machine that runs cuda kernels, as attune::options asks, got cuda: lacks libcuda.so.1, NVIDIA's "
        "driver; try ";
    CHECK_THROWS_MATCHES(detail::call(table, call.arguments(), {.target = "cuda"}), error,
                         MessageMatches(ContainsSubstring(lacks)));
    CHECK_THROWS_MATCHES(detail::explain(table, call.arguments(), {.target = "cuda"}), error,
                         MessageMatches(ContainsSubstring(lacks)));
    auto given = call.arguments();
    for (auto& each : given)
        if (each.name == "q") each.view = each.view.in(memory::cuda, 0);
    CHECK_THROWS_MATCHES(detail::call(table, given, {}), error,
                         MessageMatches(ContainsSubstring("cuda: lacks libcuda.so.1")));
    CHECK_THROWS_MATCHES(synchronize<under_test::halves>({.target = "cuda"}), error,
                         MessageMatches(ContainsSubstring("lacks libcuda.so.1")));
    CHECK(outputs_untouched(call));
    const kernel_list linked = kernels<under_test::halves>();
    CHECK(std::ranges::any_of(linked.entries, [](const auto& each) {
        return each.target == "cuda" && each.missing == "libcuda.so.1, NVIDIA's driver";
    }));
    CHECK(std::ranges::any_of(linked.entries, [](const auto& each) { return each.chosen && each.missing.empty(); }));
}
