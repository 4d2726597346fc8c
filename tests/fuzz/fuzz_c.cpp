// The C functions with structs of the fuzzer's, on compiled kernels. Nothing may throw, abort or reach beyond the
// views.
#include "input.hpp"

#include <attune/dlpack.h>
#include <attune_common.h>

#include <optional>

namespace {

constexpr std::array<const char*, 10> names = {"q",     "k",          "v",      "out", "left",
                                               "right", "kv_lengths", "slopes", "",    nullptr};
fuzz::arena memory;

struct tensor_in_memory {
    std::array<std::int64_t, 9> shape{}, strides{};
    attune_tensor view{};

    tensor_in_memory(fuzz::input& from, std::size_t which, std::int64_t length, std::int64_t heads) {
        shape.fill(1), strides.fill(1);
        shape[0] = 1 + length % 2, shape[1] = heads, shape[2] = length, shape[3] = 64;
        if (which == 6) shape[0] = 1;
        std::int64_t step = 1;
        for (std::size_t axis = 4; axis-- > 0;) strides[axis] = step, step *= shape[axis];
        if (from.rarely()) shape[from.byte() % 4] = from.extent();
        if (from.rarely()) strides[from.byte() % 4] = from.stride();
        view.data = memory.at(which * 65536 + std::size_t{from.byte()} * (from.rarely() ? 1 : 4));
        if (from.rarely()) view.data = nullptr;
        view.shape = from.rarely() ? nullptr : shape.data();
        view.strides = from.flip() ? nullptr : strides.data();
        view.rank = from.rarely() ? static_cast<std::int32_t>(from.number()) : which == 6 ? 1 : 4;
        view.element = from.rarely() ? static_cast<std::int32_t>(from.number())
                       : which == 6  ? ATTUNE_I32
                                     : 1 + (from.rarely() ? from.byte() % 6 : 0);
        view.read_only = from.rarely();
        view.memory = from.rarely() ? static_cast<std::int16_t>(from.number()) : 0;
        view.device = from.rarely() ? static_cast<std::int16_t>(from.number()) : 0;
    }
};

void check(attune_status status, bool may_fail = false) {
    if (status == ATTUNE_OK || (may_fail && status == ATTUNE_FAILED)) return;
    if (status != ATTUNE_REFUSED || std::strncmp(attune_error_text(), "attune: expected ", 17) != 0) std::abort();
}

void dlpack(fuzz::input& from) {
    std::array<std::int64_t, 9> shape{}, strides{};
    for (auto& extent : shape) extent = from.extent();
    for (auto& stride : strides) stride = from.stride();
    DLManagedTensorVersioned given{};
    given.version = {from.rarely() ? from.byte() : 1u, from.byte()};
    given.flags = from.byte();
    given.dl_tensor = {
        .data = from.rarely() ? nullptr : memory.at(from.byte()),
        .device = {static_cast<DLDeviceType>(from.rarely() ? from.byte() % 18 : 1),
                   from.rarely() ? static_cast<std::int32_t>(from.number()) : 0},
        .ndim = static_cast<std::int32_t>(from.rarely() ? from.number() : from.byte() % 10),
        .dtype = {static_cast<std::uint8_t>(from.byte() % 8), static_cast<std::uint8_t>(8 << from.byte() % 3), 1},
        .shape = from.rarely() ? nullptr : shape.data(),
        .strides = from.flip() ? nullptr : strides.data(),
        .byte_offset = from.byte()};
    attune_tensor view{};
    const attune_status status = attune_tensor_from_dlpack(&given, 1, &view);
    check(status);
    void* back = nullptr;
    if (status != ATTUNE_OK || attune_tensor_to_dlpack(&view, 1, nullptr, nullptr, &back) != ATTUNE_OK) return;
    auto* const again = static_cast<DLManagedTensorVersioned*>(back);
    if (again->dl_tensor.data != view.data || again->dl_tensor.ndim != view.rank) std::abort();
    again->deleter(again);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::input from(data, size);
    if (from.rarely()) {
        dlpack(from);
        memory.tidy();
        return 0;
    }
    const std::int64_t length = from.rarely() ? 0 : 1 + from.byte() % 20, heads = 1 + from.byte() % 3;
    std::array<attune_argument, 8> list{};
    std::array<std::optional<tensor_in_memory>, 8> tensors;
    std::size_t count = 0;
    for (std::size_t which = 0; which < 7 && count < list.size(); ++which) {
        if (from.rarely() || (which == 6 && from.flip())) continue;
        attune_argument& a = list[count];
        tensors[count].emplace(from, which, length, heads);
        a.name = from.rarely() ? from.one_of(names) : names[which];
        a.kind = from.rarely()              ? static_cast<std::int32_t>(from.number())
                 : which == 4 || which == 5 ? ATTUNE_INTEGER
                                            : ATTUNE_TENSOR;
        a.integer = from.rarely() ? from.number() : from.byte();
        a.real = from.byte();
        a.tensor = tensors[count]->view;
        if (which == 6) std::memset(memory.at(which * 65536), 0, 2048);
        ++count;
    }
    attune_options how{};
    how.size = from.rarely() ? from.byte() : sizeof how;
    how.threads = from.rarely() ? static_cast<std::int32_t>(from.number()) : 1;
    if (from.rarely())
        how.pool = [](void*, std::int32_t count, std::int32_t, attune_task task, void* tasks) {
            for (std::int32_t i = 0; i < count; ++i) task(tasks, i);
        };
    how.target = from.rarely() ? "x86-64-v9" : nullptr;
    if (from.rarely())
        how.device = static_cast<std::int32_t>(from.number()), how.asynchronous = from.byte(),
        how.context = memory.at(0), how.stream = memory.at(from.byte());
    const attune_variant* const variant =
        from.flip() ? attune_common_window_attention_variant() : attune_common_causal_attention_variant();
    const attune_argument* const arguments = from.rarely() ? nullptr : list.data();
    char text[300];
    std::size_t needed = 0;
    switch (from.byte() % 8) {
        case 5: check(attune_explain(variant, arguments, count, &how, text, from.byte(), &needed)); break;
        case 4: check(attune_synchronize(variant, &how)); break;
        case 6: check(attune_describe(variant, text, from.byte(), &needed)); break;
        case 7: check(attune_kernels(variant, text, from.byte(), &needed)); break;
        default: check(attune_run(variant, arguments, count, from.flip() ? &how : nullptr)); break;
    }
    memory.tidy();
    return 0;
}
