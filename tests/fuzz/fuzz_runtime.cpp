// Calls of a variant whose kernels are instrumented C++ with every index checked, with shapes, strides, types and
// pointers of the fuzzer's. A call is either refused, and then has written nothing, or every element that its kernel
// touches is one that the views describe.
#include "../runtime/fake_variant.hpp"
#include "input.hpp"

#include <string_view>
#include <vector>

namespace {

using attune::detail::named_argument;

constexpr std::array<std::string_view, 15> names = {
    "q",    "k",   "v",   "slopes",     "bias",         "is_global", "table",  "w",
    "gain", "out", "lse", "kv_lengths", "cu_seqlens_q", "",          "nothing"};
constexpr std::array<attune::element_type, 9> types = {
    attune::element_type::f32, attune::element_type::f32, attune::element_type::bf16,
    attune::element_type::i32, attune::element_type::u8,  attune::element_type::boolean,
    attune::element_type::any, attune::element_type::i8,  attune::element_type::f8_e4m3};
constexpr std::uint32_t mark = 0xa5a5a5a5;

fuzz::arena memory;

/// A tensor as a call of these sizes has it, spoilt at times. Packed: one query a sequence.
named_argument argument(fuzz::input& from, std::size_t which, const std::array<std::int64_t, 6>& size, bool packed) {
    using enum attune::element_type;
    named_argument made{.name = names[which]};
    if (which == 7 || which == 8 || from.rarely()) {
        made.is = which == 8 ? named_argument::form::real : static_cast<named_argument::form>(from.byte() % 4);
        made.integer = from.rarely() ? from.number() : from.byte();
        made.real = 0.01 * from.byte();
        return made;
    }
    const auto [b, h, hk, queries, lk, ld] = size;
    const std::int64_t rows = packed ? 1 : b, lq = packed ? b : queries;
    std::vector<std::int64_t> shape;
    attune::element_type type = f32;
    switch (which) {
        case 0: shape = {rows, h, lq, 8}; break;
        case 1: shape = {b, hk, lk, 8}; break;
        case 2: shape = {b, hk, lk, 4}; break;
        case 3: shape = {h}; break;
        case 4: shape = {rows, h, lq, lk}; break;
        case 5: shape = {std::max(lq, lk)}, type = boolean; break;
        case 6: shape = {ld}, type = i32; break;
        case 9: shape = {rows, h, lq, 4}; break;
        case 10: shape = {rows, h, lq}; break;
        case 12:  // with all that is in it: how long it is nothing else says
            made.view = {reinterpret_cast<std::int32_t*>(memory.at(which * 65536)),
                         {1 + (from.rarely() ? from.byte() % 16 : std::clamp<std::int64_t>(b, 0, 15))}};
            made.is = named_argument::form::view;
            return made;
        default: shape = {b}, type = i32; break;
    }
    if (from.rarely()) shape[from.byte() % shape.size()] = from.extent();
    if (from.rarely()) shape.resize(from.byte() % 10, 1);
    if (from.rarely()) type = from.one_of(types);
    std::vector<std::int64_t> strides;
    if (from.flip() && !shape.empty()) {
        strides.assign(shape.size(), 1);
        for (std::size_t axis = shape.size() - 1; axis-- > 0;)
            strides[axis] = from.flip() ? from.stride() : from.byte() * 16;
        if (from.rarely()) strides.back() = from.stride();
        if (from.rarely()) strides.pop_back();
    }
    // Tensors of their own, unless it is overlap that is tried.
    char* data =
        memory.at((from.rarely() ? which / 2 : which) * 65536 + std::size_t{from.byte()} * (from.rarely() ? 1 : 4));
    if (from.rarely()) data = nullptr;
    made.is = named_argument::form::view;
    made.view = from.rarely() ? attune::tensor(type, static_cast<const void*>(data), shape, strides)
                              : attune::tensor(type, static_cast<void*>(data), shape, strides);
    return made;
}

/// Lengths that are within bounds, then the outputs' marks: memory may be shared.
void prepare(std::vector<named_argument>& arguments) {
    for (const bool outputs : {false, true})
        for (named_argument& a : arguments) {
            if (a.is != named_argument::form::view || !a.view.mutable_data()) continue;
            if (!outputs && a.name == "kv_lengths") std::memset(a.view.mutable_data(), 0, 64);
            if (!outputs && a.name == "cu_seqlens_q" && a.view.rank() == 1)
                for (std::int64_t i = 0; i < a.view.extent(0); ++i)
                    static_cast<std::int32_t*>(a.view.mutable_data())[i] = static_cast<std::int32_t>(i);
            if (outputs && (a.name == "out" || a.name == "lse")) std::memcpy(a.view.mutable_data(), &mark, sizeof mark);
        }
}

void call(fuzz::input& from) {
    std::array<std::int64_t, 6> size{};
    for (auto& extent : size) extent = from.rarely() ? 0 : 1 + from.byte() % 4;
    if (!from.rarely()) size[1] = size[2] * (1 + size[1] % 2);  // heads by key heads
    if (from.rarely()) size[from.byte() % size.size()] = from.extent();
    std::vector<named_argument> arguments;
    const bool packed = from.byte() % 4 == 0;
    for (std::size_t which = 0; which < 11; ++which)
        if (!from.rarely()) arguments.push_back(argument(from, which, size, packed));
    for (int more = from.byte() % 8; more >= 6; --more)
        arguments.push_back(argument(from, from.byte() % names.size(), size, packed));
    if (from.flip()) arguments.push_back(argument(from, 11, size, packed));
    if (packed) arguments.push_back(argument(from, 12, size, packed));
    prepare(arguments);
    const attune::options how{.threads = from.rarely() ? static_cast<int>(from.number()) : 1,
                              .target = from.rarely() ? "opencl" : ""};
    const int question = from.byte() % 8;
    try {
        if (question == 6)
            attune::detail::explain(fake::kernels(), arguments, how).json();
        else if (question == 7)
            attune::detail::blocks(fake::kernels(), arguments, how);
        else
            attune::detail::call(fake::kernels(), arguments, how);
    } catch (const attune::kernel_failure&) {
        std::abort();  // it was not told to fail
    } catch (const attune::error& e) {
        if (!std::string_view(e.what()).starts_with("attune: expected ")) std::abort();
        for (const named_argument& a : arguments) {
            const bool output = a.is == named_argument::form::view && (a.name == "out" || a.name == "lse");
            if (output && a.view.mutable_data() && std::memcmp(a.view.data(), &mark, sizeof mark) != 0) std::abort();
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::input from(data, size);
    try {
        call(from);
    } catch (const attune::error&) {
        // A view of too many axes, or with strides of another rank, is refused when it is made.
    }
    memory.tidy();
    return 0;
}
