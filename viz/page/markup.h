// Text that becomes part of a page: made harmless, encoded, put into its place.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace hydrascope::viz::page {

/// UTF-8 whatever `bytes` were: what is none (utf8.h), and every control character that HTML does
/// not allow, becomes U+FFFD.
std::string valid_text(std::string_view bytes);

/// `valid_text`, safe as the content of an element and of a quoted attribute; characters that turn the direction of
/// text are spelled `\u202e`.
std::string escaped(std::string_view bytes);

/// RFC 4648 with padding.
std::string base64(std::span<const std::byte> bytes);

/// `page` with every {{name}} replaced, in one pass: what was put in is not looked at again.
/// Throws Error(internal) for a place without a value.
std::string fill(std::string_view page,
                 std::initializer_list<std::pair<std::string_view, std::string_view>> values);

}  // namespace hydrascope::viz::page
