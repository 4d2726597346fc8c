#pragma once
#include <string>

#include <sys/types.h>

namespace attune::generators {

/// A command that runs while times are taken, such as one that keeps a shared machine quiet: it prints a line when it is ready, and ends when its
/// input does.
class company {
public:
    /// Does nothing without a command. Throws std::runtime_error if the command ends before it is ready.
    explicit company(const std::string& command);
    ~company();
    company(const company&) = delete;
    company& operator=(const company&) = delete;

private:
    pid_t child_ = -1;
    int input_ = -1, output_ = -1;
};

}  // namespace attune::generators
