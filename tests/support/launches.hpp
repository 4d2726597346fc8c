#pragma once
#include <attune/runtime/detail/kernel_table.hpp>

#include <vector>

namespace attune::support {

/// A copy of a kernel table whose kernels count their calls: the proof that a kernel, and how often one, made the
/// numbers. For one calling thread; at most `room` kernels a table, and one counting table at a time.
class counting_table {
public:
    static constexpr int room = 32;

    explicit counting_table(const kernel_table& original);
    counting_table(const counting_table&) = delete;
    counting_table& operator=(const counting_table&) = delete;

    const kernel_table& table() const { return table_; }
    int launches() const;

private:
    std::vector<kernel> kernels_;
    kernel_table table_;
};

}  // namespace attune::support
