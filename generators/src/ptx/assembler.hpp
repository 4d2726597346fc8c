#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace attune::generators::inline ptx {

/// NVIDIA's programs that compile PTX to machine code ahead of the driver: ptxas, and fatbinary in the same folder.
class assembler {
public:
    /// The cards whose code is kept, by `all`: Ampere, its small ones, Ada, Hopper and both kinds of Blackwell. Code
    /// for one runs on later ones of the same first digits, but for sm_90a.
    static constexpr std::string_view known[] = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"};

    /// For these architectures; {"all"} means those of `known` that ptxas knows. Throws std::runtime_error if one of
    /// the programs is absent, or ptxas does not know an architecture.
    assembler(std::filesystem::path ptxas, std::vector<std::string> architectures);

    /// One image of a module's PTX: machine code for each architecture, and the text, from which a driver makes code
    /// for any other card. CUDA's cuModuleLoadData takes it in place of PTX. All parts are compressed, so that the
    /// image is about as long as the text was. Throws std::runtime_error with the words of ptxas if it refuses the
    /// text.
    std::string image_of(const std::string& module) const;

    const std::vector<std::string>& architectures() const { return architectures_; }
    /// All that an image depends on beside the text: the programs' versions and the architectures.
    std::string identity() const;

private:
    std::filesystem::path ptxas_, fatbinary_;
    std::vector<std::string> architectures_;
    std::string versions_;
    bool has_modes_ = false;  ///< fatbinary lets one choose how it compresses
};

}  // namespace attune::generators::inline ptx
