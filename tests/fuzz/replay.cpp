// Where the compiler has no libFuzzer: `fuzz_<name> [--seconds N] [--seed N] FILE` runs the inputs that are kept in a
// file (corpus.py says how), and then for so many seconds inputs that are made of them: bytes changed, copied and
// removed, two inputs joined. It knows nothing of coverage. An input that ends the program is written to
// ./crash-<seed>.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using bytes = std::vector<std::uint8_t>;

bytes current;
std::array<char, 32> crash_file{};

void on_crash(int signal) {
    const int file = ::open(crash_file.data(), O_CREAT | O_WRONLY | O_TRUNC, 0644);
    [[maybe_unused]] const auto written = ::write(file, current.data(), current.size());
    std::signal(signal, SIG_DFL);
    std::raise(signal);
}

void run(bytes input) {
    current = std::move(input);
    const std::vector<std::uint8_t> exact(current);  // its end is the end of its memory
    LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

// The bytes of a line: a backslash is written twice, a byte that is not printable as \xNN.
bytes input_of(std::string_view line) {
    bytes input;
    for (std::size_t i = 0; i < line.size(); ++i) {
        const std::string_view after = line.substr(i).substr(1);
        std::uint8_t byte = static_cast<std::uint8_t>(line[i]);
        if (byte == '\\' && after.starts_with('\\')) {
            ++i;
        } else if (byte == '\\') {
            const std::string_view digits = after.substr(0, 3);
            const auto read = digits.starts_with('x')
                                  ? std::from_chars(digits.data() + 1, digits.data() + digits.size(), byte, 16)
                                  : std::from_chars_result{digits.data(), {}};
            if (digits.size() != 3 || read.ptr != digits.data() + 3) {
                std::printf("expected \\\\ or \\x and two digits after a backslash, got %.60s\n",
                            std::string(line).c_str());
                std::exit(2);
            }
            i += 3;
        }
        input.push_back(byte);
    }
    return input;
}

bytes mutated(const std::vector<bytes>& kept, std::mt19937_64& random) {
    const auto below = [&](std::size_t limit) {
        return static_cast<std::size_t>(random() % std::max<std::size_t>(limit, 1));
    };
    bytes input = kept[below(kept.size())];
    for (std::size_t changes = 1 + below(5); changes > 0; --changes) {
        const std::size_t at = below(input.size());
        const auto place = input.begin() + static_cast<std::ptrdiff_t>(at);
        switch (below(6)) {
            case 0:
                if (!input.empty()) input[at] = static_cast<std::uint8_t>(random());
                break;
            case 1:
                if (!input.empty()) input[at] ^= static_cast<std::uint8_t>(1u << below(8));
                break;
            case 2:
                if (!input.empty()) input[at] = below(2) == 0 ? 0xff : 0;
                break;
            case 3: input.insert(place, static_cast<std::uint8_t>(random())); break;
            case 4:
                if (!input.empty())
                    input.erase(place, place + static_cast<std::ptrdiff_t>(
                                                   1 + below(std::min<std::size_t>(input.size() - at, 8))));
                break;
            default: {  // the rest is another's
                const bytes& other = kept[below(kept.size())];
                input.resize(at);
                input.insert(input.end(), other.begin() + static_cast<std::ptrdiff_t>(std::min(at, other.size())),
                             other.end());
            }
        }
    }
    return input;
}

}  // namespace

int main(int argc, char** argv) {
    double seconds = 0;
    std::uint64_t seed = 1;
    std::string kept_in;
    for (int i = 1; i < argc; ++i) {
        const std::string_view word = argv[i];
        if (word == "--seconds" && i + 1 < argc)
            seconds = std::atof(argv[++i]);
        else if (word == "--seed" && i + 1 < argc)
            seed = std::strtoull(argv[++i], nullptr, 10);
        else
            kept_in = word;
    }
    std::vector<bytes> kept;
    std::ifstream file(kept_in);
    for (std::string line; std::getline(file, line);) kept.push_back(input_of(line));
    if (kept.empty()) return std::printf("expected kept inputs in %s, got none\n", kept_in.c_str()), 2;
    std::snprintf(crash_file.data(), crash_file.size(), "crash-%llu", static_cast<unsigned long long>(seed));
    for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(signal, on_crash);
    for (const bytes& input : kept) run(input);
    std::mt19937_64 random(seed);
    long made = 0;
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    for (; std::chrono::steady_clock::now() < end; ++made) run(mutated(kept, random));
    std::printf("%zu kept inputs, %ld made of them\n", kept.size(), made);
    return 0;
}
