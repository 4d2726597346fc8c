#pragma once
#include <string>

#include <sys/types.h>

namespace attune::generators::inline tuner {

/// A command that runs while times are taken, such as one that keeps a shared machine quiet: it prints a line when it
/// is ready, and ends when its input does.
class companion_process {
public:
    /// Does nothing without a command. Throws std::runtime_error if the command ends before it is ready.
    explicit companion_process(const std::string& command);
    ~companion_process();
    companion_process(const companion_process&) = delete;
    companion_process& operator=(const companion_process&) = delete;

private:
    pid_t child_ = -1;
    int input_ = -1, output_ = -1;
};

}  // namespace attune::generators::inline tuner
