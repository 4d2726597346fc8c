#include "inspect/draw.hpp"

#include "base/formatting.hpp"
#include "inspect/outline.hpp"
#include "inspect/png.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <set>

namespace attune::generators::inline inspect {
namespace {

constexpr int side = 440, left = 60, top_of_panel = 66, gap = 74, line = 17;
constexpr const char* ink = "#1c2733";
constexpr const char* faint = "#6b7885";

using colour = std::array<std::uint8_t, 3>;
constexpr colour skipped{238, 241, 244}, masked{251, 227, 184}, visible{92, 157, 219}, whole{31, 92, 158};

std::string hex(const colour& c) { return fmt::format("#{:02x}{:02x}{:02x}", c[0], c[1], c[2]); }

/// Along a scale of colours, 0 to 1.
template <std::size_t N> colour along(const std::array<colour, N>& scale, double at) {
    const double place = std::clamp(at, 0.0, 1.0) * (N - 1);
    const auto i = std::min(static_cast<std::size_t>(place), N - 2);
    const double f = place - static_cast<double>(i);
    colour mixed{};
    for (std::size_t part = 0; part < 3; ++part)
        mixed[part] =
            static_cast<std::uint8_t>(std::lround(scale[i][part] + f * (scale[i + 1][part] - scale[i][part])));
    return mixed;
}

// Light to dark in one direction; from blue through nearly white to red where scores have both signs.
constexpr std::array<colour, 5> one_sign{
    {{250, 240, 200}, {160, 211, 181}, {72, 163, 178}, {41, 98, 156}, {38, 38, 102}}};
constexpr std::array<colour, 5> two_signs{
    {{33, 76, 140}, {126, 176, 216}, {246, 245, 242}, {238, 150, 112}, {160, 32, 44}}};

std::string escaped(std::string_view text) {
    std::string safe;
    for (const char c : text)
        safe += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
    return safe;
}

/// Lines of at most `width` characters, broken after spaces; what continues is indented.
std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
    std::vector<std::string> lines;
    while (!text.empty()) {
        std::string_view rest = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), rest.size() + 1));
        for (bool first = true; !rest.empty(); first = false) {
            const std::size_t room = first ? width : width - 4;
            std::size_t cut = rest.size() <= room ? rest.size() : rest.rfind(' ', room);
            if (cut == rest.npos || cut == 0) cut = std::min(room, rest.size());
            lines.push_back((first ? "" : "    ") + std::string(rest.substr(0, cut)));
            rest.remove_prefix(std::min(rest.size(), cut + (cut < rest.size() && rest[cut] == ' ')));
        }
    }
    return lines;
}

/// A step of 1, 2 or 5 times a power of ten, so that `length` has at most `count` of them.
int tick_step(int length, int count) {
    for (int power = 1;; power *= 10)
        for (const int digit : {1, 2, 5})
            if (length / (digit * power) <= count) return digit * power;
}

std::string short_number(double x) { return fmt::format("{:.3g}", x); }
std::string grouped(std::size_t x) {
    std::string digits = std::to_string(x);
    for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, "\xe2\x80\x89");  // thin spaces
    return digits;
}
std::string share(std::size_t part, std::size_t all) {
    return all == 0 ? "" : fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(all));
}

class svg {
public:
    explicit svg(const picture& p, const draw_style& style) : p_(p), style_(style) {
        const int longer = std::max(p.queries, p.keys);
        width_ = std::max(side * p.keys / longer, 60),
        height_ = std::max(side * p.queries / longer, 60);  // very long and very wide pictures are not to scale
    }

