#include "c/arguments.hpp"
#include "c/support.hpp"
#include "c/tensor.hpp"

namespace attune::detail {
namespace {

constexpr std::size_t most_arguments = 1024;

named_argument from(const attune_argument& given) {
    if (!given.name) fail("a name for every argument", "null", "the formula's, such as \"q\"");
    if (given.reserved != 0)
        fail(say("0 in reserved of the argument ", given.name), say(given.reserved), "clearing the struct first");
    named_argument result{.name = given.name};
    using form = named_argument::form;
    switch (given.kind) {
        case ATTUNE_TENSOR: result.is = form::view, result.view = from_c(given.name, given.tensor); break;
        case ATTUNE_INTEGER: result.is = form::integer, result.integer = given.integer; break;
        case ATTUNE_REAL: result.is = form::real, result.real = given.real; break;
        case ATTUNE_BOOLEAN: result.is = form::boolean, result.integer = given.integer != 0; break;
        default: fail(say("a kind of the argument ", given.name, " from 0 to 3"), say(given.kind), "ATTUNE_TENSOR");
    }
    return result;
}

}  // namespace

c_arguments::c_arguments(const attune_argument* arguments, std::size_t count) {
    if (!arguments && count > 0) fail(say(count, " arguments"), "null", "an array of them");
    if (count > most_arguments)
        fail(say("at most ", most_arguments, " arguments"), say(count), "the number of elements of the array");
    list_.reserve(count);
    for (std::size_t i = 0; i < count; ++i) list_.push_back(from(arguments[i]));
}

c_options::c_options(const attune_options* given) {
    constexpr std::size_t of_version_1 = offsetof(attune_options, pool_state) + sizeof(void*);
    if (given) take(as_known_here(*given, of_version_1, "options", "attune_options"));
}

void c_options::take(const attune_options& given) {
    how_.threads = given.threads;
    how_.deterministic = given.deterministic != 0;
    how_.checked = given.checked != 0;
    if (given.target) how_.target = given.target;
    if (given.pool) pool_ = from_c(given.pool, given.pool_state), how_.pool = &pool_;
    if (given.device < 0)
        fail("a device that is 0, or 1 + its index, in attune_options", say(given.device), "clearing the struct first");
    check_reserved(given.reserved, "attune_options");
    how_.device = given.device - 1, how_.context = given.context, how_.stream = given.stream,
    how_.wait = given.asynchronous == 0;
}

}  // namespace attune::detail
