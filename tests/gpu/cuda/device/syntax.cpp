#include "syntax.hpp"

#include <algorithm>
#include <cctype>
#include <stdexcept>

namespace ptx {
namespace {

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool is_of_name(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' || c == '.';
}

/// The text with spaces where comments were, so that lines stay where they are.
std::string without_comments(std::string_view text) {
    std::string plain(text);
    for (std::size_t at = 0; at + 1 < plain.size(); ++at) {
        if (plain[at] != '/' || (plain[at + 1] != '/' && plain[at + 1] != '*')) continue;
        const bool of_line = plain[at + 1] == '/';
        const std::size_t found = plain.find(of_line ? "\n" : "*/", at + 2),
                          end = found == std::string::npos ? plain.size() : found + (of_line ? 0 : 2);
        for (; at < end; ++at)
            if (plain[at] != '\n') plain[at] = ' ';
        --at;
    }
    return plain;
}

/// Goes through a module's text from statement to statement.
class scanner {
public:
    explicit scanner(std::string_view text) : text_(without_comments(text)) {}

    module_text whole() {
        module_text made;
        for (skip_space(); at_ < text_.size(); skip_space()) {
            const std::string word = next_word();
            if (word == ".target")
                made.target = split(rest_of_line(), ',').front();
            else if (word == ".entry")
                made.entries.push_back(entry());
            else if (word == ".shared" || word == ".extern")
                shared(word, made);
            else if (word == ".visible" || word == ".weak")
                continue;
            else if (word == ".func")
                refuse_text(line_, "expected kernels alone, got a function (.func)");
            else if (word == ".global" || word == ".const")
                refuse_text(line_, "expected no variables of a module, got " + word);
            else
                rest_of_line();
        }
        if (made.target.empty()) refuse_text(line_, "expected a module of PTX, which names its .target, got none");
        return made;
    }

private:
    void skip_space() {
        for (; at_ < text_.size() && is_space(text_[at_]); ++at_) line_ += text_[at_] == '\n';
    }
    std::string next_word() {
        const std::size_t from = at_;
        while (at_ < text_.size() && is_of_name(text_[at_])) ++at_;
        if (at_ == from) refuse_text(line_, std::string("expected a word, got ") + text_[at_]);
        return text_.substr(from, at_ - from);
    }
    std::string rest_of_line() { return up_to("\n"); }
    /// The text before one of these characters, which is passed over unless it ends a line.
    std::string up_to(std::string_view ends) {
        const std::size_t from = at_, end = std::min(text_.find_first_of(ends, at_), text_.size());
        at_ = end;
        line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(from),
                                             text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
        if (at_ < text_.size() && text_[at_] != '\n') ++at_;
        return trimmed(std::string_view(text_).substr(from, end - from));
    }

    void shared(const std::string& word, module_text& made) {
        const int line = line_;
        const std::string declared = word + " " + up_to(";");
        if (word == ".shared")
            made.shared.push_back(read_variable(declared, line));
        else if (declared.find(".shared") != std::string::npos)
            made.dynamic.push_back(read_variable(declared, line).name);
        else
            refuse_text(line, "expected .extern of shared memory alone, got " + declared);
    }

    entry_text entry() {
        entry_text made;
        skip_space();
        made.line = line_, made.name = next_word();
        skip_space();
        if (at_ < text_.size() && text_[at_] == '(') {
            ++at_;
            for (const std::string& each : split(up_to(")"), ',')) add_parameter(made, each);
        }
        up_to("{");  // directives as .maxntid: advice to a compiler
        body(made);
        return made;
    }

    /// `.param .u64 .ptr .align 1 name`, or `.param .align 8 .b8 name[24]`
    void add_parameter(entry_text& to, const std::string& text) {
        std::vector<std::string> words = split(text, ' ');
        std::size_t bytes = 0, align = 0;
        for (const std::string& word : words)
            if (word[0] == '.' && bits_of(word.substr(1)) && !bytes)
                bytes = align = static_cast<std::size_t>(bits_of(word.substr(1))) / 8;
        if (const std::size_t bracket = words.back().find('['); bracket != std::string::npos) {
            const variable array = read_variable(text, line_);
            bytes = array.bytes, align = array.align, words.back().resize(bracket);
        }
        if (!bytes) refuse_text(line_, "expected a parameter with its type, got " + text);
        to.parameter_bytes = (to.parameter_bytes + align - 1) / align * align;
        to.parameters.push_back({words.back(), to.parameter_bytes, bytes});
        to.parameter_bytes += bytes;
    }

