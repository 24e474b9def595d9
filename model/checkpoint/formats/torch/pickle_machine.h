// Interprets the pickle format, protocols 2 to 5 (Python's Lib/pickletools.py describes the
// opcodes), for the files of torch.save. It builds values from an allow-list and calls nothing of
// Python: another name's result is an `Object`, which nobody looks into. Names that reach code or
// the system are refused.
#pragma once

#include "model/checkpoint/formats/torch/pickle_value.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace hydrascope::checkpoint::pickle {

/// Opcodes of one pickle, at most; a tensor takes about forty.
inline constexpr std::uint64_t kMaxOpcodes = std::uint64_t{1} << 23;
/// Values on the stack, and marks on it, at most.
inline constexpr std::size_t kMaxStack = std::size_t{1} << 20;

struct Result {
  Value value;
  std::size_t length = 0;  ///< bytes of the pickle, with its STOP
};

/// Runs the pickle at the front of `bytes`, which must outlive `heap`. Throws Error(decode_failed)
/// for a pickle that is damaged or exceeds the limits, Error(unsupported_format) that names the
/// function or class for a pickle that asks for a dangerous one ("refused to call os.system").
Result run(std::span<const std::byte> bytes, Heap& heap);

}  // namespace hydrascope::checkpoint::pickle
