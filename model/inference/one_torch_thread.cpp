#include "model/inference/one_torch_thread.h"

#include <ATen/Parallel.h>

#include <dlfcn.h>

namespace hydrascope::model::inference {
void set_openmp_threads(int threads) {
  at::get_num_threads();  // lets LibTorch choose the number for this thread first
  using Set = void (*)(int);
  static const auto set = reinterpret_cast<Set>(::dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set != nullptr)
    set(threads);
  else
    at::set_num_threads(threads);
}

OneTorchThread::OneTorchThread(bool wanted) {
  if (!wanted) return;
  threads_ = at::get_num_threads();
  if (threads_ > 1) set_openmp_threads(1);
}

OneTorchThread::~OneTorchThread() {
  if (threads_ > 1) set_openmp_threads(threads_);
}

}  // namespace hydrascope::model::inference
