#include "launches.hpp"

#include <array>
#include <atomic>
#include <stdexcept>
#include <utility>

namespace attune::support {
namespace {

using entry = int (*)(void**);
std::array<entry, counting_table::room> originals;
std::atomic<int> count;

template <std::size_t I> int counted(void** arguments) {
    ++count;
    return originals[I](arguments);
}

template <std::size_t... I> constexpr std::array<entry, sizeof...(I)> counters(std::index_sequence<I...>) {
    return {&counted<I>...};
}

}  // namespace

counting_table::counting_table(const kernel_table& original)
    : kernels_(original.kernels.begin(), original.kernels.end()), table_(original) {
    if (kernels_.size() > room) throw std::length_error("counting_table: more kernels than it has room for");
    constexpr auto entries = counters(std::make_index_sequence<room>());
    for (std::size_t i = 0; i < kernels_.size(); ++i) originals[i] = std::exchange(kernels_[i].call, entries[i]);
    table_.kernels = kernels_;
    count = 0;
}

int counting_table::launches() const { return count; }

}  // namespace attune::support
