#include "model/inference/one_torch_thread.h"

#include <ATen/Parallel.h>

#include <dlfcn.h>

namespace hydrascope::model::inference {
namespace {

/// at::set_num_threads would do, but for a second pool of threads (for mobile operators) that it
/// begins anew each time, and whose threads spin for tens of milliseconds before they sleep.
void set_openmp_threads(int threads) {
  using Set = void (*)(int);
  static const auto set = reinterpret_cast<Set>(::dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set != nullptr)
    set(threads);
  else
    at::set_num_threads(threads);
}

}  // namespace

OneTorchThread::OneTorchThread(bool wanted) {
  if (!wanted) return;
  threads_ = at::get_num_threads();  // also lets LibTorch choose the number for this thread first
  if (threads_ > 1) set_openmp_threads(1);
}

OneTorchThread::~OneTorchThread() {
  if (threads_ > 1) set_openmp_threads(threads_);
}

}  // namespace hydrascope::model::inference
