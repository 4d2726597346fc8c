// rejects: a graph has at most 512 different operations, 32 inputs, 16 outputs, 16 bound indices and 16 stores
#include "language.hpp"

namespace my {
template <int number> constexpr name<3> label() {
    const char text[] = {'a' + number / 8, 'a' + number % 8, '\0'};
    return name<3>(text);
}
template <int count> constexpr auto sum_of() {
    constexpr auto last = input<label<count>(), f32>(head);
    if constexpr (count == 1)
        return last(h);
    else
        return sum_of<count - 1>() + last(h);
}
#ifdef REJECT
inline constexpr auto variant = softmax(scores + sum_of<30>()) * v;
#else
inline constexpr auto variant = softmax(scores + sum_of<29>()) * v;
#endif
inline constexpr auto text = ir_of<variant>;
}  // namespace my