    std::string draw() {
        const auto masked = static_cast<std::size_t>(std::count(p_.visible.begin(), p_.visible.end(), 0));
        const bool mask_panel = masked > 0 || !p_.varies;
        const int panels = mask_panel + p_.varies, panel = std::max(width_, 380);
        const int total = left + panels * panel + (panels - 1) * gap + 40;
        head(total);
        const int y = at_ + top_of_panel;
        int x = left, below = y;
        if (mask_panel) below = std::max(below, mask(x, y)), x += panel + gap;
        if (p_.varies) below = std::max(below, scores(x, y));
        at_ = below + 8;
        caption(total);
        const std::string start = fmt::format(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
            "font-family=\"Inter,'Segoe UI',Helvetica,Arial,'DejaVu Sans',sans-serif\" font-size=\"12\" "
            "fill=\"{2}\">\n<title>{3}</title>\n<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
            total, at_ + 6, ink, escaped(p_.name));
        return start + text_ + "</svg>\n";
    }

private:
    template <class... T> void put(fmt::format_string<T...> format, T&&... values) {
        fmt::format_to(std::back_inserter(text_), format, std::forward<T>(values)...);
    }

    void label(int x, int y, std::string_view text, std::string_view attributes = "") {
        put("<text x=\"{}\" y=\"{}\"{}{}>{}</text>\n", x, y, attributes.empty() ? "" : " ", attributes, escaped(text));
    }

    void head(int total) {
        at_ = 30;
        label(20, at_, p_.name, "font-size=\"17\" font-weight=\"600\"");
        at_ += 6;
        auto lines = wrapped(p_.formula, static_cast<std::size_t>((total - 40) / 7));
        if (lines.size() > 16) lines.resize(16), lines.push_back("...");
        put("<g font-family=\"'JetBrains Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace\" font-size=\"11\" "
            "fill=\"{}\" xml:space=\"preserve\">\n",
            "#3b4a59");
        for (const std::string& each : lines) label(20, at_ += 15, each);
        put("</g>\n");
    }

    /// Axes of a panel whose cells begin at (x, y), and the name above it.
    void frame(int x, int y, std::string_view name) {
        label(x, y - 32, name, "font-weight=\"600\"");
        put("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"{}\"/>\n", x, y, width_, height_,
            "#9aa7b3");
        put("<g fill=\"{}\" font-size=\"10\">\n", faint);
        const auto ticks = [&](int length, int pixels, bool across) {
            const int step = tick_step(length, std::max(1, pixels / (across ? 44 : 28)));
            for (int i = 0; i < length; i += step) {
                const double place = (i + 0.5) * pixels / length;  // the middle of the cell
                const int at = static_cast<int>(
                    std::lround(length > pixels / 3 ? static_cast<double>(i) * pixels / length : place));
                if (across)
                    put("<path d=\"M{} {}v-4\" stroke=\"#9aa7b3\"/><text x=\"{}\" y=\"{}\" "
                        "text-anchor=\"middle\">{}</text>\n",
                        x + at, y, x + at, y - 7, i);
                else
                    put("<path d=\"M{} {}h-4\" stroke=\"#9aa7b3\"/><text x=\"{}\" y=\"{}\" "
                        "text-anchor=\"end\">{}</text>\n",
                        x, y + at, x - 7, y + at + 4, i);
            }
        };
        ticks(p_.keys, width_, true);
        ticks(p_.queries, height_, false);
        put("</g>\n");
        put("<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"{}\">key</text>\n", x + width_, y - 20, faint);
        put("<text transform=\"translate({} {}) rotate(-90)\" text-anchor=\"end\" fill=\"{}\">query</text>\n", x - 40,
            y, faint);
    }

    /// Layers of outlines: each colour of `palette` from `first` on lies over those before it. Stops where an image
    /// would be shorter.
    std::string layers(const std::vector<std::uint8_t>& of, const std::vector<colour>& palette,
                       std::size_t first = 0) const {
        std::string paths;
        for (std::size_t from = first; from < palette.size() && paths.size() < longest_paths; ++from) {
            std::vector<std::uint8_t> marked(of.size());
            std::transform(of.begin(), of.end(), marked.begin(), [&](std::uint8_t cell) { return cell >= from; });
            if (const std::string path = outline(marked, p_.keys, p_.queries); !path.empty())
                paths += fmt::format("<path fill=\"{}\" d=\"{}\"/>\n", hex(palette[from]), path);
        }
        return paths;
    }

