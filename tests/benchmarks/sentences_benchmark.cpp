// Serves timings of examples/sentence_embeddings over stdin and stdout, so that another program can
// interleave them with its own:
//
//     attune_sentences_benchmark <model> <folder>
//
// `load <text>`       the token ids of a text's sentences, which it then works on; 256 of them at most
// `set <ids>`         works on these instead: a JSON list of lists
// `run`               writes their embeddings to embeddings.bin in the folder (f32, dense) and says on how many threads
// `time <repeats>`    one batch that is not counted, then the seconds of each of `repeats`: from token ids to
//                     embeddings
//
// Each line is answered by one line of JSON; {"error": "..."} where it cannot be done. Ends with its input.
#include "answered_lines.hpp"
#include "encoder.hpp"
#include "tokenizer.hpp"

#include <attune/runtime/threads.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {
using namespace sentence_embeddings;
using nlohmann::json;

class server {
public:
    server(const std::filesystem::path& model, std::filesystem::path folder)
        : pieces_of_(model / "vocab.txt"),
          file_(model / "model.safetensors"),
          embeddings_of_(file_),
          folder_(std::move(folder)) {}

    json answer(const std::string& line) {
        const std::string command = line.substr(0, line.find(' ')),
                          rest = line.substr(std::min(line.size(), command.size() + 1));
        if (command == "load") {
            sentences_.clear();
            for (const std::string& sentence : sentences_of(rest)) sentences_.push_back(pieces_of_(sentence, 256));
            return {{"ids", sentences_}};
        }
        if (command == "set") {
            sentences_ = json::parse(rest).get<std::vector<std::vector<std::int32_t>>>();
            return {{"sentences", sentences_.size()}};
        }
        if (command == "run") {
            const std::vector<float> rows = embeddings_of_(sentences_);
            std::ofstream file(folder_ / "embeddings.bin", std::ios::binary);
            file.write(reinterpret_cast<const char*>(rows.data()),
                       static_cast<std::streamsize>(rows.size() * sizeof(float)));
            return {{"threads", attune::threads()}};
        }
        if (command == "time") return {{"seconds", time(std::stoi(rest))}};
        throw std::invalid_argument("expected load, set, run or time, got " + command);
    }

private:
    std::vector<double> time(int repeats) const {
        std::vector<double> seconds;
        for (int i = 0; i <= repeats; ++i) {
            const auto start = std::chrono::steady_clock::now();
            embeddings_of_(sentences_);
            if (i > 0)
                seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        }
        return seconds;
    }

    tokenizer pieces_of_;
    weights file_;
    encoder embeddings_of_;
    std::filesystem::path folder_;
    std::vector<std::vector<std::int32_t>> sentences_;
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::cerr
            << "usage: attune_sentences_benchmark <model> <folder>    (driven by tests/benchmarks/sentences.py)\n";
        return 2;
    }
    try {
        server its(argv[1], argv[2]);
        bench::answer_lines([&](const std::string& line) { return its.answer(line); });
    } catch (const std::exception& error) {
        std::cout << json{{"error", error.what()}}.dump() << std::endl;
        return 2;
    }
}
