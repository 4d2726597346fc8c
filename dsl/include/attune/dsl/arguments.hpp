#pragma once
#include <attune/dsl/name.hpp>
#include <attune/dsl/node.hpp>

namespace attune::dsl {

/// `slopes = S`: a value under the name of an input or output, as passed to a call.
template <name Label, class Value> struct argument {
    static constexpr std::string_view label = Label.view();
    static constexpr auto label_value = Label;
    Value value;
};

/// `out = softmax(scores) * v`: a part of the graph under the name of an output.
template <name Label, expression Value> struct named_output {
    static constexpr std::string_view label = Label.view(), derivative = derivative_name<Label>.view(),
                                      before = before_name<Label>.view();
    Value value;
};

namespace detail {
template <name Label, class Value> constexpr auto bind(Value value) {
    if constexpr (expression<Value>)
        return named_output<Label, Value>{value};
    else if constexpr (requires { value.node(); })
        return named_output<Label, decltype(value.node())>{value.node()};  // a sequence
    else
        return argument<Label, Value>{value};
}
}  // namespace detail

}  // namespace attune::dsl
