#pragma once
#include <attune/c.h>
#include <attune/dsl.hpp>

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

/// Variants as functions of TVM-FFI, for the file that attune_add_tvm_ffi_library writes. The caller allocates the
/// outputs, as TVM-FFI's functions have it, so that the library asks for no allocator of a framework's.
namespace attune::tvm_ffi_functions {

enum class form { tensor, optional_tensor, integer, real, boolean, output };

struct parameter {
    std::string_view name;
    form is{};
    const input_declaration* declared = nullptr;  ///< null: kv_lengths, cu_seqlens_q, an output
};

inline constexpr std::string_view first[] = {"q", "k", "v"};

constexpr form form_of(const input_declaration& input) {
    if (!input.is_scalar) return form::tensor;
    if (input.element == element_type::boolean) return form::boolean;
    return input.element == element_type::i32 ? form::integer : form::real;
}

/// q, k and v first, as in all systems; the other inputs; what may be None; the outputs.
template <const auto& Graph>
inline constexpr auto parameters = [] {
    constexpr const graph_ir& graph = dsl::ir_of<Graph>;
    // A formula may have an input of this name.
    constexpr bool packs = std::ranges::find(graph.inputs, std::string_view(dsl::cu_seqlens_q_input::label),
                                             &input_declaration::name) == graph.inputs.end();
    std::array<parameter, graph.inputs.size() + 1 + packs + graph.outputs.size()> list{};
    std::size_t count = 0;
    const auto place = [](std::string_view name) {
        return std::find(std::begin(first), std::end(first), name) - std::begin(first);
    };
    for (std::ptrdiff_t each = 0; each <= std::ssize(first); ++each)
        for (const input_declaration& input : graph.inputs)
            if (place(input.name) == each) list[count++] = {input.name, form_of(input), &input};
    list[count++] = {dsl::kv_lengths_input::label, form::optional_tensor};
    if (packs) list[count++] = {dsl::cu_seqlens_q_input::label, form::optional_tensor};
    for (const output_declaration& output : graph.outputs) list[count++] = {output.name, form::output};
    return list;
}();

template <form Is> struct type_of {
    using type = DLTensor*;
};
template <> struct type_of<form::optional_tensor> {
    using type = tvm::ffi::Optional<DLTensor*>;
};
template <> struct type_of<form::integer> {
    using type = std::int64_t;
};
template <> struct type_of<form::real> {
    using type = double;
};
template <> struct type_of<form::boolean> {
    using type = bool;
};

/// What TVM-FFI raises: its kinds of errors are those of Python.
[[noreturn]] inline void raise(attune_status status) {
    const std::string text = attune_error_text();
    if (status == ATTUNE_REFUSED) TVM_FFI_THROW(ValueError) << text;
    if (status == ATTUNE_NO_MEMORY) TVM_FFI_THROW(MemoryError) << text;
    TVM_FFI_THROW(RuntimeError) << text;
}

/// DLPack allows null strides, which TensorView of TVM-FFI does not.
inline attune_argument argument(const char* name, const DLTensor* given) {
    const auto type = given->device.device_type;
    if (type != kDLCPU && type != kDLCUDAHost && type != kDLROCMHost)
        TVM_FFI_THROW(ValueError) << "attune: expected " << name
                                  << " on the CPU, got a tensor of another device; try a copy of it on the CPU";
    DLManagedTensor seen{};
    seen.dl_tensor = *given;
    attune_argument made{};
    if (const attune_status status = attune_argument_from_dlpack(name, &seen, 0, &made); status != ATTUNE_OK)
        raise(status);
    return made;
}
inline attune_argument argument(const char* name, std::int64_t given) { return attune_integer_argument(name, given); }
inline attune_argument argument(const char* name, double given) { return attune_real_argument(name, given); }
inline attune_argument argument(const char* name, bool given) { return attune_boolean_argument(name, given); }

template <std::size_t Count> class call {
public:
    template <class Given> void take(std::string_view name, const Given& given) {
        names_[count_] = name;
        list_[count_] = argument(names_[count_].c_str(), given);
        ++count_;
    }
    template <class Given> void take(std::string_view name, const tvm::ffi::Optional<Given>& given) {
        if (given.has_value()) take(name, given.value());
    }

    void run(const attune_variant* variant) const {
        if (const attune_status status = attune_run(variant, list_.data(), count_, nullptr); status != ATTUNE_OK)
            raise(status);
    }

private:
    std::array<std::string, Count> names_;
    std::array<attune_argument, Count> list_{};
    std::size_t count_ = 0;
};

template <const auto& Graph, const attune_variant* (*Variant)(),
          class Places = std::make_index_sequence<parameters<Graph>.size()>>
struct function;

/// What is exported: a function of one argument for each parameter, whose types TVM-FFI checks.
template <const auto& Graph, const attune_variant* (*Variant)(), std::size_t... Place>
struct function<Graph, Variant, std::index_sequence<Place...>> {
    void operator()(typename type_of<parameters<Graph>[Place].is>::type... given) const {
        call<sizeof...(Place)> made;
        (made.take(parameters<Graph>[Place].name, given), ...);
        made.run(Variant());
    }
};

/// "alibi(q, k, v, slopes, kv_lengths or None, cu_seqlens_q or None, out)", and a line for each of them.
template <const auto& Graph> const std::string& text_of(std::string_view name) {
    static const std::string made = [&] {
        std::string call(name), lines;
        const char* comma = "(";
        for (const parameter& each : parameters<Graph>) {
            const bool optional = each.is == form::optional_tensor;
            (call += comma) += each.name;
            if (optional) call += " or None";
            comma = ", ";
            ((lines += "\n") += each.name) += ": ";
            if (each.is == form::output)
                lines += "an output, written";
            else if (optional)
                (lines += each.name == dsl::cu_seqlens_q_input::label ? "i32 (batch + 1)" : "i32 (batch)") +=
                    ", where it is passed";
            else {
                const bool any = each.declared->element == element_type::any;
                lines += any ? "f32, bf16 or f16, as compiled" : name_of(each.declared->element);
                if (each.is == form::tensor) (lines += ", ") += std::to_string(each.declared->rank) + " axes";
            }
        }
        return call + ")\n" + lines;
    }();
    return made;
}

}  // namespace attune::tvm_ffi_functions
