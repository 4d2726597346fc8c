#pragma once
// The only file that includes Boost.Hana: fine-grained headers, because the umbrella costs every user compile time.
// Hana holds what differs in type and is named: the outputs of a graph.
#include <boost/hana/basic_tuple.hpp>
#include <boost/hana/unpack.hpp>

namespace attune::dsl::detail {
namespace hana = boost::hana;
}
