// A prepared call that is captured as a graph of CUDA, and replayed with other numbers in the same memory.
#include "../device_memory.hpp"
#include "stand_in_driver.hpp"
#include "tensor_calls.hpp"

#include <catch2/matchers/catch_matchers.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

using namespace tensor_calls;
using attune::support::device_memory;

namespace {

constexpr auto& formula = tensor::paged;

template <class Function> Function* of_driver(const char* name) {
    void* const found = dlsym(dlopen("libcuda.so.1", RTLD_LAZY), name);
    if (!found) throw std::runtime_error(std::string("expected ") + name + " in the driver, got none");
    return reinterpret_cast<Function*>(found);
}

/// The bytes of a tensor of the host's, which lies without gaps.
std::span<const std::uint8_t> memory_of(const attune::tensor& t) {
    auto bytes = static_cast<std::size_t>(bytes_of(t.type()));
    for (int axis = 0; axis < t.rank(); ++axis) bytes *= static_cast<std::size_t>(t.extent(axis));
    return {static_cast<const std::uint8_t*>(t.data()), bytes};
}

/// A call whose tensors all lie on the device, kv_lengths too.
class call_there {
public:
    call_there(const workload& here, const device_memory& device) : given_(here.arguments()) {
        for (detail::named_argument& each : given_) {
            if (each.is != detail::named_argument::form::view) continue;
            const std::span<const std::uint8_t> bytes = memory_of(each.view);
            const attune::tensor there =
                device.make<std::uint8_t>({bytes.begin(), bytes.end()}, {static_cast<std::int64_t>(bytes.size())});
            each.view = attune::tensor(each.view.type(), const_cast<void*>(there.data()), each.view.shape(),
                                       each.view.strides())
                            .in(memory::cuda);
        }
    }
    const std::vector<detail::named_argument>& given() const { return given_; }
    std::uint64_t address_of(std::string_view name) const {
        return reinterpret_cast<std::uint64_t>(
            std::ranges::find(given_, name, &detail::named_argument::name)->view.data());
    }

private:
    std::vector<detail::named_argument> given_;
};

void check(int code) {
    if (code != 0) throw std::runtime_error("CUDA says " + std::to_string(code));
}

}  // namespace

TEST_CASE("a prepared call that does not wait is captured, and replayed with other lengths, pages and queries") {
    if (const std::string missing = kernels<formula>().entries.front().missing; !missing.empty())
        SKIP("no CUDA device here: lacks " << missing);
    const shape of{.batches = 2, .heads = 8, .key_heads = 2, .queries = 1, .keys = 1, .depth = 64, .value_depth = 64};
    workload call(dsl::ir_of<formula>, of, 7, {}, {{"block", 13}, {"page", 40}, {"token", 16}});
    call.set_lengths({200, 77});
    for (const char* name : {"q", "out"}) call.convert(name, element_type::bf16);
    const device_memory device("cuda");
    const call_there there(call, device);
    void* stream = nullptr;
    check(of_driver<int(void**, unsigned)>("cuStreamCreate")(&stream, 1));  // beside CUDA's default one
    const options how{.target = "cuda", .context = device.context, .stream = stream, .wait = false};
    const auto prepared = detail::prepare(detail::table_of<formula>(), there.given(), how);
    for (int time = 0; time < 3; ++time)
        detail::call(*prepared);  // loads the kernel, takes memory for the splits, and frees that of other tests
    check(of_driver<int(void*)>("cuStreamSynchronize")(stream));

    if (const auto* const driver =
            static_cast<const stand_in::controls*>(dlsym(dlopen("libcuda.so.1", RTLD_LAZY), stand_in::controls_name))) {
        driver->clear();
        const std::int64_t before = driver->so_far().allocated_bytes;
        detail::call(*prepared);
        const stand_in::record seen = driver->so_far();
        CHECK(seen.launches.size() == 3);  // of splits, of the merge, of rows whose sums are not finite
        CHECK(seen.allocated_bytes == before);
        for (const std::string& each : seen.calls) {
            INFO(each);
            CHECK((each == "cuLaunchKernel" || each == "cuModuleGetFunction" || each == "cuFuncSetAttribute"));
        }
    }

    void* graph = nullptr;
    check(of_driver<int(void*, int)>("cuStreamBeginCapture_v2")(stream, 0));
    detail::call(*prepared);
    check(of_driver<int(void*, void**)>("cuStreamEndCapture")(stream, &graph));
    void* replayed = nullptr;
    check(of_driver<int(void**, void*, unsigned long long)>("cuGraphInstantiateWithFlags")(&replayed, graph, 0));
    const auto send = [&](const char* name) {
        const std::span<const std::uint8_t> bytes = memory_of(call.view(name));
        check(of_driver<int(std::uint64_t, const void*, std::size_t)>("cuMemcpyHtoD_v2")(there.address_of(name),
                                                                                         bytes.data(), bytes.size()));
    };
    for (const std::vector<std::int32_t>& lengths : {std::vector<std::int32_t>{200, 77}, {16, 208}, {0, 1}}) {
        CAPTURE(lengths);
        std::ranges::copy(lengths, call["kv_lengths"].integers.begin());
        std::ranges::reverse(call["block_table"].integers);
        std::ranges::reverse(call["q"].halves);
        call.reset_outputs();
        for (const char* name : {"kv_lengths", "block_table", "q", "out"}) send(name);
        check(of_driver<int(void*, void*)>("cuGraphLaunch")(replayed, stream));
        check(of_driver<int(void*)>("cuStreamSynchronize")(stream));
        check(of_driver<int(void*, std::uint64_t, std::size_t)>("cuMemcpyDtoH_v2")(
            call["out"].halves.data(), there.address_of("out"), memory_of(call.view("out")).size()));
        CHECK(call.largest_error(call.expected(), "out") < tolerance(element_type::bf16));
    }
}

TEST_CASE("a call that brings lengths of the host along is not captured: a replay would read what the call lent") {
    if (const std::string missing = kernels<formula>().entries.front().missing; !missing.empty())
        SKIP("no CUDA device here: lacks " << missing);
    const shape of{.batches = 2, .heads = 8, .key_heads = 2, .queries = 1, .keys = 1, .depth = 64, .value_depth = 64};
    workload call(dsl::ir_of<formula>, of, 7, {}, {{"block", 13}, {"page", 40}, {"token", 16}});
    call.set_lengths({200, 77});
    for (const char* name : {"q", "out"}) call.convert(name, element_type::bf16);
    const device_memory device("cuda");
    std::vector<detail::named_argument> given = call_there(call, device).given();
    std::ranges::find(given, "kv_lengths", &detail::named_argument::name)->view = call.view("kv_lengths");
    void *stream = nullptr, *graph = nullptr;
    check(of_driver<int(void**, unsigned)>("cuStreamCreate")(&stream, 1));
    const options how{.target = "cuda", .context = device.context, .stream = stream, .wait = false};
    detail::call(detail::table_of<formula>(), given, how);
    check(of_driver<int(void*)>("cuStreamSynchronize")(stream));
    check(of_driver<int(void*, int)>("cuStreamBeginCapture_v2")(stream, 0));
    CHECK_THROWS_WITH(detail::call(detail::table_of<formula>(), given, how),
                      Catch::Matchers::ContainsSubstring("cuMemcpyHtoD failed"));
    of_driver<int(void*, void**)>("cuStreamEndCapture")(stream, &graph);
}
