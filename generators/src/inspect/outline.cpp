#include "inspect/outline.hpp"

#include "base/formatting.hpp"

#include <iterator>

namespace attune::generators::inline inspect {
namespace {

/// Borders run along cell edges with the marked cells to their right. Directions: 0 right, 1 down, 2 left, 3 up.
class tracer {
public:
    tracer(const std::vector<std::uint8_t>& marked, int width, int height)
        : marked_(marked),
          width_(width),
          height_(height),
          leaving_(static_cast<std::size_t>(width + 1) * static_cast<std::size_t>(height + 1)) {
        for (int y = 0; y < height; ++y)
            for (int x = 0; x < width; ++x) {
                if (!in(x, y)) continue;
                if (!in(x, y - 1)) at(x, y) |= 1;
                if (!in(x + 1, y)) at(x + 1, y) |= 2;
                if (!in(x, y + 1)) at(x + 1, y + 1) |= 4;
                if (!in(x - 1, y)) at(x, y + 1) |= 8;
            }
    }

    std::string path() {
        for (int y = 0; y <= height_; ++y)
            for (int x = 0; x <= width_; ++x)
                while (at(x, y) & 1) loop(x, y);  // the topmost, leftmost corner of a loop leaves to the right
        return text_;
    }

private:
    bool in(int x, int y) const {
        return x >= 0 && y >= 0 && x < width_ && y < height_ &&
               marked_[static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x)];
    }
    std::uint8_t& at(int x, int y) {
        return leaving_[static_cast<std::size_t>(y) * static_cast<std::size_t>(width_ + 1) +
                        static_cast<std::size_t>(x)];
    }

    void loop(int start_x, int start_y) {
        fmt::format_to(std::back_inserter(text_), "M{} {}", start_x, start_y);
        int x = start_x, y = start_y, direction = 0, steps = 0;
        do {
            x += direction == 0 ? 1 : direction == 2 ? -1 : 0;
            y += direction == 1 ? 1 : direction == 3 ? -1 : 0;
            ++steps;
            for (const int turn :
                 {1, 0, 3}) {  // to the right first: cells that touch at a corner only are not joined there
                const int next = (direction + turn) % 4;
                if (!(at(x, y) & (1 << next))) continue;
                if (turn != 0) side(direction, steps), steps = 0;
                direction = next;
                break;
            }
            if (x == start_x && y == start_y && direction == 0) break;
            at(x, y) &= static_cast<std::uint8_t>(~(1 << direction));
        } while (true);
        at(start_x, start_y) &= static_cast<std::uint8_t>(~1);
        text_ += 'z';
    }

    void side(int direction, int steps) {
        fmt::format_to(std::back_inserter(text_), "{}{}", direction % 2 ? 'v' : 'h', direction < 2 ? steps : -steps);
    }

    const std::vector<std::uint8_t>& marked_;
    int width_, height_;
    std::vector<std::uint8_t> leaving_;  ///< by corner: the directions in which borders leave it
    std::string text_;
};

}  // namespace

std::string outline(const std::vector<std::uint8_t>& marked, int width, int height) {
    return tracer(marked, width, height).path();
}

}  // namespace attune::generators::inline inspect
