#include "model/training/parallel/process_group.h"

#include <ATen/ATen.h>

namespace hydrascope::model::training {

std::int64_t number_of_first(ProcessGroup& group, c10::Device device, std::int64_t mine) {
  if (group.world_size() == 1) return mine;
  const at::Tensor number = at::full({1}, mine, at::device(device).dtype(at::kLong));
  group.broadcast({number});
  return number.item<std::int64_t>();
}

std::int64_t sum_of_all(ProcessGroup& group, c10::Device device, std::int64_t mine) {
  if (group.world_size() == 1) return mine;
  const at::Tensor number = at::full({1}, mine, at::device(device).dtype(at::kLong));
  group.sum({number});
  return number.item<std::int64_t>();
}

}  // namespace hydrascope::model::training
