#pragma once
/// attune's language: attention variants as formulas. Reading order: graph_ir.hpp (what there is), terminals.hpp,
/// operators.hpp, functions.hpp, blocks.hpp, elsewhere.hpp, attention.hpp, aliases.hpp, embeddings.hpp, quantized.hpp,
/// stores.hpp, states.hpp, flex.hpp, gradient.hpp, shard.hpp (what one writes), enter.hpp, sharding.hpp, build.hpp,
/// describe.hpp, call_check.hpp (what is made of it). Whole layers, with projections and dropout, are in
/// <attune/dsl/layers.hpp>, which is included by those who write them. Included one by one, each after what it stands
/// on: compilers then say in one line where a header came from.
// clang-format off
#include <attune/ir/element_type.hpp>
#include <attune/ir/graph_ir.hpp>
#include <attune/ir/operations.hpp>
#include <attune/dsl/name.hpp>
#include <attune/dsl/detail/hana.hpp>
#include <attune/dsl/node.hpp>
#include <attune/dsl/arguments.hpp>
#include <attune/dsl/terminals.hpp>
#include <attune/dsl/operands.hpp>
#include <attune/dsl/operators.hpp>
#include <attune/dsl/functions.hpp>
#include <attune/dsl/blocks.hpp>
#include <attune/dsl/elsewhere.hpp>
#include <attune/dsl/precomputed.hpp>
#include <attune/dsl/attention.hpp>
#include <attune/dsl/aliases.hpp>
#include <attune/dsl/embeddings.hpp>
#include <attune/dsl/quantized.hpp>
#include <attune/dsl/stores.hpp>
#include <attune/dsl/states.hpp>
#include <attune/dsl/torch_numbers.hpp>
#include <attune/dsl/flex.hpp>
#include <attune/dsl/gradient.hpp>
#include <attune/dsl/shard.hpp>
#include <attune/dsl/enter.hpp>
#include <attune/dsl/sharding.hpp>
#include <attune/dsl/build.hpp>
#include <attune/dsl/describe.hpp>
#include <attune/dsl/call_check.hpp>
// clang-format on
