#include "drawing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace simulated {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

std::string in_bytes(double bytes) {
    constexpr const char* units[] = {"bytes", "KB", "MB", "GB", "TB"};
    std::size_t unit = 0;
    for (; bytes >= 1000 && unit + 1 < std::size(units); ++unit) bytes /= 1000;
    return fmt::format("{:.3g} {}", bytes, units[unit]);
}

/// From nearly white to dark blue. The square root shows what is little, too.
std::string color(double part) {
    const double x = std::sqrt(part);
    const auto mixed = [&](double light, double dark) { return static_cast<int>(light + (dark - light) * x); };
    return fmt::format("#{:02x}{:02x}{:02x}", mixed(222, 8), mixed(235, 48), mixed(247, 107));
}

}  // namespace

std::string drawing(const schedule& what, const std::string& title) {
    constexpr int most_squares = 128, side = 640, left = 90, top = 70;
    const int nodes = static_cast<int>(what.computing.size()), of_square = (nodes + most_squares - 1) / most_squares,
              squares = (nodes + of_square - 1) / of_square;
    std::vector<double> bytes(at(squares) * at(squares));
    for (const transfer& each : what.transfers)
        bytes[at(each.from / of_square) * at(squares) + at(each.to / of_square)] += each.bytes;
    const double most = bytes.empty() ? 0 : *std::ranges::max_element(bytes);
    const double size = static_cast<double>(side) / squares;
    std::string all = fmt::format(
        R"svg(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" font-family="sans-serif" font-size="14">
<rect width="{0}" height="{1}" fill="#ffffff"/>
<text x="{2}" y="28" font-size="16">{3}</text>
<text x="{4}" y="54" text-anchor="middle">receivers</text>
<text x="24" y="{5}" text-anchor="middle" transform="rotate(-90 24 {5})">senders</text>
)svg",
        left + side + 40, top + side + 70, left, title, left + side / 2, top + side / 2);
    for (int from = 0; from < squares; ++from)
        for (int to = 0; to < squares; ++to)
            if (const double here = bytes[at(from) * at(squares) + at(to)]; here > 0)
                all += fmt::format(
                    R"svg(<rect x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}" fill="{}"><title>{} to {}: {}</title></rect>
)svg",
                    left + to * size, top + from * size, size, size, color(here / most), from * of_square,
                    to * of_square, in_bytes(here));
    all += fmt::format(R"svg(<rect x="{}" y="{}" width="{}" height="{}" fill="none" stroke="#808080"/>
)svg",
                       left, top, side, side);
    for (const int node : {0, nodes / 2, nodes - 1}) {
        const double middle = (node / of_square + 0.5) * size;
        all += fmt::format(R"svg(<text x="{}" y="{:.1f}" text-anchor="end">{}</text>
<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>
)svg",
                           left - 8, top + middle + 5, node, left + middle, top + side + 20, node);
    }
    const std::string square = of_square == 1 ? "one node to one" : fmt::format("{0} nodes to {0}", of_square);
    all += fmt::format(R"svg(<rect x="{}" y="{}" width="16" height="16" fill="{}"/>
<text x="{}" y="{}">{} at most, {}; white: nothing</text>
</svg>
)svg",
                       left, top + side + 38, color(1), left + 24, top + side + 51, in_bytes(most), square);
    return all;
}

}  // namespace simulated
