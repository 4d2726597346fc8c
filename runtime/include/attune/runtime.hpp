#pragma once
/// Calling compiled variants. Reading order: tensor.hpp and options.hpp (what a call takes), run.hpp (calls),
/// explain.hpp (what a call would do), threads.hpp, team.hpp, cpu.hpp, error.hpp. Neither Halide nor any JSON or
/// formatting library is included from here.
#include <attune/runtime/cpu.hpp>
#include <attune/runtime/error.hpp>
#include <attune/runtime/explain.hpp>
#include <attune/runtime/mdspan.hpp>
#include <attune/runtime/options.hpp>
#include <attune/runtime/run.hpp>
#include <attune/runtime/team.hpp>
#include <attune/runtime/tensor.hpp>
#include <attune/runtime/threads.hpp>
