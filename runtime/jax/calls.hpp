#pragma once
#include <attune/c.h>
#include <attune/runtime/detail/operation.hpp>

#include <xla/ffi/api/ffi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Variants as foreign functions of XLA, for the file that attune_add_jax_library writes. Only headers of jaxlib are
/// used: the library does not link to it.
namespace attune::jax_calls {

namespace ffi = xla::ffi;

struct element_pair {
    ffi::DataType xla;
    std::int32_t attune;
};
inline constexpr element_pair elements[] = {
    {ffi::DataType::F32, ATTUNE_F32},        {ffi::DataType::BF16, ATTUNE_BF16},
    {ffi::DataType::F16, ATTUNE_F16},        {ffi::DataType::S32, ATTUNE_I32},
    {ffi::DataType::U8, ATTUNE_U8},          {ffi::DataType::PRED, ATTUNE_BOOL},
    {ffi::DataType::S8, ATTUNE_I8},          {ffi::DataType::F8E4M3FN, ATTUNE_F8_E4M3},
    {ffi::DataType::F8E5M2, ATTUNE_F8_E5M2}, {ffi::DataType::S64, ATTUNE_I64},
    {ffi::DataType::S16, ATTUNE_I16}};

/// XLA's buffers are dense, outermost axis first, which is also attune's default.
inline attune_tensor view(const std::string& name, const ffi::AnyBuffer& given) {
    const auto shape = given.dimensions();
    for (const element_pair& pair : elements)
        if (pair.xla == given.element_type())
            return attune_dense(given.untyped_data(), pair.attune, static_cast<std::int32_t>(shape.size()),
                                shape.begin());
    std::ostringstream type;
    type << given.element_type();
    throw std::invalid_argument(
        "attune: expected elements of float32, bfloat16, float16, int64, int32, int16, uint8, int8, float8_e4m3fn, "
        "float8_e5m2 or bool in " +
        name + ", got " + type.str() + "; try " + name + ".astype(jax.numpy.float32), or int32 for whole numbers");
}

/// Numbers come as arrays without axes, so that one compilation takes all values.
inline attune_argument argument(const detail::parameter& p, const ffi::AnyBuffer& given) {
    using form = detail::parameter::form;
    const char* const name = p.name.c_str();
    if (p.is == form::integer) return attune_integer_argument(name, *given.typed_data<std::int32_t>());
    if (p.is == form::real)
        return attune_real_argument(name, given.element_type() == ffi::DataType::F64
                                              ? *given.typed_data<double>()
                                              : static_cast<double>(*given.typed_data<float>()));
    return attune_tensor_argument(name, view(p.name, given));
}

/// A call: arguments, whose names are an attribute, with a space after each; and memory for the results, which XLA
/// allocates.
inline ffi::Error call(const detail::operation& of, std::int64_t threads, std::string_view names,
                       const ffi::RemainingArgs& given, const ffi::RemainingRets& results) {
    const auto refused = [&](const std::string& what) {
        return ffi::Error::InvalidArgument("attune: expected " + what + " of " + of.qualified +
                                           ", got others; try attune.jax.load of this version");
    };
    if (results.size() != of.results.size()) return refused("the results");
    std::vector<attune_argument> arguments;
    arguments.reserve(given.size() + results.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
        const auto buffer = given.get<ffi::AnyBuffer>(i);
        if (!buffer) return buffer.error();
        const std::string_view name = names.substr(0, names.find(' '));
        const auto named = std::find_if(of.parameters.begin(), of.parameters.end(),
                                        [&](const detail::parameter& p) { return p.name == name; });
        if (named == of.parameters.end()) return refused("arguments that are parameters");
        names.remove_prefix(std::min(names.size(), name.size() + 1));
        using form = detail::parameter::form;
        const form is = named->is;
        const ffi::DataType type = buffer->element_type();
        const bool fits =
            is == form::integer ? type == ffi::DataType::S32 : type == ffi::DataType::F32 || type == ffi::DataType::F64;
        if ((is == form::integer || is == form::real) && (!fits || buffer->dimensions().size() != 0))
            return refused("a number of its type for " + named->name);
        arguments.push_back(argument(*named, *buffer));
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
        auto buffer = results.get<ffi::AnyBuffer>(i);
        if (!buffer) return buffer.error();
        const std::string& name = of.results[i].name;
        arguments.push_back(attune_tensor_argument(name.c_str(), view(name, **buffer)));
    }
    attune_options how{};
    how.size = sizeof how;
    how.threads = static_cast<std::int32_t>(threads);
    switch (attune_run(of.variant, arguments.data(), arguments.size(), &how)) {
        case ATTUNE_OK: return ffi::Error::Success();
        case ATTUNE_REFUSED: return ffi::Error::InvalidArgument(attune_error_text());
        case ATTUNE_NO_MEMORY: return {ffi::ErrorCode::kResourceExhausted, attune_error_text()};
        default: return ffi::Error::Internal(attune_error_text());
    }
}

/// The function that XLA calls. It uses as many threads as XLA's own pool has.
template <const attune_variant* (*Variant)()> XLA_FFI_Error* handle(XLA_FFI_CallFrame* frame) {
    static const auto* const handler =
        ffi::Ffi::Bind()
            .Ctx<ffi::ThreadPool>()
            .RemainingArgs()
            .RemainingRets()
            .Attr<std::string_view>("names")
            .To([](ffi::ThreadPool pool, ffi::RemainingArgs given, ffi::RemainingRets results, std::string_view names) {
                try {
                    // Not destroyed, as XLA may call until the end.
                    static const auto& of = *new detail::operation(Variant());
                    return call(of, pool.num_threads(), names, given, results);
                } catch (const std::exception& problem) {
                    return ffi::Error::InvalidArgument(problem.what());
                }
            })
            .release();
    return handler->Call(frame);
}

}  // namespace attune::jax_calls
