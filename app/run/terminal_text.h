// Text for people: what a terminal shows of hostile bytes, how wide it is, colours.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace hydrascope::app {

/// `text` on one line and unable to command the terminal: control characters (C0, DEL, C1) become
/// `\n`, `\t`, `\r` or `\x1b`, characters that turn the direction of text `\u202e`, and bytes that
/// are no UTF-8 `\xff`.
std::string printable(std::string_view text);
/// The same of each line.
std::string printable_lines(std::string_view text);
/// `value` on one line; where `printable` would change that, all beyond ASCII is escaped. Bytes that
/// are no UTF-8 become U+FFFD.
std::string printable_json(const nlohmann::ordered_json& value);

/// Code points of UTF-8; wide and combining characters are counted as one column.
std::size_t columns(std::string_view text);

/// `value` with exactly `decimals` places, never an exponent; "nan", "inf", "-inf".
std::string fixed(double value, int decimals);
/// "13.4 ms", "1.27 s".
std::string duration(double seconds);

/// The width of standard output: as its terminal says, else the environment's COLUMNS, else 100; at most 120,
/// which longer lines of text are hard to read beyond.
int output_columns();

enum class Style { plain, bold, dim, green, red };
/// `text` in ANSI escapes when `color`, else as it is.
std::string styled(std::string_view text, Style style, bool color);

}  // namespace hydrascope::app
