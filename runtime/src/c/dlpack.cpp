#include "base/text.hpp"

#include <attune/dlpack.hpp>
#include <attune/runtime/error.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace attune {
namespace {

using detail::fail;
using detail::say;

// Numbers that some versions of the header do not name.
constexpr std::uint8_t code_of_bool = 6, code_of_f8_e4m3 = 10, code_of_f8_e5m2 = 12;
constexpr std::uint64_t padded = 1u << 2;
constexpr DLPackVersion spoken{1, 1};

struct element_pair {
    element_type element;
    DLDataType type;
};
constexpr element_pair elements[] = {
    {element_type::f32, {kDLFloat, 32, 1}},
    {element_type::f16, {kDLFloat, 16, 1}},
    {element_type::bf16, {kDLBfloat, 16, 1}},
    {element_type::i32, {kDLInt, 32, 1}},
    {element_type::u8, {kDLUInt, 8, 1}},
    {element_type::boolean, {code_of_bool, 8, 1}},
    {element_type::i8, {kDLInt, 8, 1}},
    {element_type::f8_e4m3, {code_of_f8_e4m3, 8, 1}},
    {element_type::f8_e5m2, {code_of_f8_e5m2, 8, 1}},
    {element_type::i64, {kDLInt, 64, 1}},
    {element_type::i16, {kDLInt, 16, 1}},
};

/// "i64", "f32 in vectors of 4"
std::string spelling(DLDataType type) {
    static constexpr std::string_view letters[] = {"i", "u", "f", "handle", "bf", "complex", "bool"};
    std::string text = type.code >= std::size(letters)
                           ? say("type code ", int{type.code}, " of ", int{type.bits}, " bits")
                       : type.code == code_of_bool && type.bits == 8 ? "bool"
                                                                     : say(letters[type.code], int{type.bits});
    return type.lanes == 1 ? text : say(text, " in vectors of ", int{type.lanes});
}

/// A type of attune's for the usual elements of this one: whole numbers, truths or reals.
std::string_view nearest(DLDataType type) {
    if (type.code == kDLInt || type.code == kDLUInt) return "i32";
    return type.code == code_of_bool ? "bool" : "f32";
}

/// "q", or what is said of a tensor without a name.
std::string known_as(std::string_view name) { return name.empty() ? "a DLPack tensor" : std::string(name); }

element_type element_from(DLDataType type, std::string_view name) {
    for (const auto& [element, known] : elements)
        if (known.code == type.code && known.bits == type.bits && known.lanes == type.lanes) return element;
    fail(say("elements of f32, f16, bf16, i64, i32, i16, u8, i8, f8_e4m3, f8_e5m2 or bool in ", known_as(name)),
         spelling(type), say("a copy with elements of ", nearest(type)));
}

DLDataType type_from(element_type element) {
    for (const auto& [known, type] : elements)
        if (known == element) return type;
    fail("a tensor with an element type", "one without", "attune::tensor(pointer, {shape})");
}

/// A view under way to another framework: what DLPack hands out first, then what that refers to.
template <class Managed> struct exported {
    Managed managed{};
    std::array<std::int64_t, tensor::max_axes> shape{}, strides{};
    std::shared_ptr<const void> owner;
};

struct place {
    memory where{};
    int device{tensor::any_device};
};

/// Pinned memory of a driver is the host's.
place place_of(const DLDevice& given, std::string_view called) {
    // An enumeration of an older header has no room for all numbers that come.
    std::int32_t type = 0;
    static_assert(sizeof type == sizeof given.device_type);
    std::memcpy(&type, &given.device_type, sizeof type);
    switch (type) {
        case kDLCPU:
        case kDLCUDAHost:
        case kDLROCMHost: return {};
        case kDLCUDA:
        case kDLCUDAManaged: return {memory::cuda, given.device_id};
        case kDLOpenCL: return {memory::opencl, given.device_id};
        default: break;
    }
    const char* const name = type == kDLVulkan  ? "Vulkan"
                             : type == kDLMetal ? "Metal"
                             : type == kDLROCM  ? "ROCm"
                                                : nullptr;
    fail(say(known_as(called), " in memory of the CPU, of CUDA or in an OpenCL buffer"),
         name ? say("one of ", name) : say("device type ", type), "a copy on the CPU");
}

DLDevice device_of(const tensor& view) {
    if (view.where() == memory::host) return {kDLCPU, 0};
    if (view.device() == tensor::any_device)
        fail("a tensor that says on which device it lies", "one that says only whose memory it is",
             "attune::tensor::in(memory, device)");
    return {view.where() == memory::cuda ? kDLCUDA : kDLOpenCL, view.device()};
}

template <class Managed> Managed* export_as(const tensor& view, std::shared_ptr<const void> owner) {
    const DLDataType type = type_from(view.type());
    const DLDevice device = device_of(view);
    auto* const made = new exported<Managed>{.managed = {}, .shape = {}, .strides = {}, .owner = std::move(owner)};
    std::copy(view.shape().begin(), view.shape().end(), made->shape.begin());
    std::copy(view.strides().begin(), view.strides().end(), made->strides.begin());
    made->managed.dl_tensor = {.data = const_cast<void*>(view.data()),
                               .device = device,
                               .ndim = view.rank(),
                               .dtype = type,
                               .shape = made->shape.data(),
                               .strides = made->strides.data(),
                               .byte_offset = 0};
    made->managed.manager_ctx = made;
    made->managed.deleter = [](Managed* self) { delete static_cast<exported<Managed>*>(self->manager_ctx); };
    return &made->managed;
}

}  // namespace

