// Pickles in rows of data. Apart from pickle_bytes.h, which fuzzers use without GoogleTest.
#pragma once

#include "tests/cases.h"
#include "tests/model/checkpoint/formats/torch/pickle_bytes.h"

namespace hydrascope::testing {

/// A piece of a pickle in rows of data: a text of raw bytes, or the name of a function above with its arguments.
inline std::string piece(const Json& row) {
  if (row.is_string()) return bytes_in(row.get<std::string>());
  const std::string kind = row.at(0);
  const auto words = [&](std::size_t i) { return row.at(i).get<std::string>(); };
  const auto integers = [&](std::size_t i) { return row.at(i).get<std::vector<std::int64_t>>(); };
  const auto pieces = [&](std::size_t from) {
    std::vector<std::string> result;
    for (std::size_t i = from; i < row.size(); ++i) result.push_back(piece(row[i]));
    return result;
  };
  if (kind == "text") return text(words(1));
  if (kind == "number") return number(row.at(1));
  if (kind == "numbers") return numbers(Json(row.begin() + 1, row.end()));
  if (kind == "global") return global(words(1), words(2));
  if (kind == "tuple") return tuple(pieces(1));
  if (kind == "call") return call(piece(row.at(1)), pieces(2));
  if (kind == "storage") return storage(words(1), words(2), row.at(3));
  if (kind == "view") return storage_view(words(1), words(2), row.at(3), row.at(4), row.at(5));
  if (kind == "tensor") return tensor(piece(row.at(1)), row.at(2), integers(3), integers(4));
  std::string joined;
  if (kind == "join")
    for (const std::string& part : pieces(1)) joined += part;
  if (kind != "dict") return joined;
  std::vector<std::pair<std::string, std::string>> items;
  for (const auto& [key, value] : row.at(1).items()) items.emplace_back(key, piece(value));
  return dict(items);
}

}  // namespace hydrascope::testing
