#include "ptx/assembler.hpp"

#include "ptx/program.hpp"

#include <algorithm>
#include <regex>
#include <set>
#include <stdexcept>
#include <utility>

namespace attune::generators::inline ptx {
namespace {

namespace fs = std::filesystem;

/// The output of a program for an option.
std::string told(const fs::path& program, const std::string& option) {
    const scratch_folder scratch;
    const program_end end = run_program({program.string(), option}, scratch);
    if (end.status != 0)
        throw std::runtime_error("expected " + program.filename().string() + " of a CUDA toolkit, got \"" +
                                 program.string() + "\", which does not know " + option);
    return end.said;
}

fs::path beside(const fs::path& ptxas) {
    fs::path file = ptxas.parent_path() / "fatbinary";
    if (!fs::exists(file))
        throw std::runtime_error("expected fatbinary in the folder of ptxas, got none in \"" +
                                 ptxas.parent_path().string() +
                                 "\"; try a CUDA toolkit, or PyPI's nvidia-cuda-nvcc 13, which have both");
    return file;
}

std::set<std::string> architectures_in(const std::string& help) {
    static const std::regex name("\\bsm_[0-9]+[a-z]?\\b");
    return {std::sregex_token_iterator(help.begin(), help.end(), name), std::sregex_token_iterator()};
}

std::string joined(const auto& words) {
    std::string all;
    for (const auto& each : words) all.append(all.empty() ? "" : " ").append(each);
    return all;
}

/// The error lines of ptxas, without the name of a file that is gone when they are read.
std::string errors_in(const std::string& said, const fs::path& file) {
    constexpr int most = 3;
    std::string all, name = file.string();
    std::size_t begin = 0;
    for (int lines = 0; begin < said.size() && lines < most;) {
        const std::size_t end = std::min(said.find('\n', begin), said.size());
        std::string line = said.substr(begin, end - begin);
        begin = end + 1;
        if (line.find("error") == line.npos && line.find("fatal") == line.npos) continue;
        if (const std::size_t at = line.find(name); at != line.npos) line.replace(at, name.size(), "PTX");
        all += (lines++ ? "; " : "") + line;
    }
    return all.empty() ? said : all;
}

/// "80" of ".target sm_80".
std::string target_of(const std::string& module) {
    static const std::regex line("\\.target\\s+sm_([0-9]+[a-z]?)");
    std::smatch found;
    if (!std::regex_search(module, found, line))
        throw std::runtime_error("expected PTX with a line such as .target sm_80, got none");
    return found[1];
}

}  // namespace

assembler::assembler(fs::path ptxas, std::vector<std::string> architectures)
    : ptxas_(std::move(ptxas)), architectures_(std::move(architectures)) {
    if (!fs::exists(ptxas_))
        throw std::runtime_error("expected ptxas with architectures of CUDA, got \"" + ptxas_.string() +
                                 "\", which is no file");
    fatbinary_ = beside(ptxas_);
    const std::set<std::string> has = architectures_in(told(ptxas_, "--help"));
    if (architectures_ == std::vector<std::string>{"all"}) {
        architectures_.assign(std::begin(known), std::end(known));
        std::erase_if(architectures_, [&](const std::string& each) { return !has.contains(each); });
    }
    for (const std::string& each : architectures_)
        if (!has.contains(each))
            throw std::runtime_error("expected architectures that ptxas knows, got " + each + "; try some of " +
                                     joined(has));
    if (architectures_.empty())
        throw std::runtime_error("expected a ptxas that knows one of " + joined(known) + ", got one that knows " +
                                 joined(has) + "; try a newer one, or none");
    versions_ = told(ptxas_, "--version") + told(fatbinary_, "--version");
    has_modes_ = told(fatbinary_, "--help").find("--compress-mode") != std::string::npos;
}

std::string assembler::image_of(const std::string& module) const {
    const scratch_folder scratch;
    const fs::path text = scratch.path() / "module.ptx", image = scratch.path() / "image";
    write_bytes(text, module);
    std::vector<std::string> whole = {fatbinary_.string(), "-64", "--create=" + image.string(), "--compress-all"};
    // LZ4, which every driver knows: newer ways of compression need newer drivers.
    if (has_modes_) whole.emplace_back("--compress-mode=speed");
    const std::string target = target_of(module);
    for (const std::string& each : architectures_) {
        if (target.ends_with("a") && each != "sm_" + target) continue;  // runs there alone
        const fs::path code = scratch.path() / (each + ".cubin");
        const program_end end =
            run_program({ptxas_.string(), "-arch=" + each, text.string(), "-o", code.string()}, scratch);
        if (end.status != 0)
            throw std::runtime_error("expected PTX that ptxas takes for " + each + ", got \"" +
                                     errors_in(end.said, text) + "\"");
        whole.push_back("--image3=kind=elf,sm=" + each.substr(3) + ",file=" + code.string());
    }
    whole.push_back("--image3=kind=ptx,sm=" + target + ",file=" + text.string());
    const program_end end = run_program(whole, scratch);
    if (end.status != 0) throw std::runtime_error("expected an image of fatbinary, got \"" + end.said + "\"");
    return bytes_of(image);
}

std::string assembler::identity() const { return versions_ + joined(architectures_); }

}  // namespace attune::generators::inline ptx