    /// A grid of cells, each a place in `palette`, of which `paths` are the outlines.
    void cells(int x, int y, const std::vector<std::uint8_t>& of, const std::vector<colour>& palette,
               const std::string& paths) {
        if (paths.size() < longest_paths)
            put("<g transform=\"translate({} {}) scale({:.6g} {:.6g})\" shape-rendering=\"crispEdges\" "
                "fill-rule=\"evenodd\">\n{}</g>\n",
                x, y, static_cast<double>(width_) / p_.keys, static_cast<double>(height_) / p_.queries, paths);
        else
            put("<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" "
                "style=\"image-rendering:pixelated\" href=\"{}\"/>\n",
                x, y, width_, height_, png_address(of, p_.keys, p_.queries, palette));
    }

    int legend(int x, int y, const colour& fill, std::string_view text) {
        put("<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{}\" stroke=\"#000\" "
            "stroke-opacity=\"0.15\"/>\n",
            x, y - 10, hex(fill));
        label(x + 19, y, text);
        return y + line;
    }

    /// Returns where the panel ends.
    int mask(int x, int y) {
        const std::size_t pairs = p_.visible.size(),
                          seen = static_cast<std::size_t>(std::count(p_.visible.begin(), p_.visible.end(), 1));
        std::vector<std::uint8_t> of(pairs);
        for (std::size_t i = 0; i < pairs; ++i) {
            const int state =
                style_.blocks ? p_.block_of(static_cast<int>(i) / p_.keys, static_cast<int>(i) % p_.keys) : 0;
            of[i] = static_cast<std::uint8_t>(p_.visible[i] ? (state == 2 ? 3 : 2) : state != 0);
        }
        const std::vector<colour> palette{skipped, masked, visible, whole};
        cells(x, y, of, palette, layers(of, palette));
        if (style_.blocks) grid(x, y);
        frame(x, y, "which keys a query sees");
        int at = y + height_ + 26;
        if (!style_.blocks) {
            at = legend(x, at, visible,
                        fmt::format("visible: {} of {} pairs ({})", grouped(seen), grouped(pairs), share(seen, pairs)));
            return legend(x, at, skipped, "masked");
        }
        std::array<std::size_t, 3> count{};
        for (const std::uint8_t state : p_.blocks) ++count[state];
        const std::size_t visited = count[1] + count[2];
        if (count[2])
            at =
                legend(x, at, whole, fmt::format("visible, in a block that runs without mask ({})", grouped(count[2])));
        if (count[1])
            at = legend(x, at, visible,
                        fmt::format("visible, in a block that is masked pair by pair ({})", grouped(count[1])));
        if (count[1]) at = legend(x, at, masked, "masked pair of such a block");
        if (count[0]) at = legend(x, at, skipped, fmt::format("skipped block ({})", grouped(count[0])));
        label(x, at + 4,
              fmt::format("{} of {} pairs are visible ({}).", grouped(seen), grouped(pairs), share(seen, pairs)));
        label(x, at + 4 + line,
              fmt::format("Blocks of {} x {}: {} of {} visited, {} hold a visible pair.", p_.cut.query_block,
                          p_.cut.key_block, grouped(visited), grouped(p_.blocks.size()), grouped(needed_blocks())));
        return at + 4 + 2 * line;
    }

    std::size_t needed_blocks() const {
        std::set<std::pair<int, int>> needed;
        std::size_t i = 0;
        for (int q = 0; q < p_.queries; ++q)
            for (int k = 0; k < p_.keys; ++k, ++i)
                if (p_.visible[i]) needed.emplace(q / p_.cut.query_block, k / p_.cut.key_block);
        return needed.size();
    }

