#pragma once
#include "images.hpp"
#include "layers.hpp"
#include "scores.hpp"
#include "statistics.hpp"
#include "tiles.hpp"
#include "windows.hpp"
