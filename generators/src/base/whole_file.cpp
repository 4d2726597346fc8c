#include "base/whole_file.hpp"

#include "base/formatting.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace attune::generators::inline base {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& file, const std::string& why) {
    throw std::runtime_error(fmt::format("expected a file that can be written, got \"{}\": {}", file.string(), why));
}

/// Closes the file that it holds.
struct descriptor {
    int fd;
    explicit descriptor(int fd) : fd(fd) {}
    ~descriptor() {
        if (fd >= 0) close(fd);
    }
    descriptor(const descriptor&) = delete;
    descriptor& operator=(const descriptor&) = delete;
};

void write_all(int fd, std::string_view bytes, const fs::path& file) {
    while (!bytes.empty()) {
        const ssize_t done = write(fd, bytes.data(), bytes.size());
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) refuse(file, std::strerror(errno));
        bytes.remove_prefix(static_cast<std::size_t>(done));
    }
}

}  // namespace

whole_file::whole_file(fs::path file) : file_(std::move(file)) {
    std::error_code problem;
    const fs::file_status there = fs::status(file_, problem);
    if (fs::exists(there) && !fs::is_regular_file(there)) refuse(file_, "it is no regular file");
    std::random_device random;  // process numbers repeat from container to container
    do {
        part_ = file_;
        part_ += fmt::format(".{:08x}{:08x}", random(), random());
        const descriptor made(open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
        if (made.fd >= 0) return;
    } while (errno == EEXIST);
    refuse(file_, std::strerror(errno));
}

whole_file::~whole_file() {
    std::error_code ignored;
    if (!part_.empty()) fs::remove(part_, ignored);
}

void whole_file::keep() {
    std::error_code problem;
    fs::rename(part_, file_, problem);
    if (problem) refuse(file_, problem.message());
    part_.clear();
}

void write_whole(const fs::path& file, std::string_view bytes, bool on_disk) {
    whole_file whole(file);
    {
        const descriptor out(open(whole.part().c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
        if (out.fd < 0) refuse(file, std::strerror(errno));
        write_all(out.fd, bytes, file);
        if (on_disk && fsync(out.fd) != 0) refuse(file, std::strerror(errno));
    }
    whole.keep();
}

}  // namespace attune::generators::inline base
