// How faithful a map is to its model: patches of the picture are replaced in the order of their
// heat, and the model's answers after every step make an area under a curve.
//
//   deletion   hottest patches first become the mean colour; probability of the class. Low is
//              good: the patches that the map calls important were important. (RISE, Petsiuk et
//              al. 2018, arXiv 1806.07421)
//   insertion  hottest patches first return to a blurred picture; probability of the class. High is
//              good. (RISE)
//
// The area of the n values of a curve is (sum - first / 2 - last / 2) / (n - 1), so 0..1. Signed
// maps are ranked by their signed values. No model was trained on pictures with replaced patches: a
// number means something only beside other maps' numbers, baseline_maps.h's among them.
// Test: tests/model/explain/faithfulness_test.cpp.
#pragma once

#include "model/inference/engine.h"
#include "model/registry/measures.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace hydrascope::model::explain {

struct FaithfulnessOptions {
  std::vector<Measure> measures;
  /// Curves have steps + 1 points; never more steps than patches.
  std::int64_t steps = 14;
  std::int64_t patch_size = 16;
  std::int64_t batch_size = 0;           ///< 0: as many as keep the model busy
  std::function<bool()> stop_requested;  ///< asked between batches; may be empty
};
/// A picture whose maps are measured.
struct WatchedPicture {
  at::Tensor image;              ///< the model's input: float32 (3, H, W) on the CPU, normalised
  std::int64_t class_index = 0;  ///< the class that is watched
};

struct FaithfulnessScore {
  double area = 0;
  double seconds = 0;  ///< the model's time without the end points, which all maps share
};

/// Scores of maps x measures, a map's measures beside each other. maps: float (R, C), R * C patches
/// of the picture, on the CPU. Runs `model`, which must have no batch under way, on all variants of
/// the picture in batches that maps and measures share. Nothing when a stop was requested before
/// the end. Throws Error(invalid_argument) for maps of another grid, Error(out_of_memory).
std::optional<std::vector<FaithfulnessScore>> score_maps(inference::Engine& model,
                                                         const WatchedPicture& picture,
                                                         std::span<const at::Tensor> maps,
                                                         const FaithfulnessOptions& options);

/// Patches by heat, hottest first; ties, and NaN after all else, by index.
std::vector<std::int64_t> order_of(std::span<const float> heat);

/// The number of replaced patches, out of `patches`, at the points of a curve.
std::vector<std::int64_t> replaced_counts(std::int64_t patches, std::int64_t steps);

/// The area under at least two values.
double area_under(std::span<const double> curve);

}  // namespace hydrascope::model::explain
