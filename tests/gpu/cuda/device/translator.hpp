#pragma once
#include "card.hpp"
#include "program.hpp"

#include <map>
#include <string>
#include <unordered_map>

namespace ptx {

/// Makes a program of an entry's text: names become slots, words become handlers.
class translator {
public:
    translator(const module_text& of, const entry_text& entry, const card& on);
    program whole();

    // Operands, for the families of instructions. Each refuses, with the line, an operand that does not exist.
    int value(const std::string& operand, int bits);  ///< a register, a constant or an address of a variable
    int predicate(const std::string& name) const;
    bool is_long(const std::string& operand) const { return longs_.contains(operand); }
    memory_operand address(const std::string& operand);
    void results(instruction& of, const std::vector<std::string>& operands, int bits);
    void sources(instruction& of, const std::vector<std::string>& operands, int bits);
    const card& device() const { return card_; }

private:
    void declare(const statement& registers);
    void add(const statement& from);
    int slot(const std::string& name, bool is_long);
    int operation_of(const statement& from, unit at);
    const s64* symbol(const std::string& name) const;

    const entry_text& entry_;
    const card& card_;
    program made_;
    std::unordered_map<std::string, int> words_, longs_, predicates_;
    std::map<std::string, s64> symbols_;  ///< variables, parameters
    std::map<std::string, int> operations_;
    std::vector<std::size_t> first_instruction_;  ///< of each statement
    std::vector<std::pair<std::size_t, std::string>> branches_;
    int line_ = 0;
};

/// `{%f1, %f2}`, or one register.
std::vector<std::string> members_of(const std::string& operand);

// Families: each fills in an instruction from one statement, or leaves it without a handler. The result is its unit.
unit translate_plain(translator& in, const statement& from, instruction& to);       ///< arithmetic of one lane
unit translate_conversion(translator& in, const statement& from, instruction& to);  ///< cvt, cvta
unit translate_choice(translator& in, const statement& from, instruction& to);      ///< setp, selp, predicates
unit translate_move(translator& in, const statement& from, instruction& to);        ///< mov
unit translate_memory(translator& in, const statement& from, instruction& to);      ///< ld, st, red, atom, cp.async
unit translate_warp(translator& in, const statement& from, instruction& to);        ///< shfl, mma, wgmma, ldmatrix
unit translate_control(translator& in, const statement& from, instruction& to);     ///< bar, ret, trap, fences

}  // namespace ptx
