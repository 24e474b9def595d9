// JSON out of hostile files. It refuses inputs that most readers let pass: bytes that are not
// UTF-8, duplicate keys (readers silently keep the last), nesting and values without end. Free of
// LibTorch.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace hydrascope::checkpoint {

/// Open arrays and objects at any point of a document.
inline constexpr std::size_t kMaxJsonDepth = 16;
/// Keys of one object: the largest sharded models in public have some 100,000 tensors.
inline constexpr std::size_t kMaxJsonKeys = std::size_t{1} << 18;
/// Scalars, arrays and objects of one document, a bound on its tree's memory: a header with the
/// most keys, each of them a tensor of the highest rank, stays below.
inline constexpr std::size_t kMaxJsonValues = std::size_t{1} << 23;

/// The document tree of `text`. Throws Error(decode_failed) for bad UTF-8, bad JSON, a duplicate
/// key and the limits above; messages call the text `document` ("header") and have the subject
/// `subject`.
nlohmann::json parse_json(std::string_view text, std::string_view document,
                          const std::string& subject);

/// `value` in the words of a message: "the string "a"", "the number -1", "an array".
std::string describe(const nlohmann::json& value);

/// `text` as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

/// `json_string` for a message about a hostile file: long text is cut.
std::string quote(std::string_view text);

/// Offset of the first byte that well-formed UTF-8 cannot have there; `text.size()` without one.
std::size_t find_bad_utf8(std::string_view text);

}  // namespace hydrascope::checkpoint
