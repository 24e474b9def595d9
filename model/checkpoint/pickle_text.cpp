#include "model/checkpoint/pickle_text.h"

#include "model/checkpoint/strict_json.h"

#include <charconv>
#include <cstdint>
#include <string>
#include <utility>

namespace hydrascope::checkpoint::pickle {
namespace {

/// Takes `digits` hexadecimal digits from the front of `text`.
std::uint32_t take_hex(std::string_view& text, std::size_t digits, const Heap& heap) {
  const std::string_view number = text.substr(0, digits);
  std::uint32_t value = 0;
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), value, 16);
  if (number.size() != digits || error != std::errc() || end != number.data() + digits) {
    heap.fail("an escape with the digits " + quote(number) + ", expected " +
              std::to_string(digits) + " hexadecimal ones");
  }
  text.remove_prefix(digits);
  return value;
}

void append_utf8(std::string& text, std::uint32_t code_point) {
  const auto append = [&](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) return append(code_point);
  if (code_point < 0x800) {
    append(0xC0 | code_point >> 6);
  } else {
    if (code_point < 0x10000) {
      append(0xE0 | code_point >> 12);
    } else {
      append(0xF0 | code_point >> 18);
      append(0x80 | (code_point >> 12 & 0x3F));
    }
    append(0x80 | (code_point >> 6 & 0x3F));
  }
  append(0x80 | (code_point & 0x3F));
}

/// What stands after a backslash of a literal.
char take_escape(std::string_view& text, const Heap& heap) {
  if (text.empty()) heap.fail("a text literal ends with a backslash");
  const char kind = text.front();
  text.remove_prefix(1);
  switch (kind) {
    case '\\':
    case '\'':
    case '"': return kind;
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'x': return static_cast<char>(take_hex(text, 2, heap));
    default: heap.fail("a text literal with the escape " + quote(std::string{'\\', kind}));
  }
}

}  // namespace

std::string_view read_string_literal(std::string_view line, Heap& heap) {
  const bool is_quoted = line.size() >= 2 && (line.front() == '\'' || line.front() == '"') &&
                         line.back() == line.front();
  if (!is_quoted) heap.fail("expected a text literal, found " + quote(line));
  std::string_view rest = line.substr(1, line.size() - 2);
  if (rest.find('\\') == std::string_view::npos) return rest;
  std::string text;
  while (!rest.empty()) {
    const char c = rest.front();
    rest.remove_prefix(1);
    text.push_back(c == '\\' ? take_escape(rest, heap) : c);
  }
  return heap.keep(std::move(text));
}

std::string_view read_raw_unicode(std::string_view line, Heap& heap) {
  std::string_view rest = line;
  std::string text;
  while (!rest.empty()) {
    const auto c = static_cast<unsigned char>(rest.front());
    rest.remove_prefix(1);
    const char kind = c == '\\' && !rest.empty() ? rest.front() : '\0';
    if (kind != 'u' && kind != 'U') {
      append_utf8(text, c);
      continue;
    }
    rest.remove_prefix(1);
    const std::uint32_t code_point = take_hex(rest, kind == 'u' ? 4 : 8, heap);
    if (code_point > 0x10FFFF) heap.fail("an escape beyond the last character of Unicode");
    append_utf8(text, code_point);
  }
  return heap.keep(std::move(text));
}

}  // namespace hydrascope::checkpoint::pickle