tensor from_dlpack(const DLTensor& given, bool read_only, std::string_view name) {
    const auto [where, device] = place_of(given.device, name);
    if (given.ndim < 0 || given.ndim > tensor::max_axes)
        fail(say(known_as(name), " of at most ", tensor::max_axes, " axes"), say(given.ndim),
             "a view of the axes that attention knows");
    if (given.ndim > 0 && !given.shape)
        fail(say(known_as(name), " with a shape"), "null", "to report this to who made it");
    const element_type element = element_from(given.dtype, name);
    const auto rank = static_cast<std::size_t>(given.ndim);
    const tensor::extents shape(given.shape, rank), strides(given.strides, given.strides ? rank : 0);
    if (where == memory::opencl && given.byte_offset != 0)
        fail(say("an OpenCL buffer that ", known_as(name), " begins with"),
             say("an offset of ", given.byte_offset, " bytes"),
             "a part of the buffer that begins there (clCreateSubBuffer)");
    auto* const data = given.data ? static_cast<char*>(given.data) + given.byte_offset : nullptr;
    const tensor view = read_only ? tensor(element, static_cast<const void*>(data), shape, strides)
                                  : tensor(element, static_cast<void*>(data), shape, strides);
    return view.in(where, device);
}

tensor from_dlpack(const DLManagedTensor& given, std::string_view name) {
    return from_dlpack(given.dl_tensor, false, name);
}

tensor from_dlpack(const DLManagedTensorVersioned& given, std::string_view name) {
    if (given.version.major != spoken.major)
        fail(say(known_as(name), " of DLPack's version ", spoken.major),
             say("version ", given.version.major, ".", given.version.minor), "asking its producer for that version");
    if (given.flags & padded)
        fail(say("elements of f32, f16, bf16, i32, u8, i8, f8_e4m3, f8_e5m2 or bool in ", known_as(name)),
             say(spelling(given.dl_tensor.dtype), ", padded"), "a copy with elements of u8");
    return from_dlpack(given.dl_tensor, (given.flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0, name);
}

DLManagedTensorVersioned* to_dlpack(const tensor& view, std::shared_ptr<const void> owner) {
    auto* const made = export_as<DLManagedTensorVersioned>(view, std::move(owner));
    made->version = spoken;
    made->flags = view.read_only() ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
    return made;
}

DLManagedTensor* to_dlpack_unversioned(const tensor& view, std::shared_ptr<const void> owner) {
    if (view.read_only())
        fail("a tensor that may be written, since DLPack before 1.0 cannot say otherwise", "a view of const elements",
             "attune::to_dlpack");
    return export_as<DLManagedTensor>(view, std::move(owner));
}

}  // namespace attune
