// sentence_embeddings FILE.txt [--output FILE.csv] [--model DIR]: embeds the lines of a text with MiniLM-L6 and prints
// the most similar pairs.
#include "encoder.hpp"
#include "similar.hpp"
#include "tokenizer.hpp"

#include <attune/runtime/threads.hpp>

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <CLI/CLI.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>

namespace {
using namespace sentence_embeddings;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void write_csv(std::ostream& file, std::span<const float> rows, std::size_t width) {
    for (std::size_t at = 0; at < rows.size(); ++at)
        fmt::print(file, "{:.9g}{}", rows[at], (at + 1) % width == 0 ? '\n' : ',');
}

void embed(const std::filesystem::path& text, const std::filesystem::path& output, const std::filesystem::path& model) {
    constexpr std::size_t longest = 256;  // what the model was trained on
    const double start = now();
    const std::vector<std::string> lines = sentences_of(text);
    if (!std::filesystem::is_directory(model))
        throw std::runtime_error(model.string() +
                                 ": expected a folder with model.safetensors and vocab.txt, got none; try "
                                 "./examples/run sentence_embeddings, which "
                                 "fetches one, or --model DIR");
    const tokenizer pieces_of(model / "vocab.txt");
    const weights file(model / "model.safetensors");
    const encoder embeddings_of(file, {.vocabulary = pieces_of.size()});
    std::ofstream csv;
    if (!output.empty()) {
        csv.open(output);
        if (!csv) throw std::runtime_error(output.string() + ": cannot be written; expected --output to name a file");
    }

    const double ready = now();
    std::vector<std::vector<std::int32_t>> sentences;
    std::size_t tokens = 0;
    for (const std::string& line : lines) tokens += sentences.emplace_back(pieces_of(line, longest)).size();
    const std::vector<float> rows = embeddings_of(sentences);
    const double seconds = now() - ready;

    const auto width = static_cast<std::size_t>(embeddings_of.width());
    if (csv.is_open()) {
        write_csv(csv, rows, width);
        if (!csv.flush())
            throw std::runtime_error(output.string() + ": cannot be written in full; is there room for it?");
    }
    fmt::print(
        "{} sentences, {} tokens, {} threads: model ready in {:.2f} s, embedded in {:.3f} s, {:.1f} sentences/s, "
        "{:.0f} tokens/s\n",
        lines.size(), tokens, attune::threads(), ready - start, seconds, static_cast<double>(lines.size()) / seconds,
        static_cast<double>(tokens) / seconds);
    for (const auto& [cosine, first, second] : most_similar(rows, width, 5))
        fmt::print("{:.4f}  {}\n        {}\n", cosine, lines[first], lines[second]);
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{
        "Embeds the sentences of a text, one a line, with MiniLM-L6 and prints the most similar pairs. Blank lines are "
        "skipped; of a sentence 256 tokens\n"
        "count. ATTUNE_THREADS says how many threads there are."};
    std::filesystem::path text, output, model = ATTUNE_FETCHED_MODEL;
    app.add_option("FILE", text, "the text, UTF-8")->required();
    app.add_option("--output", output, "write the embeddings there: a row a sentence, 9 significant digits, no header");
    app.add_option("--model", model,
                   "the folder of model.safetensors and vocab.txt; without it, the one that ./examples/run "
                   "sentence_embeddings fetched");
    CLI11_PARSE(app, argc, argv);
    try {
        embed(text, output, model);
    } catch (const std::exception& e) {
        fmt::print(stderr, "sentence_embeddings: {}\n", e.what());
        return 2;
    }
}
