// Highway 1.0's dispatch for kernels of both stored types. Highway takes functions, no templates;
// all kernels' functions share a namespace per instruction set, so that their names say whose they
// are. Include this after hwy/highway.h, which must follow foreach_target.h.
#pragma once

#include "kernels/vector/scalar_types.h"

/// Inside the namespace of an instruction set: name_float32 and name_bfloat16 call `function`.
#define HYDRASCOPE_STORED_KERNELS(name, function, Params)      \
  void name##_float32(const Params<float>& p) { function(p); } \
  void name##_bfloat16(const Params<BFloat16>& p) { function(p); }

/// Once: `function` for both types, on this machine's best instruction set.
#define HYDRASCOPE_DISPATCH(function, name, Params)                                  \
  HWY_EXPORT(name##_float32);                                                        \
  HWY_EXPORT(name##_bfloat16);                                                       \
  void function(const Params<float>& p) { HWY_DYNAMIC_DISPATCH(name##_float32)(p); } \
  void function(const Params<BFloat16>& p) { HWY_DYNAMIC_DISPATCH(name##_bfloat16)(p); }
