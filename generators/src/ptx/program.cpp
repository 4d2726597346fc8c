#include "ptx/program.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>

extern char** environ;

namespace attune::generators::inline ptx {

namespace fs = std::filesystem;

scratch_folder::scratch_folder() {
    std::string name = (fs::temp_directory_path() / "attune-ptx-XXXXXX").string();
    if (!mkdtemp(name.data()))
        throw std::runtime_error("expected a folder for temporary files that can be written, got \"" +
                                 fs::temp_directory_path().string() + "\": " + std::strerror(errno) + "; try TMPDIR");
    path_ = name;
}

scratch_folder::~scratch_folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
}

program_end run_program(const std::vector<std::string>& words, const scratch_folder& scratch) {
    std::vector<char*> arguments;
    for (const std::string& each : words) arguments.push_back(const_cast<char*>(each.c_str()));
    arguments.push_back(nullptr);
    const fs::path said = scratch.path() / "said.txt";
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    pid_t child = 0;
    const int problem = posix_spawn(&child, words.front().c_str(), &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (problem != 0)
        throw std::runtime_error("expected a program that can be run, got \"" + words.front() +
                                 "\": " + std::strerror(problem));
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) throw std::system_error(errno, std::generic_category(), words.front());
    return {status, bytes_of(said)};
}

std::string bytes_of(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(in), {});
    if (!in) throw std::runtime_error("expected a file that can be read, got \"" + file.string() + "\"");
    return bytes;
}

void write_bytes(const fs::path& file, const std::string& bytes) {
    std::ofstream out(file, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!out.flush())
        throw std::runtime_error("expected a file that can be written, got \"" + file.string() +
                                 "\"; is its disk full?");
}

}  // namespace attune::generators::inline ptx
