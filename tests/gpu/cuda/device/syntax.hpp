#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

/// The text of a PTX module, cut into entries and statements; nothing of what they mean.
namespace ptx {

/// `@!%p1 ld.global.v2.f32 {%f1, %f2}, [%rd1 + 8];`
struct statement {
    int line{};  ///< of the module's text, from 1
    std::string guard;
    bool guard_negated{};
    std::vector<std::string> words;     ///< ld global v2 f32; of a directive the first is empty
    std::vector<std::string> operands;  ///< {%f1, %f2} and [%rd1 + 8]; of a directive what follows it, as it stands
    std::string operation() const;      ///< the words with their points
};

/// A kernel's parameter, among the bytes of all of them.
struct parameter {
    std::string name;
    std::size_t offset{}, bytes{};
};

struct entry_text {
    std::string name;
    int line{};
    std::vector<parameter> parameters;
    std::size_t parameter_bytes{};
    std::vector<statement> statements;
    std::map<std::string, std::size_t> labels;  ///< of which statement
};

/// A variable of shared or local memory: `.shared .align 16 .b8 name[1024]`.
struct variable {
    std::string name;
    std::size_t align{}, bytes{};
};

struct module_text {
    std::string target;                ///< sm_80
    std::vector<std::string> lines;    ///< as they stand
    std::vector<variable> shared;      ///< of all entries
    std::vector<std::string> dynamic;  ///< `.extern .shared`: where the memory of a launch begins
    std::vector<entry_text> entries;
};

/// Throws std::runtime_error, with the line, if the text is no module.
module_text read_module(std::string_view text);

/// Of `.shared .align 16 .b8 name[1024]`.
variable read_variable(const std::string& declaration, int line);
/// The parts between commas outside of brackets, without spaces around.
std::vector<std::string> split(std::string_view text, char at);
std::string trimmed(std::string_view text);
/// Of a type: f32, b16, bf16x2, pred (1). 0 if it is none.
int bits_of(std::string_view type);
bool has_word(const statement& of, std::string_view word);

[[noreturn]] void refuse_text(int line, const std::string& sentence);

}  // namespace ptx
