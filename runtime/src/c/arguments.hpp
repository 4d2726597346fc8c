#pragma once
#include "base/text.hpp"

#include <attune/c.h>
#include <attune/runtime/detail/call.hpp>
#include <attune/runtime/error.hpp>
#include <attune/runtime/options.hpp>
#include <attune/runtime/threads.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#pragma GCC visibility push(hidden)
/// A call's arguments from C, in the form of the typed calls. Everything here throws attune::error.
namespace attune::detail {

/// A call's arguments as the typed calls make them too; on the heap, since kernels need what there is of the stack.
class c_arguments {
public:
    c_arguments(const attune_argument* arguments, std::size_t count);
    std::span<const named_argument> view() const { return list_; }

private:
    std::vector<named_argument> list_;
};

/// Options, and the pool that they point to.
class c_options {
public:
    explicit c_options(const attune_options* given);
    c_options(const c_options&) = delete;
    operator const options&() const { return how_; }

private:
    void take(const attune_options& given);

    options how_{};
    parallel_for pool_{};
};

/// A struct that begins with its size. A program may know fewer fields, or more: those that only one side knows are
/// zero, or not looked at. 0 stands for its first version, of so many bytes. `what` it is: "options"; `name` in C.
template <class Struct>
Struct as_known_here(const Struct& given, std::size_t of_version_1, std::string_view what, std::string_view name) {
    const std::size_t size = given.size == 0 ? of_version_1 : given.size;
    if (size < of_version_1)
        fail(say(what, " of at least ", of_version_1, " bytes"), say(size), say("size = sizeof(", name, ")"));
    Struct known{};
    std::memcpy(&known, &given, std::min(size, sizeof known));
    return known;
}

/// Fields that a later version may give a meaning.
template <class Number, std::size_t Count> void check_reserved(const Number (&reserved)[Count], std::string_view name) {
    for (const Number each : reserved)
        if (each != 0) fail(say("0 in reserved of ", name), say(each), "clearing the struct first, or a newer attune");
}

}  // namespace attune::detail
#pragma GCC visibility pop