    void grid(int x, int y) {
        std::string path;
        const auto at = [](int block, int size, int pixels, int length) {
            return static_cast<double>(block) * size * pixels / length;
        };
        for (int i = 1; i < p_.query_blocks(); ++i)
            path += fmt::format("M0 {:.4g}h{}", at(i, p_.cut.query_block, height_, p_.queries), width_);
        for (int j = 1; j < p_.key_blocks(); ++j)
            path += fmt::format("M{:.4g} 0v{}", at(j, p_.cut.key_block, width_, p_.keys), height_);
        if (!path.empty())
            put("<path transform=\"translate({} {})\" stroke=\"#0b2540\" stroke-opacity=\"{}\" stroke-width=\"0.8\" "
                "d=\"{}\"/>\n",
                x, y, p_.blocks.size() > 600 ? 0.15 : 0.35, path);
    }

    /// Values at which colours change, ascending: few enough for a small file.
    std::vector<float> levels(float low, float high) const {
        std::set<float> distinct;
        for (std::size_t i = 0; i < p_.score.size() && distinct.size() <= most_levels; ++i)
            if (p_.visible[i]) distinct.insert(p_.score[i]);
        if (distinct.size() <= most_levels) return {distinct.begin(), distinct.end()};
        std::vector<float> even;
        for (std::size_t i = 0; i < most_levels; ++i)
            even.push_back(low + (high - low) * static_cast<float>(i) / static_cast<float>(most_levels));
        return even;
    }

    int scores(int x, int y) {
        float low = HUGE_VALF, high = -HUGE_VALF;
        for (std::size_t i = 0; i < p_.score.size(); ++i)
            if (p_.visible[i]) low = std::min(low, p_.score[i]), high = std::max(high, p_.score[i]);
        const bool both = low < 0 && high > 0;
        const float reach = std::max(-low, high);
        const auto colour_at = [&](double value) {
            return both ? along(two_signs, (value / reach + 1) / 2) : along(one_sign, (value - low) / (high - low));
        };
        const std::vector<float> steps = levels(low, high);

        std::vector<colour> palette;
        const bool exact = steps.back() == high;
        for (const float step : steps)
            palette.push_back(colour_at(exact ? step : step + (high - low) / static_cast<float>(2 * steps.size())));
        palette.push_back(skipped);
        std::vector<std::uint8_t> of(p_.score.size()), as_if_visible(of.size());
        for (std::size_t i = 0; i < of.size(); ++i) {
            const auto above = std::upper_bound(steps.begin(), steps.end(), p_.score[i]) - steps.begin();
            as_if_visible[i] = static_cast<std::uint8_t>(std::max<std::ptrdiff_t>(above, 1) - 1);
            of[i] = p_.visible[i] ? as_if_visible[i] : static_cast<std::uint8_t>(steps.size());
        }
        // The border of the mask either counts as one of each level or is drawn once over all of them.
        const std::string bordered = layers(of, palette),
                          covered = layers(as_if_visible, {palette.begin(), palette.end() - 1}) +
                                    layers(of, palette, steps.size());
        cells(x, y, of, palette, covered.size() < bordered.size() ? covered : bordered);
        frame(x, y, fmt::format("score where q \xc2\xb7 k = {}", short_number(p_.product)));

        const int bar = std::min(std::max(width_, 240), 300), pieces = 60;
        int at = y + height_ + 20;
        for (int i = 0; i < pieces; ++i) {
            const double value = low + (high - low) * (i + 0.5) / pieces;
            put("<rect x=\"{:.5g}\" y=\"{}\" width=\"{:.4g}\" height=\"12\" fill=\"{}\"/>\n",
                x + static_cast<double>(i) * bar / pieces, at, static_cast<double>(bar) / pieces + 0.4,
                hex(colour_at(value)));
        }
        const auto mark = [&](double value, std::string_view anchor) {
            const double place = x + (value - low) / (high - low) * bar;
            put("<text x=\"{:.5g}\" y=\"{}\" text-anchor=\"{}\" font-size=\"10\" fill=\"{}\">{}</text>\n", place,
                at + 25, anchor, faint, short_number(value));
        };
        mark(low, "start"), mark(high, "end");
        const double middle = both ? 0 : (static_cast<double>(low) + high) / 2, place = (middle - low) / (high - low);
        if (place > 0.2 && place < 0.8) mark(middle, "middle");
        at += 50;
        if (std::count(p_.visible.begin(), p_.visible.end(), 0) > 0) at = legend(x, at, skipped, "masked");
        return at;
    }

