// From logits to the classes that records name.
#pragma once

#include "app/report.h"
#include "model/image/labels.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace hydrascope::app {

/// The `count` best classes of `logits` (num_classes); all where there are fewer.
std::vector<Prediction> top_classes(const at::Tensor& logits, std::int64_t count,
                                    const image::Labels& labels);
/// Those of `indices`, in their order, with their ranks among all.
std::vector<Prediction> chosen_classes(const at::Tensor& logits,
                                       std::span<const std::int64_t> indices,
                                       const image::Labels& labels);

}  // namespace hydrascope::app
