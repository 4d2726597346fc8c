#pragma once
#include <attune/c.h>

extern "C" const attune_variant* test_capped_variant() noexcept;
extern "C" const attune_variant* test_old_variant() noexcept;
