// Which class a word means: one rule for folders, tables, options, parameters and Python.
#pragma once

#include "model/image/labels.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::app {

/// Stands before an index where a bare number could be a class's name: "index:7".
inline constexpr std::string_view kIndexMark = "index:";

/// Digits alone.
bool is_whole_number(std::string_view word);

/// `text` without blanks around it.
std::string_view without_blanks(std::string_view text);

/// The classes of a model by the words that users have for them. A word, without the blanks around
/// it, is the first of these that exists:
/// 1. a synset id (n02444819), in any case;
/// 2. a class's whole name, then one of its names, as `image::Labels` looks them up;
/// 3. a 0-based index, leading zeros allowed. A bare number is no index where classes have numbers
///    for names that are not their indices; "index:7" always is one.
class ClassWords {
 public:
  /// `labels` must outlive this.
  explicit ClassWords(const image::Labels& labels);

  struct Meaning {
    std::vector<std::int64_t> classes = {};  ///< all that the word could mean, ascending
    bool is_name = false;                    ///< or an id
    bool is_index = false;                   ///< may be both: "7" of classes without other names
  };
  [[nodiscard]] Meaning meaning_of(std::string_view word) const;
  /// The word is digits below the number of classes, whatever classes are called.
  [[nodiscard]] std::optional<std::int64_t> index_of(std::string_view word) const;
  /// The one class. Throws Error(invalid_argument) with `subject`: with the candidates for a name
  /// that several classes have, with the nearest names for a word that is none.
  [[nodiscard]] std::int64_t find(std::string_view word, const std::string& subject) const;
  /// "1 (n02012849: crane), 3 (n03126707: crane)".
  [[nodiscard]] std::string describe(const std::vector<std::int64_t>& classes) const;
  [[nodiscard]] const image::Labels& labels() const noexcept { return labels_; }
  /// "a class from 0 to 999".
  [[nodiscard]] std::string range() const;

 private:
  const image::Labels& labels_;
  bool names_are_numbers_ = false;  ///< of some class, and not its index
};

}  // namespace hydrascope::app