    void caption(int total) {
        std::string made_up, given;
        for (const drawn_input& i : p_.inputs) {
            if (i.is.empty()) continue;
            std::string& list = i.given ? given : made_up;
            list += (list.empty() ? "" : "; ") + i.name + " = " + i.is;
        }
        std::string text = fmt::format("Head {} of {}, batch element {}; {} queries, {} keys.", p_.head, p_.heads,
                                       p_.batch, p_.queries, p_.keys);
        if (!given.empty()) text += "\nGiven: " + given;
        if (!made_up.empty()) text += "\nMade up for the picture: " + made_up;
        put("<g fill=\"{}\" font-size=\"11\">\n", faint);
        at_ += 8;
        for (const std::string& each : wrapped(text, static_cast<std::size_t>((total - 40) / 6)))
            label(20, at_ += 15, each);
        put("</g>\n");
        at_ += 8;
    }

    static constexpr std::size_t most_levels = 15;  // with the masked pairs a palette of 16
    static constexpr std::size_t longest_paths = 24 << 10;
    const picture& p_;
    const draw_style& style_;
    int width_, height_, at_{};
    std::string text_;
};

}  // namespace

std::string svg_of(const picture& p, const draw_style& style) { return svg(p, style).draw(); }

std::string json_of(const picture& p) {
    using json = nlohmann::ordered_json;
    json object{{"variant", p.name}, {"formula", p.formula},     {"queries", p.queries}, {"keys", p.keys},
                {"heads", p.heads},  {"key_heads", p.key_heads}, {"head", p.head},       {"batch", p.batch}};
    for (const drawn_input& i : p.inputs)
        if (!i.is.empty()) object["inputs"].push_back({{"name", i.name}, {"is", i.is}, {"given", i.given}});
    json &mask = object["visible"] = json::array(), &scores = object["scores"] = json::array(),
         &blocks = object["blocks"] = json::array();
    for (int q = 0; q < p.queries; ++q) {
        const auto* const row = &p.visible[static_cast<std::size_t>(q) * static_cast<std::size_t>(p.keys)];
        json ranges = json::array();
        for (int k = 0, end; k < p.keys; k = end) {
            for (end = k; end < p.keys && (row[end] != 0) == (row[k] != 0); ++end) {
            }
            if (row[k]) ranges.push_back({k, end});
        }
        mask.push_back(std::move(ranges));
        if (!p.varies) continue;
        json values = json::array();
        for (int k = 0; k < p.keys; ++k)
            values.push_back(row[k] ? json(p.score[static_cast<std::size_t>(q) * static_cast<std::size_t>(p.keys) +
                                                   static_cast<std::size_t>(k)])
                                    : json());
        scores.push_back(std::move(values));
    }
    for (int i = 0; i < p.query_blocks(); ++i) {
        const auto* const row = &p.blocks[static_cast<std::size_t>(i * p.key_blocks())];
        blocks.push_back(std::vector<int>(row, row + p.key_blocks()));
    }
    object["product"] = p.product, object["query_block"] = p.cut.query_block, object["key_block"] = p.cut.key_block;
    return object.dump() + "\n";
}

}  // namespace attune::generators::inline inspect
