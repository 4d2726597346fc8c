#include "base/cpu_quota.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string_view>

namespace attune::detail {
namespace {

/// Whole CPUs of so much time a period; nothing where there is no limit.
std::optional<int> cpus(long long quota, long long period) {
    if (quota <= 0 || period <= 0) return std::nullopt;
    return static_cast<int>(std::clamp<long long>(quota / period, 1, 1 << 20));
}

/// Of one group of version 2: "max 100000" or "150000 100000".
std::optional<int> of_version_2(const std::string& folder) {
    std::ifstream file(folder + "/cpu.max");
    std::string quota;
    long long period = 0;
    if (!(file >> quota >> period) || quota == "max") return std::nullopt;
    return cpus(std::atoll(quota.c_str()), period);
}

std::optional<int> of_version_1(const std::string& folder) {
    long long quota = 0, period = 0;
    if (!(std::ifstream(folder + "/cpu.cfs_quota_us") >> quota) ||
        !(std::ifstream(folder + "/cpu.cfs_period_us") >> period))
        return std::nullopt;
    return cpus(quota, period);
}

/// The smallest of a group and those around it. A container may see its own group where the tree begins, under a path
/// that it cannot see: folders that are not there are passed over.
template <class Of> int smallest(const std::string& mount, std::string path, Of of) {
    int least = 0;
    for (;;) {
        if (const std::optional<int> here = of(mount + path)) least = least == 0 ? *here : std::min(least, *here);
        const std::size_t end = path.rfind('/');
        if (end == path.npos) return least;
        path.resize(end);
    }
}

bool lists(std::string_view controllers, std::string_view name) {
    for (std::size_t at = 0; at <= controllers.size();) {
        const std::size_t end = std::min(controllers.find(',', at), controllers.size());
        if (controllers.substr(at, end - at) == name) return true;
        at = end + 1;
    }
    return false;
}

}  // namespace

int cpus_of_quota(const std::string& root) {
    int least = 0;
    const auto take = [&](int found) {
        if (found > 0) least = least == 0 ? found : std::min(least, found);
    };
    std::ifstream groups(root + "/proc/self/cgroup");  // "0::/user.slice" or "4:cpu,cpuacct:/docker/1f"
    for (std::string line; std::getline(groups, line);) {
        const std::size_t first = line.find(':'), second = first == line.npos ? line.npos : line.find(':', first + 1);
        if (second == line.npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        std::string path = line.substr(second + 1);
        if (path == "/") path.clear();
        const std::string tree = root + "/sys/fs/cgroup";
        if (controllers.empty()) {
            take(smallest(tree, path, of_version_2));
        } else if (lists(controllers, "cpu")) {
            take(smallest(tree + "/" + controllers, path, of_version_1));
            if (controllers != "cpu") take(smallest(tree + "/cpu", path, of_version_1));
        }
    }
    return least;
}

}  // namespace attune::detail
