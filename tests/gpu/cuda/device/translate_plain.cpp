#include "plain_operations.hpp"
#include "translator.hpp"

#include <algorithm>

namespace ptx {
namespace {

const plain_operations& known() {
    static const plain_operations all = [] {
        plain_operations made;
        add_integers(made), add_bits(made), add_reals(made);
        return made;
    }();
    return all;
}

}  // namespace

unit translate_plain(translator& in, const statement& from, instruction& to) {
    std::string key;
    for (const std::string& word : from.words)
        if (word != "rn" && word != "approx" && word != "full" && word != "lo") key += (key.empty() ? "" : ".") + word;
    const auto found = known().find(key);
    if (found == known().end()) return unit::alu;
    const plain_operation& its = found->second;
    if (from.operands.size() != its.sources.size() + 1)
        refuse_text(from.line, "expected " + std::to_string(its.sources.size() + 1) + " operands of " +
                                   from.operation() + ", got " + std::to_string(from.operands.size()));
    in.results(to, {from.operands[0]}, its.result);
    for (std::size_t n = 0; n < its.sources.size(); ++n) to.s[n] = in.value(from.operands[n + 1], its.sources[n]);
    to.run = its.run;
    return its.at;
}

}  // namespace ptx
