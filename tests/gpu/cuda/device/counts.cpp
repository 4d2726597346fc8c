#include "counts.hpp"

#include <algorithm>
#include <sstream>

namespace ptx {

const char* name_of(unit which) {
    constexpr const char* names[units] = {"fma",    "alu",    "transcendental", "doubles",
                                          "tensor", "memory", "control",        "moves"};
    return names[static_cast<int>(which)];
}

operation_count& operation_count::operator+=(const operation_count& other) {
    issued += other.issued, lanes += other.lanes, requests += other.requests;
    wavefronts += other.wavefronts, sectors += other.sectors;
    return *this;
}

void counts::add(const program& of, const std::vector<operation_count>& of_instructions) {
    for (std::size_t n = 0; n < of_instructions.size(); ++n) {
        const operation_count& count = of_instructions[n];
        if (!count.issued) continue;
        const instruction& i = of.code[n];
        const operation& its = of.operations[static_cast<std::size_t>(i.operation)];
        operations[its.name] += count;
        issued_of_unit[static_cast<std::size_t>(its.at)] += count.issued;
        if (!count.requests) continue;
        line_count& line = memory_lines[i.line];
        line.text = of.lines->at(static_cast<std::size_t>(i.line) - 1);
        line.count += count;
    }
}

void counts::add(const counts& other) {
    for (const auto& [name, count] : other.operations) operations[name] += count;
    for (const auto& [number, line] : other.memory_lines) {
        line_count& its = memory_lines[number];
        its.text = line.text, its.count += line.count;
    }
    for (std::size_t n = 0; n < units; ++n) issued_of_unit[n] += other.issued_of_unit[n];
}

operation_count counts::all() const {
    operation_count sum;
    for (const auto& [name, count] : operations) sum += count;
    return sum;
}

u64 wavefronts(const u64* addresses, u32 bytes, u32 mask) {
    constexpr int banks = 32;
    const int together = bytes <= 4 ? lanes : bytes == 8 ? lanes / 2 : lanes / 4;
    u64 all = 0;
    for (int first = 0; first < lanes; first += together) {
        u64 word[banks][lanes];
        int of_bank[banks] = {}, most = 0;
        for (int lane = first; lane < first + together; ++lane) {
            if (!(mask >> lane & 1)) continue;
            for (u32 byte = 0; byte < std::max(bytes, 4u); byte += 4) {
                const u64 wanted = (addresses[lane] + byte) / 4;
                u64* const asked = word[wanted % banks];
                int& count = of_bank[wanted % banks];
                if (std::find(asked, asked + count, wanted) == asked + count) asked[count++] = wanted;
                most = std::max(most, count);
            }
        }
        all += static_cast<u64>(most);
    }
    return all;
}

u64 sectors(const u64* addresses, u32 bytes, u32 mask) {
    constexpr u64 size = 32;
    std::vector<u64> touched;
    for (int lane = 0; lane < lanes; ++lane)
        if (mask >> lane & 1)
            for (u64 sector = addresses[lane] / size; sector <= (addresses[lane] + bytes - 1) / size; ++sector)
                touched.push_back(sector);
    std::ranges::sort(touched);
    return static_cast<u64>(std::unique(touched.begin(), touched.end()) - touched.begin());
}

std::string json_line(const launch_shape& of, const counts& made) {
    std::ostringstream to;
    const operation_count all = made.all();
    to << "{\"entry\": \"" << of.entry << "\", \"grid\": [" << of.grid[0] << ", " << of.grid[1] << ", " << of.grid[2]
       << "], \"block\": [" << of.block[0] << ", " << of.block[1] << ", " << of.block[2]
       << "], \"shared_bytes\": " << of.shared_bytes << ", \"seconds\": " << of.seconds
       << ", \"warp_instructions\": " << all.issued << ", \"lane_instructions\": " << all.lanes << ", \"units\": {";
    for (std::size_t n = 0; n < units; ++n)
        to << (n ? ", " : "") << '"' << name_of(static_cast<unit>(n)) << "\": " << made.issued_of_unit[n];
    to << "}";
    const auto list = [&](const char* what, u64 operation_count::* member, u64 operation_count::* of_those_with) {
        const char* between = "";
        to << ", \"" << what << "\": {";
        for (const auto& [name, count] : made.operations)
            if (count.*of_those_with) to << between << '"' << name << "\": " << count.*member, between = ", ";
        to << "}";
    };
    list("operations", &operation_count::issued, &operation_count::issued);
    list("shared_requests", &operation_count::requests, &operation_count::wavefronts);
    list("shared_wavefronts", &operation_count::wavefronts, &operation_count::wavefronts);
    list("global_requests", &operation_count::requests, &operation_count::sectors);
    list("global_sectors", &operation_count::sectors, &operation_count::sectors);
    to << ", \"memory_lines\": [";
    const char* between = "";
    for (const auto& [number, line] : made.memory_lines) {
        to << between << "{\"line\": " << number << ", \"text\": \"" << line.text
           << "\", \"requests\": " << line.count.requests << ", \"wavefronts\": " << line.count.wavefronts
           << ", \"sectors\": " << line.count.sectors << "}";
        between = ", ";
    }
    to << "]}";
    return to.str();
}

}  // namespace ptx
