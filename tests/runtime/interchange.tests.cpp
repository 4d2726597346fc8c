// Tensors that come from elsewhere: DLPack and mdspan.
#include "fake_variant.hpp"

#include <attune/dlpack.hpp>
#include <attune/runtime.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>
#if __has_include(<mdspan>)
#include <mdspan>
#endif

namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

auto complains(const std::string& what) { return MessageMatches(ContainsSubstring(what)); }

/// The members of std::mdspan that count.
template <class T> struct plain_mdspan {
    using element_type = T;
    using data_handle_type = T*;
    T* data{};
    std::int64_t shape[2]{}, steps[2]{};
    bool strided = true;

    static constexpr std::size_t rank() { return 2; }
    T* data_handle() const { return data; }
    std::int64_t extent(std::size_t axis) const { return shape[axis]; }
    std::int64_t stride(std::size_t axis) const { return steps[axis]; }
    bool is_strided() const { return strided; }
};
static_assert(attune::multidimensional_span<plain_mdspan<float>> &&
              attune::multidimensional_span<plain_mdspan<const attune::bfloat16>>);
static_assert(!attune::multidimensional_span<plain_mdspan<double>> && !attune::multidimensional_span<attune::tensor>);

}  // namespace

TEST_CASE("an mdspan becomes a view of the same elements") {
    float data[12]{};
    const attune::tensor t = attune::as_tensor(plain_mdspan<float>{data, {3, 2}, {4, 1}});
    CHECK(t.data() == data);
    CHECK(t.description() == "f32 (3, 2)");
    CHECK(t.stride(0) == 4);
    CHECK_FALSE(t.read_only());
    CHECK(attune::as_tensor(plain_mdspan<const float>{data, {3, 2}, {4, 1}}).read_only());
    CHECK_THROWS_MATCHES(attune::as_tensor(plain_mdspan<float>{data, {3, 2}, {4, 1}, false}), attune::error,
                         complains("strides"));
#if defined(__cpp_lib_mdspan)
    const attune::tensor s = attune::as_tensor(std::mdspan(data, 3, 4));
    CHECK(s.description() == "f32 (3, 4)");
    CHECK(s.stride(0) == 4);
#endif
}

TEST_CASE("a view goes through DLPack and comes back") {
    std::vector<attune::bfloat16> data(60);
    auto owner = std::make_shared<int>(1);
    const attune::tensor view(data.data(), {2, 5, 3}, {30, 3, 1});
    DLManagedTensorVersioned* const managed = attune::to_dlpack(view, owner);
    CHECK(owner.use_count() == 2);
    const attune::tensor back = attune::from_dlpack(*managed);
    CHECK(back.data() == view.data());
    CHECK(back.description() == view.description());
    CHECK(std::equal(back.strides().begin(), back.strides().end(), view.strides().begin()));
    CHECK_FALSE(back.read_only());
    managed->deleter(managed);
    CHECK(owner.use_count() == 1);

    DLManagedTensor* const old = attune::to_dlpack_unversioned(view, owner);
    CHECK(attune::from_dlpack(*old).description() == "bf16 (2, 5, 3)");
    old->deleter(old);
    CHECK(owner.use_count() == 1);
}

TEST_CASE("const elements stay const through DLPack") {
    const float data[6]{};
    const attune::tensor view(data, {2, 3});
    DLManagedTensorVersioned* const managed = attune::to_dlpack(view);
    CHECK(attune::from_dlpack(*managed).read_only());
    managed->deleter(managed);
    CHECK_THROWS_MATCHES(attune::to_dlpack_unversioned(view), attune::error, complains("const"));
    CHECK_THROWS_MATCHES(attune::to_dlpack(attune::tensor{}), attune::error, complains("element type"));
}

TEST_CASE("every element type has a DLPack type") {
    using enum attune::element_type;
    std::int64_t shape[] = {4};
    std::int64_t data[4]{};
    for (const auto element : {f32, bf16, f16, i64, i32, i16, u8, boolean, i8, f8_e4m3, f8_e5m2}) {
        DLManagedTensorVersioned* const managed = attune::to_dlpack(attune::tensor(element, data, shape));
        CHECK(managed->dl_tensor.dtype.bits == 8 * attune::bytes_of(element));
        CHECK(attune::from_dlpack(*managed).type() == element);
        managed->deleter(managed);
    }
}

