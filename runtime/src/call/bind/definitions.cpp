#include "base/text.hpp"

#include <attune/runtime/detail/c_variant.hpp>
#include <attune/runtime/detail/call.hpp>
#include <attune/runtime/error.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <string_view>

/// A graph belongs to one library of a program. Two static ones do not link; of others the dynamic linker takes the
/// first in silence, and the kernels of the second would never run.
namespace attune::detail {
namespace {

/// The function of attune/c.h that a library defines for a variant, as emit/c_header.cpp spells it.
std::string function_of(std::string_view variant) {
    std::string name;
    for (const char c : variant) {
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
            name += c;
        else if (!name.empty() && name.back() != '_')
            name += '_';
    }
    return name + "_variant";
}

/// The program or the shared library that something lies in; none where that is unknown, as in a static program.
Dl_info place_of(const void* something) {
    Dl_info place{};
    return dladdr(something, &place) != 0 ? place : Dl_info{};
}

std::string_view name_of(const Dl_info& place) {
    const std::string_view path = place.dli_fname;
    return path.substr(path.rfind('/') + 1);
}

/// The definition that the dynamic linker passes over: the next one behind the library of `place`.
void* next_definition(const char* function, const Dl_info& place) {
    if (place.dli_fbase == place_of(reinterpret_cast<void*>(&next_definition)).dli_fbase)
        return dlsym(RTLD_NEXT, function);
    // A shared library of kernels answers for itself (attune_add_shared): dlsym looks behind who calls it.
    void* const library = dlopen(place.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!library) return nullptr;
    const auto of_library = reinterpret_cast<void* (*)(const char*)>(dlsym(library, "attune_next_definition"));
    void* const next = of_library && place_of(reinterpret_cast<void*>(of_library)).dli_fbase == place.dli_fbase
                           ? of_library(function)
                           : nullptr;
    dlclose(library);
    return next;
}

/// Copies of one library are alike; it does not matter which one serves.
bool are_alike(const kernel_table& x, const kernel_table& y) {
    const auto alike = [](const kernel& a, const kernel& b) {
        return std::string_view(a.symbol) == b.symbol && std::string_view(a.schedule) == b.schedule;
    };
    return x.version == y.version && std::ranges::equal(x.kernels, y.kernels, alike);
}

void check_alone(const kernel_table& table) {
    const Dl_info place = place_of(&table);
    if (!place.dli_fname) return;
    const auto next =
        reinterpret_cast<const attune_variant* (*)()>(next_definition(function_of(table.variant).c_str(), place));
    if (!next) return;
    const attune_variant& other = *next();
    if (other.version != ATTUNE_C_VERSION) return;
    const kernel_table& of_other = other.table();
    if (of_other.version == table.version && of_other.graph.fingerprint != table.graph.fingerprint) return;
    if (are_alike(table, of_other)) return;
    fail(say("kernels of ", table.variant, " in one library of the program"),
         say("them in ", name_of(place), " and in ", name_of(place_of(reinterpret_cast<void*>(next)))),
         "all element types in DTYPES of one of them, or another name for the graph of the other");
}

/// Tables that were looked at. A look takes microseconds, and a call has none to spare.
bool was_looked_at(const kernel_table& table, bool now) {
    static std::array<std::atomic<const kernel_table*>, 512> all{};
    const std::size_t first = reinterpret_cast<std::uintptr_t>(&table) / alignof(kernel_table);
    for (std::size_t i = 0; i < all.size(); ++i) {
        std::atomic<const kernel_table*>& at = all[(first + i) % all.size()];
        const kernel_table* found = at.load(std::memory_order_relaxed);
        if (!found && !now) return false;
        if (found == &table || (!found && at.compare_exchange_strong(found, &table, std::memory_order_relaxed)))
            return true;
    }
    return true;
}

}  // namespace

void check_version(const kernel_table& table) {
    if (table.version != kernel_table_version)
        fail(say("kernels of ", table.variant, " built for layout ", kernel_table_version),
             say("layout ", table.version), "building the variant again with this version of attune");
    if (was_looked_at(table, false)) return;
    check_alone(table);
    was_looked_at(table, true);
}

}  // namespace attune::detail
