#pragma once
// The only file that includes Boost.Hana: fine-grained headers, because the umbrella costs every user compile time.
// Hana holds the children of a node (heterogeneous values) and does the set algebra of required and given inputs.
#include <boost/hana/bool.hpp>
#include <boost/hana/filter.hpp>
#include <boost/hana/integral_constant.hpp>
#include <boost/hana/tuple.hpp>
#include <boost/hana/unpack.hpp>

namespace attune::dsl::detail {
namespace hana = boost::hana;
}
