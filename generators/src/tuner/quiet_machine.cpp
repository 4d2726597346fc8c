#include "tuner/quiet_machine.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>

extern char** environ;

namespace attune::generators::inline tuner {

companion_process::companion_process(const std::string& command) {
    if (command.empty()) return;
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0) throw std::runtime_error("no pipe to \"" + command + "\"");
    if (pipe2(out, O_CLOEXEC) != 0) {
        close(in[0]), close(in[1]);
        throw std::runtime_error("no pipe from \"" + command + "\"");
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    const char* const arguments[] = {"sh", "-c", command.c_str(), nullptr};
    const int problem =
        posix_spawn(&child_, "/bin/sh", &actions, nullptr, const_cast<char* const*>(arguments), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]), close(out[1]);
    input_ = in[1], output_ = out[0];
    char said = 0;
    ssize_t got = 0;
    while (problem == 0 && ((got = read(output_, &said, 1)) == 1 || (got < 0 && errno == EINTR)) && said != '\n') {
    }
    if (problem == 0 && got == 1) return;
    close(input_), close(output_);
    if (problem == 0) waitpid(child_, nullptr, 0);
    throw std::runtime_error(
        "expected --while-timing to name a command that prints a line and waits for the end of its input, got \"" +
        command + "\", which ended");
}

companion_process::~companion_process() {
    if (child_ < 0) return;
    close(input_), close(output_);
    while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

}  // namespace attune::generators::inline tuner
