// Names of a model's classes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace hydrascope::image {

struct Label {
  std::string id;     ///< WordNet synset ("n01440764"), "" if the file has none
  std::string names;  ///< "tench, Tinca tinca"
  std::string
      short_name;  ///< "tench": the first of the comma-separated names, unless others have it, too
};

/// Throws Error(invalid_argument) for a class's name that is blank or is no single line.
void require_class_name(std::string_view name, const std::string& subject);

/// The label of every class index, in order. Names are looked up case-insensitively (ASCII), as the
/// full text or any of its comma-separated names. `_` stands for a space, as in names of folders.
class Labels {
 public:
  /// Line i of `file` is class i: `synset<space or tab>names`, a synset alone, or names. A byte
  /// order mark, CRLF and blank lines at the end are accepted. Throws Error(not_found),
  /// Error(unreadable), Error(empty), Error(too_large) beyond 16 MiB and Error(invalid_argument)
  /// with the line for a blank line between others, a zero byte and a synset that comes twice.
  static Labels load(const std::filesystem::path& file);
  /// The same from text; `subject` names it in errors.
  static Labels parse(std::string_view text, const std::string& subject);

  /// Classes with these labels, whose names may hold commas: classes of pictures' folders. Throws
  /// as `require_class_name` does.
  static Labels of(std::vector<Label> labels, const std::string& subject);
  /// Labels that are the class indices in words: "0", "1", ..., without ids.
  static Labels numbered(std::int64_t count);

  [[nodiscard]] std::size_t size() const noexcept { return labels_.size(); }
  /// Throws Error(invalid_argument) beyond `size()`.
  [[nodiscard]] const Label& at(std::int64_t index) const;
  [[nodiscard]] bool has_ids() const noexcept { return !index_of_id_.empty(); }

  /// The class of a synset id, case-insensitive.
  [[nodiscard]] std::optional<std::int64_t> find_id(std::string_view id) const;
  /// All classes that a name could mean, ascending: ImageNet has two cranes and two maillots, and
  /// picking one of them would be a guess.
  [[nodiscard]] std::vector<std::int64_t> find_name(std::string_view name) const;

 private:
  void add(Label label, const std::string& subject);
  /// Gives classes without ids whose short names are the same their whole names: "Portland, OR".
  void part_short_names();

  std::vector<Label> labels_;
  std::unordered_map<std::string, std::int64_t> index_of_id_;
  std::unordered_map<std::string, std::vector<std::int64_t>> indices_of_name_;
};

}  // namespace hydrascope::image
