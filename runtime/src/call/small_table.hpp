#pragma once
#include <attune/ir/operations.hpp>

#include <array>
#include <cstddef>

namespace attune::detail {

/// A by_operation with room for the operations of its family alone: the runtime is to stay small.
template <family Of, class T> class small_table {
    static constexpr std::size_t first = [] {
        std::size_t at = 0;
        while (family_of(static_cast<operation>(at)) != Of) ++at;
        return at;
    }();
    static constexpr std::size_t last = [] {
        std::size_t at = operation_count - 1;
        while (family_of(static_cast<operation>(at)) != Of) --at;
        return at;
    }();

public:
    constexpr small_table(const by_operation<Of, T>& all) {
        for (std::size_t at = first; at <= last; ++at) is_[at - first] = all[static_cast<operation>(at)];
    }
    constexpr const T& operator[](operation op) const { return is_[static_cast<std::size_t>(op) - first]; }

private:
    std::array<T, last - first + 1> is_{};
};

template <family Of, class T> small_table(const by_operation<Of, T>&) -> small_table<Of, T>;

}  // namespace attune::detail
