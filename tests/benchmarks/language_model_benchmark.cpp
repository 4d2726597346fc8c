// Serves timings of examples/language_model over stdin and stdout, so that another program can interleave them with its
// own:
//
//     attune_language_model_benchmark <model.gguf>
//
// `tokens <file>`                                  those of a text
// `time <weights> <cache> <generated> <tokens>`    reads these tokens, then says the likeliest ones: the seconds of the
//                                                  prompt and of the generation, those of attention's calls in each,
//                                                  and what was said. Weights are f32 or bf16
//
// Each line is answered by one line of JSON; {"error": "..."} where it cannot be done. Ends with its input.
#include "answered_lines.hpp"
#include "generate.hpp"
#include "threads.hpp"
#include "tokenizer.hpp"

#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>

namespace {
using namespace language_model;
using nlohmann::json;

json tokens_of(std::istream& line, const tokenizer& cut) {
    std::string path;
    std::getline(line >> std::ws, path);
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return {{"tokens", cut(text)}};
}

json time_of(std::istream& line, const gguf& file, std::map<std::string, model>& models) {
    std::string weights, kind;
    std::size_t generated = 0;
    line >> weights >> kind >> generated;
    if (!models.contains(weights))
        models.try_emplace(weights, file, weights == "f32" ? weight_type::f32 : weight_type::bf16, [](int) {});
    const model& of = models.at(weights);
    std::vector<sequence> all{{{std::istream_iterator<std::int32_t>(line), {}}, 0}};
    sequence& one = all.front();
    one.prompt = one.tokens.size();
    // The first token that is said is the prompt's.
    const auto past = make_cache(kind, of.shape(), 1, static_cast<std::int64_t>(one.prompt + generated + 1));
    const spent took = generate(
        of, *past, all, {.tokens = generated + 1}, [](std::int32_t) { return false; },
        [](std::size_t, std::int32_t) {});
    one.tokens.erase(one.tokens.begin(), one.tokens.begin() + static_cast<std::ptrdiff_t>(one.prompt));
    return {{"prompt", took.prompt},
            {"prompt_attention", took.prompt_attention},
            {"generation", took.generation},
            {"generation_attention", took.generation_attention},
            {"said", one.tokens}};
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::cerr << "usage: attune_language_model_benchmark <model.gguf>    (driven by "
                     "tests/benchmarks/language_model.py)\n";
        return 2;
    }
    try {
        use_threads_of_products();
        const gguf file(argv[1]);
        const tokenizer cut(file);
        std::map<std::string, model> models;  // by weights
        bench::answer_lines([&](const std::string& text) {
            std::istringstream line(text);
            std::string command;
            line >> command;
            if (command == "tokens") return tokens_of(line, cut);
            if (command == "time") return time_of(line, file, models);
            throw std::invalid_argument("expected tokens or time, got " + command);
        });
    } catch (const std::exception& error) {
        std::cout << json{{"error", error.what()}}.dump() << std::endl;
        return 2;
    }
}
