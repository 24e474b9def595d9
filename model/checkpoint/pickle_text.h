// Text of the pickle protocols before 2, which is escaped.
#pragma once

#include "model/checkpoint/pickle_value.h"

#include <string_view>

namespace hydrascope::checkpoint::pickle {

/// Opcode STRING: a Python literal with its quotes, 'it\'s\n'. Throws Error(decode_failed).
std::string_view read_string_literal(std::string_view line, Heap& heap);

/// Opcode UNICODE: Latin-1 with \uXXXX and \UXXXXXXXX. Gives UTF-8. Throws Error(decode_failed).
std::string_view read_raw_unicode(std::string_view line, Heap& heap);

}  // namespace hydrascope::checkpoint::pickle
