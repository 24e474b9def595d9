// Which dict of a pickle holds the weights, and what of the pickle is left out.
#pragma once

#include "model/checkpoint/formats/torch/pickle_value.h"

#include <string>

namespace hydrascope::checkpoint {

/// A dict of tensors, and the name under which it was found: "" for the root itself.
struct StateDict {
  std::string entry;
  const pickle::Dict* dict = nullptr;
};

/// The first of "state_dict", "model", "module", "model_state_dict" and "model_state" that holds
/// tensors, else the root itself, else the only entry that does. Throws Error(unsupported_format)
/// where there is none or more than one, where it is a whole module, and where a tensor of it
/// depends on code that is not known.
StateDict find_state_dict(const pickle::Value& root, const pickle::Heap& heap);

/// "state_dict_ema" or "model_ema"; a null dict without one. Throws as `find_state_dict` does where
/// a tensor of it depends on code that is not known.
StateDict find_averaged_dict(const pickle::Value& root, const pickle::Heap& heap);

bool has_averaged_dict(const pickle::Dict& root);

/// A note on values that only unknown code could make: how many, and whose; ""
/// where there are none.
std::string note_of_unknown(const pickle::Heap& heap);

}  // namespace hydrascope::checkpoint
