// A question about a picture, and its answer.
#pragma once

#include "app/maps/input_map.h"
#include "app/pictures/inputs.h"
#include "app/results/classify_record.h"
#include "viz/heat/heat_map.h"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::app {

/// Asks what a patch of the picture attends to: its place in the grid, from 0.
struct PatchQuestion {
  std::int64_t layer = 0;
  std::int64_t row = 0;
  std::int64_t column = 0;
};

/// Which maps of a picture: a part of what the service was opened for.
struct MapQuestion {
  MapWords words = {};                    ///< no words: all of that
  std::vector<std::string> classes = {};  ///< as `visualize --class`
  std::optional<std::int64_t> topk = {};  ///< as `visualize --topk`
};

/// Maps, embedding and patch are among those that the model was opened for.
struct Question {
  std::string name = {};            ///< what the records call the picture
  std::filesystem::path file = {};  ///< where the picture is, unless it is
  std::optional<PictureInMemory> picture = {};
  std::int64_t topk = 5;
  std::optional<MapQuestion> maps = {};
  std::optional<PatchQuestion> patch = {};
  bool embeds = false;
  /// By then, or when `given_up` says that nobody waits any more, what is left of the work is not
  /// begun: decoding, the batch, a layer of maps, a class of it. The answer is a failure.
  std::optional<std::chrono::steady_clock::time_point> deadline = {};
  /// Called on the service's threads, which it must not keep; may be empty.
  std::function<bool()> given_up = {};
};

struct Answer {
  /// The record that `classify` writes, also of a picture that failed, with the notes on it.
  ClassifyRecord record;
  /// (num_classes); of several views the logarithms of their mixture.
  std::vector<float> logits;
  std::vector<InputMap> maps;
  std::optional<viz::HeatMap> patch_row;  ///< of the attention map, the heads' mean
  std::vector<float> embedding;           ///< (embed_dim): what the classifier's head is given
};

}  // namespace hydrascope::app
