// Stands in for a header of Gloo that LibTorch's wheel lacks; see gloo_group.cpp.
#pragma once

#include <chrono>

namespace gloo {

class Context {
 public:
  virtual ~Context() = 0;
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
