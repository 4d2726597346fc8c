#pragma once
/// attune's language: attention variants as formulas. Reading order: listing.hpp (what there is), terminals.hpp, operators.hpp,
/// attention.hpp, aliases.hpp, embeddings.hpp, layers.hpp, states.hpp, flex.hpp (what one writes), build.hpp, describe.hpp, call_check.hpp (what is made of it).
#include <attune/dsl/aliases.hpp>
#include <attune/dsl/build.hpp>
#include <attune/dsl/call_check.hpp>
#include <attune/dsl/describe.hpp>
#include <attune/dsl/embeddings.hpp>
#include <attune/dsl/flex.hpp>
#include <attune/dsl/layers.hpp>
#include <attune/dsl/states.hpp>
