#pragma once
#include "inspect/draw_inputs.hpp"
#include "inspect/tensor_file.hpp"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Values of inputs: as the command line gives them, in memory, and as a caption says them.
namespace attune::generators::inline inspect {

/// One `name=value` of the command line.
struct given_input {
    std::string text;  ///< right of the `=`
    std::optional<dense_tensor> tensor;
    std::optional<double> number;  ///< of a file
};
using given_inputs = std::map<std::string, given_input>;

[[noreturn]] void refuse_input(const std::string& sentence);

/// A graph's inputs, then kv_lengths.
std::vector<input_declaration> declarations(const graph_ir& graph);
given_inputs parse(const std::vector<input_declaration>& declared, const std::vector<std::string>& texts);

double number_from(std::string_view text, const std::string& name);
/// "1,2,3" or, repeated, "0*100,1*56".
std::vector<double> list_from(std::string_view text, const std::string& name);

/// The element number `at`.
void put(drawn_input& input, std::size_t at, double value);
double value_at(const drawn_input& input, std::size_t at);
/// Dense strides over `shape`; memory for all of it.
void make_dense(drawn_input& input);
/// `value(indices)` everywhere.
template <class Value> void fill(drawn_input& input, Value&& value) {
    make_dense(input);
    std::vector<int> at(input.shape.size());
    const std::size_t count = input.bytes.size() / static_cast<std::size_t>(bytes_of(input.element));
    for (std::size_t i = 0; i < count; ++i) {
        put(input, i, value(std::span<const int>(at)));
        for (std::size_t axis = at.size(); axis-- > 0;) {
            if (++at[axis] < input.shape[axis]) break;
            at[axis] = 0;
        }
    }
}

std::string number_text(double x);
/// The first values along the last axis, runs as value*count.
std::string list_text(std::span<const double> values);

}  // namespace attune::generators::inline inspect
