#pragma once
#include <attune/ir/element.hpp>  // where elements stood before
