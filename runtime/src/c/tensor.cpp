#include "c/tensor.hpp"
#include "base/text.hpp"
#include "c/support.hpp"

#include <attune/dlpack.hpp>

#include <memory>

namespace attune::detail {
namespace {

struct element_pair {
    std::int32_t code;
    element_type element;
};
constexpr element_pair elements[] = {
    {ATTUNE_F32, element_type::f32}, {ATTUNE_BF16, element_type::bf16},       {ATTUNE_F16, element_type::f16},
    {ATTUNE_I32, element_type::i32}, {ATTUNE_U8, element_type::u8},           {ATTUNE_BOOL, element_type::boolean},
    {ATTUNE_I8, element_type::i8},   {ATTUNE_F8_E4M3, element_type::f8_e4m3}, {ATTUNE_F8_E5M2, element_type::f8_e5m2},
    {ATTUNE_I64, element_type::i64}, {ATTUNE_I16, element_type::i16}};

static_assert(static_cast<int>(memory::host) == ATTUNE_HOST && static_cast<int>(memory::cuda) == ATTUNE_CUDA &&
              static_cast<int>(memory::opencl) == ATTUNE_OPENCL);

std::int32_t code_of(element_type element) {
    for (const auto& pair : elements)
        if (pair.element == element) return pair.code;
    return 0;
}

}  // namespace

element_type element_from(std::string_view name, std::int32_t code) {
    for (const auto& pair : elements)
        if (pair.code == code) return pair.element;
    fail(say("an element type of ", name, ", from ", elements[0].code, " to ", std::end(elements)[-1].code), say(code),
         name == "kv_lengths" || name == "cu_seqlens_q" ? "ATTUNE_I32" : "ATTUNE_F32");
}

tensor from_c(std::string_view name, const attune_tensor& given) {
    const element_type element = element_from(name, given.element);
    if (given.rank < 0 || given.rank > tensor::max_axes)
        fail(say(name, " with 0 to ", tensor::max_axes, " axes"), say(given.rank), "the rank of its shape");
    if (given.rank > 0 && !given.shape)
        fail(say("a shape of ", given.rank, " extents for ", name), "null", "the address of the first of them");
    if (given.memory < ATTUNE_HOST || given.memory > ATTUNE_OPENCL)
        fail(say("memory of ", name, " from 0 to ", int{ATTUNE_OPENCL}), say(given.memory),
             "ATTUNE_HOST, or clearing the struct first");
    if (given.device < 0 || (given.memory == ATTUNE_HOST && given.device != 0))
        fail(say("a device of ", name,
                 given.memory == ATTUNE_HOST ? " that is 0, for memory of the host" : " that is 0, or 1 + its index"),
             say(given.device), "attune_on_device, or clearing the struct first");
    const auto rank = static_cast<std::size_t>(given.rank);
    const tensor::extents shape(given.shape, rank), strides(given.strides, given.strides ? rank : 0);
    const tensor view = given.read_only ? tensor(element, static_cast<const void*>(given.data), shape, strides)
                                        : tensor(element, given.data, shape, strides);
    return view.in(static_cast<memory>(given.memory), given.device - 1);
}

void from_dlpack(const void* managed, bool versioned, std::string_view name, attune_tensor* to) {
    if (!managed || !to) fail("a DLPack tensor and a place for the view", "null", "the pointer inside its capsule");
    const auto* const old = static_cast<const DLManagedTensor*>(managed);
    const auto* const recent = static_cast<const DLManagedTensorVersioned*>(managed);
    const tensor view = versioned ? attune::from_dlpack(*recent, name) : attune::from_dlpack(*old, name);
    const DLTensor& described = versioned ? recent->dl_tensor : old->dl_tensor;
    *to = {.data = const_cast<void*>(view.data()),
           .shape = described.shape,
           .strides = described.strides,
           .rank = view.rank(),
           .element = code_of(view.type()),
           .read_only = view.read_only(),
           .memory = static_cast<std::int16_t>(view.where()),
           .device = static_cast<std::int16_t>(view.device() + 1)};
}

void to_dlpack(const attune_tensor* given, bool versioned, void (*release)(void*), void* owner, void** managed) {
    if (!given || !managed) fail("a tensor and a place for the DLPack tensor", "null", "the address of a pointer");
    const tensor view = from_c("the tensor", *given);
    // Nothing may be released where this throws: the caller still owns it.
    struct holder {
        void (*release)(void*) = nullptr;
        void* owner = nullptr;
        ~holder() {
            if (release) release(owner);
        }
    };
    const auto held = std::make_shared<holder>();
    *managed = versioned ? static_cast<void*>(attune::to_dlpack(view, held))
                         : static_cast<void*>(to_dlpack_unversioned(view, held));
    held->release = release, held->owner = owner;
}

}  // namespace attune::detail
