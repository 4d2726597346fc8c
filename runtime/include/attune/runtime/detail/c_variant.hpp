#pragma once
#include <attune/c.h>
#include <attune/runtime/detail/kernel_table.hpp>

/// What the handles of attune/c.h point to; for generated registries.
namespace attune::detail {

/// The runtime that a variant's kernels were linked with. A process may have several copies of attune, even of several
/// versions, in several shared libraries. attune_run of each calls the copy that belongs to the variant.
struct c_calls {
    /// Writes the sentence to `error`, as far as `capacity` reaches, unless it returns ATTUNE_OK.
    attune_status (*run)(const attune_variant& variant, const attune_argument* arguments, std::size_t count,
                         const attune_options* options, char* error, std::size_t capacity) noexcept;
    /// A runtime answers an unknown question with an empty text.
    /// `prepare` answers with the bytes of a pointer to an attune_call.
    enum class question : std::int32_t { explain, kernels, describe, synchronize, blocks, prepare };
    attune_status (*answer)(const attune_variant& variant, question what, const attune_argument* arguments,
                            std::size_t count, const attune_options* options, char* json, std::size_t json_capacity,
                            std::size_t* length, char* error, std::size_t capacity) noexcept;
};
extern const c_calls this_runtime;

}  // namespace attune::detail

struct attune_variant {
    std::int32_t version;  ///< ATTUNE_C_VERSION: of this struct and the above
    const attune::detail::c_calls* calls;
    const attune::kernel_table& (*table)();
};

struct attune_call {
    attune_status (*run)(const attune_call& call, const attune_argument* others, std::size_t count, char* error,
                         std::size_t capacity) noexcept;
    void (*free)(attune_call* call) noexcept;
};
