#pragma once
#include <string>

#pragma GCC visibility push(hidden)
namespace attune::detail {

/// How many CPUs' worth of time the process's control groups grant it, rounded down, at least 1: the smallest quota of
/// its group and of those around it (`cpu.max`, or `cpu.cfs_quota_us` of version 1). 0 where none is set. `root` stands
/// before all paths, for tests.
int cpus_of_quota(const std::string& root = {});

}  // namespace attune::detail
#pragma GCC visibility pop
