// LibTorch's exceptions as this project's Error.
#pragma once

#include "kernels/error.h"

#include <c10/util/Exception.h>

#include <new>
#include <string>

namespace hydrascope::model {

/// Runs `work`, which takes memory for `what` ("a batch of 8 images") at `where` ("cuda:0"). A lack
/// of memory, however LibTorch reports it, becomes Error(out_of_memory) with `hint`, a way to need
/// less; LibTorch's other errors become Error(internal).
template <class Work>
auto with_torch_errors(const std::string& what, const std::string& where, const std::string& hint,
                       Work work) {
  const auto out_of_memory = [&] {
    return Error(ErrorCode::out_of_memory, "not enough memory for " + what, where, hint);
  };
  try {
    return work();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::out_of_memory) throw out_of_memory();
    throw;
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    // The CPU's memory, pinned memory and NVIDIA's libraries have no exception type of their own.
    if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
        message.find("DefaultCPUAllocator") != std::string::npos ||
        message.find("CUDA error: out of memory") != std::string::npos ||
        message.find("STATUS_ALLOC_FAILED") != std::string::npos)
      throw out_of_memory();
    throw Error(ErrorCode::internal, message, where);
  } catch (const std::bad_alloc&) {
    throw out_of_memory();
  }
}

}  // namespace hydrascope::model
