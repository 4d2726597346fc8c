#include "base/cpu_quota.hpp"

#include <catch2/catch_test_macros.hpp>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>

namespace {

/// A tree of files, gone with the test.
struct tree {
    std::filesystem::path root =
        std::filesystem::temp_directory_path() / ("attune_quota_" + std::to_string(std::random_device{}()));
    ~tree() { std::filesystem::remove_all(root); }
    void write(const std::string& path, const std::string& text) const {
        std::filesystem::create_directories((root / path).parent_path());
        std::ofstream(root / path) << text;
    }
    int cpus() const { return attune::detail::cpus_of_quota(root.string()); }
};

}  // namespace

TEST_CASE("the quota of control groups of version 2 is the smallest from the process's group outwards") {
    const tree files;
    CHECK(files.cpus() == 0);  // no groups at all
    files.write("proc/self/cgroup", "0::/pods/one\n");
    CHECK(files.cpus() == 0);
    files.write("sys/fs/cgroup/pods/one/cpu.max", "max 100000\n");
    CHECK(files.cpus() == 0);
    files.write("sys/fs/cgroup/pods/cpu.max", "450000 100000\n");
    CHECK(files.cpus() == 4);
    files.write("sys/fs/cgroup/pods/one/cpu.max", "250000 100000\n");
    CHECK(files.cpus() == 2);
    files.write("sys/fs/cgroup/pods/one/cpu.max", "20000 100000\n");
    CHECK(files.cpus() == 1);
    files.write("sys/fs/cgroup/pods/one/cpu.max", "no number\n");
    CHECK(files.cpus() == 4);
}

TEST_CASE("a container that sees its own group where the tree begins has its quota") {
    const tree files;
    files.write("proc/self/cgroup", "0::/\n");
    files.write("sys/fs/cgroup/cpu.max", "300000 100000\n");
    CHECK(files.cpus() == 3);
    files.write("proc/self/cgroup", "0::/of/the/host\n");  // a path that is not there
    CHECK(files.cpus() == 3);
}

TEST_CASE("the quota of control groups of version 1 counts as well") {
    const tree files;
    files.write("proc/self/cgroup", "12:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n2:cpuset:/\n0::/\n");
    files.write("sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "-1\n");
    files.write("sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us", "100000\n");
    CHECK(files.cpus() == 0);
    files.write("sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "200000\n");
    CHECK(files.cpus() == 2);
    files.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");  // the tree under its other name
    files.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    CHECK(files.cpus() == 1);
}