TEST_CASE("a GPU's memory keeps its device through DLPack") {
    float data[6]{};  // an address, as good as any
    for (const auto& [where, type] :
         {std::pair(attune::memory::cuda, kDLCUDA), std::pair(attune::memory::opencl, kDLOpenCL)}) {
        const attune::tensor view = attune::tensor(data, {2, 3}).in(where, 3);
        DLManagedTensorVersioned* const managed = attune::to_dlpack(view);
        CHECK(managed->dl_tensor.device.device_type == type);
        CHECK(managed->dl_tensor.device.device_id == 3);
        const attune::tensor back = attune::from_dlpack(*managed);
        CHECK(back.where() == where);
        CHECK(back.device() == 3);
        CHECK(back.data() == data);
        managed->deleter(managed);
        CHECK_THROWS_MATCHES(attune::to_dlpack(attune::tensor(data, {2, 3}).in(where)), attune::error,
                             complains("on which device"));
    }
    DLTensor given{.data = data,
                   .device = {kDLCUDAManaged, 1},
                   .ndim = 0,
                   .dtype = {kDLFloat, 32, 1},
                   .shape = nullptr,
                   .strides = nullptr,
                   .byte_offset = 4};
    CHECK(attune::from_dlpack(given).where() == attune::memory::cuda);
    CHECK(attune::from_dlpack(given).data() == data + 1);
    given.device = {kDLCUDAHost, 1};
    CHECK(attune::from_dlpack(given).where() == attune::memory::host);
    given.device = {kDLOpenCL, 0};
    CHECK_THROWS_MATCHES(attune::from_dlpack(given), attune::error, complains("got an offset of 4 bytes"));
    given.device = {kDLCUDA, 1 << 20};
    CHECK_THROWS_MATCHES(attune::from_dlpack(given), attune::error, complains("index"));
}

TEST_CASE("a view says of which device only beside a GPU's memory") {
    const attune::tensor view(static_cast<float*>(nullptr), {0});
    CHECK(view.device() == attune::tensor::any_device);
    CHECK(view.in(attune::memory::cuda, 2).in(attune::memory::opencl).device() == attune::tensor::any_device);
    CHECK_THROWS_MATCHES(view.in(attune::memory::host, 0), attune::error, complains("expected a device's index"));
    CHECK_THROWS_MATCHES(view.in(attune::memory::cuda, -2), attune::error, complains("got -2"));
}

TEST_CASE("DLPack tensors that no kernel can take are refused") {
    float data[6]{};
    std::int64_t shape[] = {2, 3, 1, 1, 1, 1, 1, 1, 1};
    const DLTensor right{.data = data,
                         .device = {kDLCPU, 0},
                         .ndim = 2,
                         .dtype = {kDLFloat, 32, 1},
                         .shape = shape,
                         .strides = nullptr,
                         .byte_offset = 4};
    CHECK(attune::from_dlpack(right).data() == data + 1);
    CHECK(attune::from_dlpack(right).stride(0) == 3);
    const auto refused = [&](auto spoil, const std::string& why) {
        DLTensor wrong = right;
        spoil(wrong);
        CHECK_THROWS_MATCHES(attune::from_dlpack(wrong), attune::error, complains(why));
    };
    refused(
        [](DLTensor& t) { t.device.device_type = kDLVulkan; },
        "expected a DLPack tensor in memory of the CPU, of CUDA or in an OpenCL buffer, got one of Vulkan; try a copy");
    refused([](DLTensor& t) { t.device.device_type = static_cast<DLDeviceType>(14); }, "device type 14");
    refused(
        [](DLTensor& t) {
            const std::int32_t later = 1017;  // more than an enumeration of an old header holds
            std::memcpy(&t.device.device_type, &later, sizeof later);
        },
        "device type 1017");
    refused([](DLTensor& t) { t.dtype.bits = 64; },
            "expected elements of f32, f16, bf16, i64, i32, i16, u8, i8, f8_e4m3, f8_e5m2 or bool in a DLPack tensor, "
            "got f64; "
            "try a copy with "
            "elements of f32");
    refused([](DLTensor& t) { t.dtype = {kDLUInt, 32, 1}; }, "got u32; try a copy with elements of i32");
    refused([](DLTensor& t) { t.dtype = {kDLUInt, 16, 1}; }, "got u16; try a copy with elements of i32");
    refused([](DLTensor& t) { t.dtype = {6, 8, 2}; }, "got bool in vectors of 2; try a copy with elements of bool");
    refused([](DLTensor& t) { t.dtype.lanes = 4; }, "got f32 in vectors of 4;");
    refused([](DLTensor& t) { t.dtype = {kDLComplex, 64, 1}; }, "got complex64;");
    refused([](DLTensor& t) { t.dtype = {11, 8, 1}; }, "got type code 11 of 8 bits;");
    refused([](DLTensor& t) { t.ndim = 9; }, "8 axes");
    refused([](DLTensor& t) { t.ndim = -1; }, "8 axes");
    refused([](DLTensor& t) { t.shape = nullptr; }, "a shape");
    DLManagedTensorVersioned other{};
    other.version = {2, 0};
    CHECK_THROWS_MATCHES(attune::from_dlpack(other), attune::error, complains("version 2.0"));
    other.version = {1, 1};
    other.dl_tensor = right;
    other.flags = 4, other.dl_tensor.dtype = {kDLInt, 4, 1};
    CHECK_THROWS_MATCHES(attune::from_dlpack(other), attune::error,
                         complains("got i4, padded; try a copy with elements of u8"));
}