    /// A brace that begins a statement is a block's; within one it is a vector's.
    void body(entry_text& to) {
        for (int depth = 1; depth > 0;) {
            skip_space();
            if (at_ >= text_.size()) refuse_text(line_, "expected the end of " + to.name + ", got that of the text");
            if (text_[at_] == '{' || text_[at_] == '}') {
                depth += text_[at_++] == '{' ? 1 : -1;
                continue;
            }
            if (text_.compare(at_, 5, ".loc ") == 0 || text_.compare(at_, 6, ".file ") == 0 ||
                text_.compare(at_, 5, ".loc\t") == 0) {
                rest_of_line();
                continue;
            }
            std::size_t end = at_;
            while (end < text_.size() && is_of_name(text_[end])) ++end;
            if (end > at_ && end + 1 < text_.size() && text_[end] == ':' && text_[end + 1] != ':') {
                to.labels[text_.substr(at_, end - at_)] = to.statements.size();
                at_ = end + 1;
                continue;
            }
            const int line = line_;
            const std::string text = up_to(";");
            if (!text.empty()) to.statements.push_back(read_statement(text, line));
        }
    }

    static statement read_statement(std::string text, int line) {
        statement made;
        made.line = line;
        if (text[0] == '@') {
            const std::size_t end = std::find_if(text.begin(), text.end(), is_space) - text.begin();
            made.guard_negated = text[1] == '!';
            made.guard = text.substr(made.guard_negated ? 2 : 1, end - (made.guard_negated ? 2 : 1));
            text = trimmed(std::string_view(text).substr(end));
        }
        const std::size_t end = std::find_if(text.begin(), text.end(), is_space) - text.begin();
        const std::string_view rest = std::string_view(text).substr(end);
        made.words = split(std::string_view(text).substr(0, end), '.');
        if (text[0] == '.')
            made.operands = {trimmed(rest)};
        else
            made.operands = split(rest, ',');
        return made;
    }

    std::string text_;
    std::size_t at_ = 0;
    int line_ = 1;
};

}  // namespace

module_text read_module(std::string_view text) {
    module_text made = scanner(text).whole();
    for (std::size_t from = 0; from < text.size();) {
        const std::size_t end = std::min(text.find('\n', from), text.size());
        std::ranges::replace(made.lines.emplace_back(trimmed(text.substr(from, end - from))), '\t', ' ');
        from = end + 1;
    }
    return made;
}

void refuse_text(int line, const std::string& sentence) {
    throw std::runtime_error("line " + std::to_string(line) + " of the PTX: " + sentence);
}

std::string statement::operation() const {
    std::string all;
    for (const std::string& word : words) all += (&word == words.data() ? "" : ".") + word;
    return all;
}

std::string trimmed(std::string_view text) {
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
    return std::string(text);
}

std::vector<std::string> split(std::string_view text, char at) {
    std::vector<std::string> parts;
    std::size_t from = 0;
    int depth = 0;
    const auto end_part = [&](std::size_t end) {
        std::string part = trimmed(text.substr(from, end - from));
        if (!part.empty() || at == '.') parts.push_back(std::move(part));
        from = end + 1;
    };
    for (std::size_t i = 0; i < text.size(); ++i) {
        depth += text[i] == '{' || text[i] == '[' || text[i] == '(';
        depth -= text[i] == '}' || text[i] == ']' || text[i] == ')';
        if (depth == 0 && (text[i] == at || (at == ' ' && is_space(text[i])))) end_part(i);
    }
    end_part(text.size());
    return parts;
}

int bits_of(std::string_view type) {
    if (type == "pred") return 1;
    if (type == "f16x2" || type == "bf16x2" || type == "tf32") return 32;
    if (type == "bf16") return 16;
    if (type.size() < 2 || std::string_view("busf").find(type[0]) == std::string_view::npos) return 0;
    for (const int bits : {8, 16, 32, 64})
        if (type.substr(1) == std::to_string(bits)) return bits;
    return 0;
}

bool has_word(const statement& of, std::string_view word) {
    return std::ranges::find(of.words, word) != of.words.end();
}

variable read_variable(const std::string& declaration, int line) {
    variable made;
    made.align = 1;
    const std::vector<std::string> words = split(declaration, ' ');
    std::size_t element = 0;
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (words[i] == ".align" && i + 1 < words.size())
            made.align = std::stoull(words[i + 1]);
        else if (words[i][0] == '.' && bits_of(words[i].substr(1)))
            element = static_cast<std::size_t>(bits_of(words[i].substr(1))) / 8;
    }
    const std::size_t bracket = words.back().find('[');
    made.name = words.back().substr(0, bracket);
    if (!element) refuse_text(line, "expected a variable with its type, got " + declaration);
    const std::string count =
        bracket == std::string::npos ? "1" : words.back().substr(bracket + 1, words.back().find(']') - bracket - 1);
    made.align = std::max(made.align, element);
    made.bytes = count.empty() ? 0 : element * std::stoull(count);
    return made;
}

}  // namespace ptx
