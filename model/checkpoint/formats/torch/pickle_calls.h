// What the names on the allow-list do when a pickle calls them.
#pragma once

#include "model/checkpoint/formats/torch/pickle_value.h"

namespace hydrascope::checkpoint::pickle {

/// The result of `callable(*arguments)`. Throws what `refuse_call` throws for a name that is not on
/// the allow-list, Error(decode_failed) that names callable and argument for arguments that it does
/// not take.
Value call(const Value& callable, const Tuple& arguments, Heap& heap);

/// `type.__new__(type, *arguments)`: as `call`, but a name that is not on the allow-list is refused
/// as the class of an object.
Value create(const Value& type, const Tuple& arguments, Heap& heap);

/// `object.__setstate__(state)`.
void set_state(const Value& object, const Value& state, const Heap& heap);

/// What stands for the persistent id of torch.save: ("storage", type, key, location, length) or,
/// in the legacy format, ("storage", type, key, location, length, view) where view is None or
/// (key, offset, length). Legacy files announce the class of a pickled module with
/// ("module", type, file, source), which is refused.
Value load_persistent(const Value& id, Heap& heap);

}  // namespace hydrascope::checkpoint::pickle
