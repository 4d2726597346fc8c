#include "files.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace training {
namespace {

std::ofstream opened(const std::string& file) {
    std::ofstream to(file, std::ios::binary);
    if (!to) throw std::runtime_error("cannot write " + file);
    return to;
}

}  // namespace

std::string whole(const std::string& file) {
    std::ifstream from(file, std::ios::binary);
    if (!from) throw std::runtime_error("cannot read " + file);
    return {std::istreambuf_iterator<char>(from), {}};
}

void save(const parameters& all, const std::string& file) {
    nlohmann::ordered_json header;
    std::size_t end = 0;
    for (const auto& [name, p] : all) {
        const std::size_t begin = end;
        end += p.value.size() * sizeof(float);
        header[name] = {{"dtype", "F32"}, {"shape", p.shape}, {"data_offsets", {begin, end}}};
    }
    std::string text = header.dump();
    text.append((8 - text.size() % 8) % 8, ' ');  // numbers lie at multiples of their size
    const std::uint64_t size = text.size();
    std::ofstream to = opened(file);
    to.write(reinterpret_cast<const char*>(&size), sizeof size) << text;
    for (const auto& [name, p] : all)
        to.write(reinterpret_cast<const char*>(p.value.data()),
                 static_cast<std::streamsize>(p.value.size() * sizeof(float)));
}

void plot(const std::vector<double>& losses, const std::string& file) {
    if (losses.empty()) return;
    constexpr double width = 600, height = 240, room = 40;
    const double most = *std::ranges::max_element(losses);
    std::ofstream to = opened(file);
    to << fmt::format(
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" font-family=\"sans-serif\" "
              "font-size=\"12\">\n<path d=\"M{2} {2}V{3}H{4}\" fill=\"none\" stroke=\"black\"/>\n",
              width + 2 * room, height + 2 * room, room, height + room, width + room)
       << fmt::format("<text x=\"{0}\" y=\"{1}\">loss, from {2:.2f} to {3:.2f} in {4} steps</text>\n", room, room - 10,
                      losses.front(), losses.back(), losses.size())
       << "<polyline fill=\"none\" stroke=\"#1f77b4\" points=\"";
    for (std::size_t i = 0; i < losses.size(); ++i)
        to << fmt::format(
            "{:.1f},{:.1f} ",
            room + width * static_cast<double>(i) / static_cast<double>(std::max<std::size_t>(losses.size() - 1, 1)),
            room + height * (1 - losses[i] / most));
    to << "\"/>\n</svg>\n";
}

void write_lines(const std::vector<double>& losses, const std::string& file) {
    std::ofstream to = opened(file);
    for (const double loss : losses) to << fmt::format("{:.6f}\n", loss);
}

}  // namespace training
