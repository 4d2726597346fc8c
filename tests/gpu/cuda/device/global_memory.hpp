#pragma once
#include "numbers.hpp"

#include <cstddef>
#include <map>

namespace ptx {

/// The memory that kernels may touch: the allocations of a device, whose addresses are the host's.
class allocations {
public:
    struct range {
        u64 begin = 0, end = 0;
        bool holds(u64 at, u64 bytes) const { return at >= begin && at + bytes <= end && at + bytes >= at; }
    };

    void add(u64 address, std::size_t bytes) { ends_[address] = address + bytes; }
    bool remove(u64 address) { return ends_.erase(address) > 0; }
    /// The allocation that has an address; of none begin and end are 0.
    range around(u64 address) const {
        auto next = ends_.upper_bound(address);
        if (next == ends_.begin()) return {};
        --next;
        return {next->first, next->second};
    }

private:
    std::map<u64, u64> ends_;
};

}  // namespace ptx
