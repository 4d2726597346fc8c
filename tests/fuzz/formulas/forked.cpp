#include "forked.hpp"

#include <fmt/format.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <stdexcept>

namespace fuzz {
namespace {

/// Kind, error and text, as bytes through a pipe.
void write_outcome(int to, const outcome& it) {
    std::string bytes(1, static_cast<char>(it.kind));
    bytes.append(reinterpret_cast<const char*>(&it.error), sizeof it.error);
    bytes += it.text;
    for (std::size_t at = 0; at < bytes.size();) {
        const ssize_t written = ::write(to, bytes.data() + at, bytes.size() - at);
        if (written <= 0) _exit(3);
        at += static_cast<std::size_t>(written);
    }
}

/// So many seconds of work, which other programs do not shorten; and where it waits for nothing, ten times as long.
void limit_time(int seconds) {
    const rlimit limit{static_cast<rlim_t>(seconds), static_cast<rlim_t>(seconds)};
    setrlimit(RLIMIT_CPU, &limit);
    alarm(static_cast<unsigned>(10 * seconds));
}

/// So that a case that takes everything ends itself, and not what else runs on the machine.
void limit_memory() {
    constexpr rlim_t most = rlim_t{6} << 30;
    const rlimit limit{most, most};
    setrlimit(RLIMIT_AS, &limit);
}

std::string read_all(int from) {
    std::string bytes;
    std::array<char, 4096> some{};
    for (ssize_t got; (got = ::read(from, some.data(), some.size())) > 0;)
        bytes.append(some.data(), static_cast<std::size_t>(got));
    return bytes;
}

}  // namespace

std::string_view name_of(outcome_kind kind) {
    constexpr std::string_view names[] = {"agrees",  "refused", "failed",  "wrong",
                                          "spilled", "unequal", "crashed", "slow"};
    return names[static_cast<int>(kind)];
}

outcome outcome_of_fork(const formula_case& it, int limit_seconds, bool mistaken) {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) throw std::runtime_error(fmt::format("no pipe: {}", std::strerror(errno)));
    const pid_t child = fork();
    if (child < 0) throw std::runtime_error(fmt::format("no process: {}", std::strerror(errno)));
    if (child == 0) {
        close(ends[0]);
        limit_time(limit_seconds);
        limit_memory();
        write_outcome(ends[1], outcome_of(it, mistaken));
        _exit(0);  // nothing of the parent's is undone
    }
    close(ends[1]);
    const std::string bytes = read_all(ends[0]);
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (signal == SIGXCPU || signal == SIGALRM || signal == SIGKILL)
        return {outcome_kind::slow, fmt::format("takes more than {} s", limit_seconds)};
    if (signal != 0) return {outcome_kind::crashed, strsignal(signal)};
    outcome result;
    if (bytes.size() < 1 + sizeof result.error || WEXITSTATUS(status) != 0)
        return {outcome_kind::crashed, fmt::format("ended with {}", WEXITSTATUS(status))};
    result.kind = static_cast<outcome_kind>(bytes[0]);
    std::memcpy(&result.error, bytes.data() + 1, sizeof result.error);
    result.text = bytes.substr(1 + sizeof result.error);
    return result;
}

}  // namespace fuzz
