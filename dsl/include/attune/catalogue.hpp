#pragma once
/// Published masks and score modifications, each a few lines of the language. The comment above each gives its formula
/// and its source. Each family has a file; docs/catalogue.md lists all with pictures.
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
#include <attune/catalogue/quantized.hpp>
#include <attune/catalogue/relative.hpp>
#include <attune/catalogue/rotary.hpp>
#include <attune/catalogue/selected.hpp>
#include <attune/catalogue/selectors.hpp>
#include <attune/catalogue/sinks.hpp>
#include <attune/catalogue/sliding_tiles.hpp>
#include <attune/catalogue/softcap.hpp>
#include <attune/catalogue/sparse_tiles.hpp>
#include <attune/catalogue/sparse_video.hpp>
#include <attune/catalogue/vision.hpp>
#include <attune/catalogue/windows.hpp>
