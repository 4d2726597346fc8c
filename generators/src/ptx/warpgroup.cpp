#include "ptx/warpgroup.hpp"

#include <algorithm>
#include <deque>
#include <string>

namespace attune::generators::inline ptx {
namespace {

constexpr int row_bytes = 128, row_elements = 64, rows_together = 8, depth_of_step = 16;

struct product {
    int columns, steps;
    bool adds, in_turn;
    const char* element;

    int sums() const { return columns / 2; }
    int words_of_a() const { return 4 * steps; }
    std::string name() const {
        return std::string("attune_wgmma_") +
               (adds      ? "add_"
                : in_turn ? "in_turn_"
                          : "") +
               "n" + std::to_string(columns) + "_s" + std::to_string(steps) + "_" + element;
    }
    std::string text() const;
};

std::string list(char sign, int from, int count) {
    std::string all;
    for (int n = from; n < from + count; ++n) all += (n == from ? "" : ", ") + std::string(1, sign) + std::to_string(n);
    return "{" + all + "}";
}

/// All steps in one go, then they are waited for: between the first and the last nothing else may touch the sums.
std::string product::text() const {
    const int rows = adds ? steps * depth_of_step : columns, bytes_of_part = rows * row_bytes;
    // In units of 16 bytes: the stride of eight rows, and of parts of rows, which only columns lie in.
    const long long eight_rows = rows_together * row_bytes / 16, parts = adds ? bytes_of_part / 16 : 1;
    const std::string swizzled = std::to_string(1LL << 62 | eight_rows << 32 | parts << 16);
    std::string all = "{ .reg .b64 place; .reg .b64 rows; .reg .pred never; .reg .pred always;\n";
    const auto line = [&](const std::string& what) { all += "\t" + what + "\n"; };
    for (int n = 0; adds && n < sums(); ++n)
        line("mov.b32 %" + std::to_string(n) + ", $" + std::to_string(words_of_a() + 1 + n) + ";");
    line("mov.b64 place, $" + std::to_string(words_of_a()) + ";");
    line("shr.u64 place, place, 4;");
    line("or.b64 place, place, " + swizzled + ";");
    line("setp.ne.b32 never, $0, $0;");
    line("setp.eq.b32 always, $0, $0;");
    if (in_turn) {
        line(".reg .b32 warp; .reg .pred second;");
        line("mov.u32 warp, %tid.y;");
        line("setp.ge.u32 second, warp, 4;");
        line("@second bar.sync 1, 256;");
    }
    line("wgmma.fence.sync.aligned;");
    for (int step = 0; step < steps; ++step) {
        const int of_row = row_elements / depth_of_step;
        const int at = adds ? step * depth_of_step * row_bytes
                            : step / of_row * bytes_of_part + step % of_row * (row_bytes / of_row);
        line("add.s64 rows, place, " + std::to_string(at / 16) + ";");
        line("wgmma.mma_async.sync.aligned.m64n" + std::to_string(columns) + "k16.f32." + element + "." + element +
             " " + list('%', 0, sums()) + ", " + list('$', 4 * step, 4) + ", rows, " +
             (adds || step > 0 ? "always" : "never") + ", 1, 1, " + (adds ? "1;" : "0;"));
    }
    line("wgmma.commit_group.sync.aligned;");
    if (in_turn) line("@!second bar.arrive 1, 256;");
    line("wgmma.wait_group.sync.aligned 0;");
    return all + "\t}";
}

struct named_instruction {
    std::string name, text;
    instruction is;
};

std::deque<named_instruction> all_products() {
    std::deque<named_instruction> all;
    for (const char* element : {"bf16", "f16"})
        for (const int columns : {64, 128})
            for (const int steps : {4, 8})
                for (const int kind : {0, 1, 2}) {
                    const bool adds = kind == 2;
                    const product each{columns, steps, adds, kind == 1, element};
                    named_instruction& made = all.emplace_back(each.name(), each.text(), instruction{});
                    made.is = {.name = made.name,
                               .results = each.sums(),
                               .operands = each.words_of_a() + 1 + (adds ? each.sums() : 0),
                               .of_warp = true,
                               .text = made.text,
                               .address = each.words_of_a(),
                               .of_warpgroup = true};
                }
    return all;
}

}  // namespace

const instruction* product_of_warpgroup(std::string_view name) {
    static const std::deque<named_instruction> all = all_products();
    const auto found = std::ranges::find(all, name, &named_instruction::name);
    return found == all.end() ? nullptr : &found->is;
}

}  // namespace attune::generators::inline ptx
