// JSON out of hostile files, value by value. What most readers let pass is an error here: bytes
// that are not UTF-8, keys that come twice (they would keep the last silently), nesting without
// end. No document tree is built, so memory stays within a small multiple of the text. Free of
// LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace hydrascope::checkpoint {

/// Open arrays and objects at any point of a document.
inline constexpr std::size_t kMaxJsonDepth = 16;
/// Keys of one object: the largest sharded models in public have some 100,000 tensors.
inline constexpr std::size_t kMaxJsonKeys = std::size_t{1} << 18;

/// A scalar, or the start of an array or object.
struct JsonValue {
  enum class Kind { null, boolean, integer, number, string, array, object };
  Kind kind = Kind::null;
  std::uint64_t integer = 0;  ///< of a non-negative integer without fraction and exponent
  std::string text;           ///< a string's content, or a `number` (whatever is no `integer`)
};

class JsonVisitor {
 public:
  virtual ~JsonVisitor() = default;
  /// `path` has one entry for every array or object around `value`: the key, or "" in an array.
  virtual void value(std::span<const std::string> path, const JsonValue& value) = 0;
  /// The array or object that `value` announced at `path` is complete.
  virtual void end(std::span<const std::string> path) = 0;
};

/// Hands every value of `text` to `visitor`, in the order of the document. Throws
/// Error(decode_failed) for bad UTF-8, bad JSON, a duplicate key and the limits above; messages
/// call the text `document` ("header") and have the subject `subject`.
void visit_json(std::string_view text, std::string_view document, const std::string& subject,
                JsonVisitor& visitor);

/// What a message says of `value`: "a string", "the number -1", "an array".
std::string describe(const JsonValue& value);

/// `text` as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

/// `json_string` fit for a message about a hostile file: long text is cut.
std::string quote(std::string_view text);

/// Offset of the first byte that well-formed UTF-8 cannot have there; `text.size()` without one.
std::size_t find_bad_utf8(std::string_view text);

}  // namespace hydrascope::checkpoint
