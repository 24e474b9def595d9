// The answer of a session about a picture, and what is asked.
#pragma once

#include "app/maps/input_map.h"
#include "app/results/classify_record.h"
#include "viz/heat/heat_map.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace hydrascope::app {

/// Asks what a patch of the picture attends to: its place in the grid, from 0.
struct PatchQuestion {
  std::int64_t layer = 0;
  std::int64_t row = 0;
  std::int64_t column = 0;
};

/// Asked of a picture that the model has seen; maps, embedding and patch are among those that
/// the session was loaded for.
struct Asking {
  std::int64_t topk = 5;
  std::vector<MapChoice> maps = {};
  std::vector<std::int64_t> classes = {};  ///< that maps are made for, indices
  bool embeds = false;
  std::optional<PatchQuestion> patch = {};
  /// Called between the steps of the work, which it ends by an exception, with the layers of maps that are
  /// done and all of them; may be empty.
  std::function<void(std::int64_t done, std::int64_t all)> before_step = {};
};

struct Answer {
  /// The record that `classify` writes, also of a picture that failed, with the notes on it.
  ClassifyRecord record;
  /// (num_classes); of several views each class's in its best one, of closer looks the logarithms of
  /// their probabilities.
  std::vector<float> logits;
  std::vector<InputMap> maps;
  std::optional<viz::HeatMap> patch_row;  ///< of the attention map, the heads' mean
  std::vector<float> embedding;           ///< (embed_dim): what the classifier's head is given
};

}  // namespace hydrascope::app
