// The results of the names on the allow-list when a pickle calls them.
#pragma once

#include "model/checkpoint/formats/torch/pickle_value.h"

namespace hydrascope::checkpoint::pickle {

/// The result of `callable(*arguments, **keywords)`, or of `callable.__new__`: an `Object` for a
/// callable that is not on the allow-list and for a call with one among its arguments. Throws as
/// `refuse_call` does for a dangerous name, Error(decode_failed) that names callable and argument
/// for arguments that a name on the list does not take.
Value call(const Value& callable, Tuple* arguments, Heap& heap, Dict* keywords = nullptr);

/// `object.__setstate__(state)`.
void set_state(const Value& object, const Value& state, const Heap& heap);

/// The value of a persistent id of torch.save: ("storage", type, key, location, length) or, in the
/// legacy format, ("storage", type, key, location, length, view) where view is None or (key,
/// offset, length). Legacy files announce the class of a pickled module with ("module", type, file,
/// source), which stands for the class.
Value load_persistent(const Value& id, Heap& heap);

}  // namespace hydrascope::checkpoint::pickle
