// The dict of a pickle that holds the weights, and the rest of the pickle.
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
/// if there is none or more than one, for a whole module, and for a tensor of the dict that depends
/// on unknown code.
StateDict find_state_dict(const pickle::Value& root, const pickle::Heap& heap);

/// "state_dict_ema" or "model_ema"; a null dict without one. Throws as `find_state_dict` does for a
/// tensor that depends on unknown code.
StateDict find_averaged_dict(const pickle::Value& root, const pickle::Heap& heap);

bool has_averaged_dict(const pickle::Dict& root);

/// A note on the values that only unknown code could make: their number and the code's name; ""
/// without such values.
std::string note_of_unknown(const pickle::Heap& heap);

}  // namespace hydrascope::checkpoint
