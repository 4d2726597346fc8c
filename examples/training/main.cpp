// Trains a small language model of bytes whose attention and its gradient are attune's: training --help
#include "files.hpp"
#include "model.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <chrono>
#include <cmath>
#include <exception>
#include <random>

namespace {

/// Which places of the text a step reads; those that follow are what it should say.
struct batches {
    std::string text;
    training::sizes s;
    void at(int step, std::vector<std::uint8_t>& read, std::vector<std::uint8_t>& next) const {
        read.clear(), next.clear();
        const std::size_t length = static_cast<std::size_t>(s.length), places = text.size() - length;
        for (int row = 0; row < s.batch; ++row) {
            const std::size_t first = (static_cast<std::size_t>(step * s.batch + row) * 7919) % places;
            for (std::size_t i = first; i < first + length; ++i)
                read.push_back(static_cast<std::uint8_t>(text[i])),
                    next.push_back(static_cast<std::uint8_t>(text[i + 1]));
        }
    }
};

/// How much the loss changes along a random direction, by the gradient and by differences.
bool gradient_is_right(training::model& model, training::parameters& all, const batches& data) {
    std::vector<std::uint8_t> read, next;
    data.at(0, read, next);
    model.loss(read, next);
    model.backward();
    std::mt19937 random(2);
    std::map<std::string, std::vector<float>> direction;
    double by_gradient = 0;
    for (const auto& [name, p] : all)
        for (const float g : p.gradient) {
            const float way = random() % 2 == 0 ? 1.0f : -1.0f;
            direction[name].push_back(way), by_gradient += static_cast<double>(way * g);
        }
    const auto loss_at = [&](float far) {
        for (auto& [name, p] : all)
            for (std::size_t i = 0; i < p.value.size(); ++i) p.value[i] += far * direction[name][i];
        const double loss = model.loss(read, next);
        for (auto& [name, p] : all)
            for (std::size_t i = 0; i < p.value.size(); ++i) p.value[i] -= far * direction[name][i];
        return loss;
    };
    constexpr float step = 1e-3f;
    const double by_differences = (loss_at(step) - loss_at(-step)) / (2 * static_cast<double>(step));
    fmt::print("along a direction the loss changes by {:.5f}, by differences {:.5f}\n", by_gradient, by_differences);
    return std::abs(by_gradient - by_differences) <= 0.01 * std::abs(by_differences) + 1e-3;
}

int run(int count, char** arguments) {
    std::string text = ATTUNE_TEXT, plot, saved, start, losses_file;
    int steps = 200;
    unsigned seed = 1;
    float rate = 3e-3f;
    CLI::App options("Trains a small language model of bytes");
    options.add_option("--text", text, "the file that it learns from")->capture_default_str();
    options.add_option("--steps", steps)->capture_default_str();
    options.add_option("--rate", rate, "of Adam")->capture_default_str();
    options.add_option("--seed", seed)->capture_default_str();
    options.add_option("--plot", plot, "an SVG of the loss");
    options.add_option("--save", saved, "the model, as .safetensors");
    options.add_option("--save-start", start, "the model before the first step");
    options.add_option("--losses", losses_file, "the loss of each step, a line each");
    CLI11_PARSE(options, count, arguments);

    const training::sizes s;
    const batches data{training::whole(text), s};
    if (data.text.size() < static_cast<std::size_t>(s.length) + 2) {
        fmt::print(stderr, "expected a text of {} bytes at least, got {} in {}\n", s.length + 2, data.text.size(),
                   text);
        return 2;
    }
    training::parameters all = training::drawn(s, seed);
    training::model model(s, all);
    if (!start.empty()) training::save(all, start);
    if (!gradient_is_right(model, all, data)) return 1;

    std::vector<double> losses;
    std::vector<std::uint8_t> read, next;
    const auto began = std::chrono::steady_clock::now();
    for (int step = 1; step <= steps; ++step) {
        data.at(step, read, next);
        losses.push_back(model.loss(read, next));
        model.backward();
        model.step(step, rate);
        if (step % 20 != 0 && step != steps) continue;
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - began;
        fmt::print("step {:4} of {}  loss {:.4f}  {:.1f} ms a step\n", step, steps, losses.back(),
                   1e3 * taken.count() / step);
    }
    if (!plot.empty()) training::plot(losses, plot);
    if (!saved.empty()) training::save(all, saved);
    if (!losses_file.empty()) training::write_lines(losses, losses_file);
    return losses.size() < 100 || losses.back() < 0.7 * losses.front() ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
    try {
        return run(count, arguments);
    } catch (const std::exception& problem) {
        fmt::print(stderr, "{}\n", problem.what());
        return 2;
    }
}
