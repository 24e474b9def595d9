// Stands in for a header of Gloo that LibTorch's wheel lacks; see gloo_group.cpp.
#pragma once

namespace gloo::transport {

class Device {
 public:
  virtual ~Device() = 0;
};

class UnboundBuffer {
 public:
  virtual ~UnboundBuffer() = 0;
};

}  // namespace gloo::transport
