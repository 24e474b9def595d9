// The tables behind key_map.h: the layouts, a rule for each name that differs from the modules', and
// the parts of a file that no vision tower uses.
#pragma once

#include "model/checkpoint/hub/key_map.h"

#include <span>
#include <string_view>

namespace hydrascope::checkpoint {

/// The files in which a rule holds.
enum class With { any, classifier };

/// `#` stands for a layer's number, a `*` at the end for any rest.
struct Rule {
  unsigned layouts;  ///< bit i: it holds in layouts[i]
  std::string_view pattern;
  std::string_view target;  ///< "" = not used for inference
  int part = kWhole;
  int parts = kJoined;
  Form form = Form::same;
  With with = With::any;
};

/// The bit of OpenAI's and open_clip's layout, inside of which nothing is another tower's.
inline constexpr unsigned kClip = 1U << 9U;

/// The first that matches a name counts.
extern const std::span<const Rule> rules;

/// Parts that a file may hold beside or inside of the model and that no vision tower uses.
struct LeftOut {
  unsigned layouts;  ///< as a rule's
  std::string_view pattern;
  std::string_view what;
};

extern const std::span<const LeftOut> parts_left_out;

}  // namespace hydrascope::checkpoint