TEST_CASE("a DLPack tensor of more than 2^31 - 1 elements keeps its numbers, and calls refuse it with them") {
    fake::call c;
    std::int64_t shape[] = {2, 2, 7, 8}, strides[] = {0, std::int64_t{1} << 36, 8, 1};
    DLTensor given{.data = c.k.data(),
                   .device = {kDLCPU, 0},
                   .ndim = 4,
                   .dtype = {kDLFloat, 32, 1},
                   .shape = shape,
                   .strides = strides,
                   .byte_offset = 0};
    const auto refusal_of = [&] {
        auto all = c.arguments();
        for (auto& each : all)
            if (each.name == "k") each.view = attune::from_dlpack(given);
        return fake::refusal(all);
    };
    CHECK_THAT(refusal_of(), ContainsSubstring("a stride of at most 2147483647 elements along key_head of k, got "
                                               "68719476736;"));
    strides[1] = 0, strides[2] = 64, shape[2] = (std::int64_t{1} << 25) + 1;
    CHECK_THAT(refusal_of(), ContainsSubstring("at most 2147483647 elements from the first to the last along key of k, "
                                               "got 33554433 steps of 64;"));
    strides[2] = 0, shape[2] = std::int64_t{1} << 32;
    CHECK_THAT(refusal_of(), ContainsSubstring("an extent from 0 to 2147483647 along key of k, got 4294967296;"));
    CHECK(c.untouched());
}

TEST_CASE("a refused DLPack tensor is called by its name") {
    std::int64_t shape[] = {2};
    DLManagedTensorVersioned given{};
    given.version = {1, 1};
    given.dl_tensor = {.data = shape,
                       .device = {kDLCPU, 0},
                       .ndim = 1,
                       .dtype = {kDLUInt, 64, 1},
                       .shape = shape,
                       .strides = nullptr,
                       .byte_offset = 0};
    CHECK_THROWS_MATCHES(attune::from_dlpack(given, "documents"), attune::error,
                         complains("expected elements of f32, f16, bf16, i64, i32, i16, u8, i8, f8_e4m3, f8_e5m2 or "
                                   "bool in documents, got u64; try"));
    given.dl_tensor.device.device_type = kDLMetal;
    CHECK_THROWS_MATCHES(
        attune::from_dlpack(given, "q"), attune::error,
        complains("expected q in memory of the CPU, of CUDA or in an OpenCL buffer, got one of Metal"));
    given.version.major = 2;
    CHECK_THROWS_MATCHES(attune::from_dlpack(given, "q"), attune::error,
                         complains("expected q of DLPack's version 1, got version 2."));
    const DLManagedTensor old{.dl_tensor = given.dl_tensor, .manager_ctx = nullptr, .deleter = nullptr};
    CHECK_THROWS_MATCHES(attune::from_dlpack(old, "k"), attune::error, complains("expected k in memory"));
}
