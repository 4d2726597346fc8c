#pragma once
/// The masks and score modifications of the field, each a few lines over the language: its formula and where it comes
/// from stand above it. A family a file; docs/catalogue.md lists them with pictures.
#include <attune/catalogue/activations.hpp>
#include <attune/catalogue/alibi.hpp>
#include <attune/catalogue/biases.hpp>
#include <attune/catalogue/block_diffusion.hpp>
#include <attune/catalogue/causal.hpp>
#include <attune/catalogue/documents.hpp>
#include <attune/catalogue/graphormer.hpp>
#include <attune/catalogue/jetspec.hpp>
#include <attune/catalogue/natten.hpp>
#include <attune/catalogue/prefixes.hpp>
#include <attune/catalogue/relative.hpp>
#include <attune/catalogue/rotary.hpp>
#include <attune/catalogue/selected.hpp>
#include <attune/catalogue/sinks.hpp>
#include <attune/catalogue/sliding_tiles.hpp>
#include <attune/catalogue/softcap.hpp>
#include <attune/catalogue/sparse_tiles.hpp>
#include <attune/catalogue/sparse_video.hpp>
#include <attune/catalogue/vision.hpp>
#include <attune/catalogue/windows.hpp>
