#include "model/checkpoint/numpy_scalar.h"

#include <bit>
#include <cstdint>
#include <limits>

namespace hydrascope::checkpoint::pickle {

Value numpy_scalar(const NumpyType& type, std::string_view bytes) {
  constexpr std::size_t kWidest = 8;
  const bool is_known = type.code.size() == 2 && bytes.size() <= kWidest &&
                        type.code[1] == static_cast<char>('0' + bytes.size());
  if (!is_known || bytes.empty() || type.byte_order == '>') return Opaque{};
  std::uint64_t bits = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    bits = bits << 8 | static_cast<unsigned char>(bytes[i]);

  switch (type.code[0]) {
    case 'b': return bits != 0;
    case 'u':
      if (bits > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) return Opaque{};
      return static_cast<std::int64_t>(bits);
    case 'i': {
      const std::size_t unused = 64 - 8 * bytes.size();
      return static_cast<std::int64_t>(bits << unused) >> unused;  // extends the sign
    }
    case 'f':
      if (bytes.size() == sizeof(double)) return std::bit_cast<double>(bits);
      if (bytes.size() == sizeof(float)) {
        return double{std::bit_cast<float>(static_cast<std::uint32_t>(bits))};
      }
      return Opaque{};
    default: return Opaque{};
  }
}

}  // namespace hydrascope::checkpoint::pickle
