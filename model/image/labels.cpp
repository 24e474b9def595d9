#include "model/image/labels.h"

#include "kernels/error.h"
#include "kernels/input_file.h"

#include <algorithm>
#include <cctype>
#include <system_error>
#include <utility>

namespace hydrascope::image {
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMaxLabelBytes = 16 << 20;  // the 21,841 synsets of ImageNet take 2 MB
constexpr std::string_view kBlank = " \t\r";

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string lookup_key(std::string_view name) {
  std::string key(trim(name));
  std::transform(key.begin(), key.end(), key.begin(), [](unsigned char letter) {
    return letter == '_' ? ' ' : static_cast<char>(std::tolower(letter));
  });
  return key;
}

/// A part of speech and the eight digits of WordNet's offset.
bool is_synset(std::string_view word) {
  return word.size() == 9 && std::string_view("nvasr").find(word[0]) != std::string_view::npos &&
         std::all_of(word.begin() + 1, word.end(),
                     [](unsigned char digit) { return std::isdigit(digit) != 0; });
}

Label parse_line(std::string_view line) {
  const std::string_view word = line.substr(0, line.find_first_of(kBlank));
  const std::string_view id = is_synset(word) ? word : std::string_view{};
  std::string_view names = trim(line.substr(id.size()));
  if (names.empty()) names = id;
  std::string_view short_name = trim(names.substr(0, names.find(',')));
  if (short_name.empty()) short_name = names;
  return {std::string(id), std::string(names), std::string(short_name)};
}

}  // namespace

void require_class_name(std::string_view name, const std::string& subject) {
  const bool is_blank = name.find_first_not_of(" \t") == std::string_view::npos;
  if (!is_blank && name.find_first_of(std::string_view("\n\r\0", 3)) == std::string_view::npos)
    return;
  throw Error(ErrorCode::invalid_argument,
              is_blank ? "a class has no name" : "a class's name is more than one line", subject);
}

Labels Labels::load(const fs::path& file) {
  InputFile in(file);
  in.require_open(file);
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) {  // it may be read more than once
    throw Error(ErrorCode::unreadable, "expected a label file, found a pipe or a device",
                file.native());
  }
  const std::string text = in.text(kMaxLabelBytes);
  if (text.size() > kMaxLabelBytes) {
    throw Error(ErrorCode::too_large, "a label file of more than 16 MiB", file.native());
  }
  return parse(text, file.native());
}

Labels Labels::parse(std::string_view text, const std::string& subject) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  if (text.find('\0') != std::string_view::npos) {
    throw Error(ErrorCode::invalid_argument, "the label file holds zero bytes: it is no plain text",
                subject);
  }
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  if (last == std::string_view::npos) {
    throw Error(ErrorCode::empty, "the label file holds no names", subject);
  }
  text = text.substr(0, last + 1);

  Labels labels;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = trim(text.substr(begin, end - begin));
    if (line.empty()) {
      throw Error(ErrorCode::invalid_argument,
                  "line " + std::to_string(labels.size() + 1) + " of the label file is blank",
                  subject, "line i names class i, counted from 0");
    }
    labels.add(parse_line(line), subject);
    begin = end + 1;
  }
  labels.part_short_names();
  return labels;
}

Labels Labels::of(std::vector<Label> labels, const std::string& subject) {
  Labels all;
  for (Label& label : labels) {
    require_class_name(label.names, subject);
    all.add(std::move(label), subject);
  }
  all.part_short_names();
  return all;
}

Labels Labels::numbered(std::int64_t count) {
  Labels labels;
  for (std::int64_t index = 0; index < count; ++index) {
    const std::string number = std::to_string(index);
    labels.add({"", number, number}, "class indices");
  }
  return labels;
}

void Labels::add(Label label, const std::string& subject) {
  const auto index = static_cast<std::int64_t>(size());
  if (!label.id.empty()) {
    const auto [known, is_new] = index_of_id_.emplace(lookup_key(label.id), index);
    if (!is_new) {
      throw Error(ErrorCode::invalid_argument,
                  "lines " + std::to_string(known->second + 1) + " and " +
                      std::to_string(index + 1) + " of the label file have the same synset " +
                      label.id,
                  subject);
    }
  }
  const auto add_name = [&](std::string_view name) {
    std::string key = lookup_key(name);
    if (key.empty()) return;
    std::vector<std::int64_t>& indices = indices_of_name_[std::move(key)];
    if (indices.empty() || indices.back() != index) indices.push_back(index);
  };
  add_name(label.names);
  for (std::string_view rest = label.names; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    add_name(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  labels_.push_back(std::move(label));
}

void Labels::part_short_names() {
  std::unordered_map<std::string, std::size_t> counts;
  for (const Label& label : labels_) ++counts[label.short_name];
  for (Label& label : labels_)
    if (label.id.empty() && counts.at(label.short_name) > 1) label.short_name = label.names;
}

const Label& Labels::at(std::int64_t index) const {
  if (index < 0 || static_cast<std::size_t>(index) >= size()) {
    throw Error(
        ErrorCode::invalid_argument,
        "class " + std::to_string(index) + " has no label: there are " + std::to_string(size()));
  }
  return labels_[static_cast<std::size_t>(index)];
}

std::optional<std::int64_t> Labels::find_id(std::string_view id) const {
  const auto found = index_of_id_.find(lookup_key(id));
  if (found == index_of_id_.end()) return std::nullopt;
  return found->second;
}

std::vector<std::int64_t> Labels::find_name(std::string_view name) const {
  const auto found = indices_of_name_.find(lookup_key(name));
  return found == indices_of_name_.end() ? std::vector<std::int64_t>{} : found->second;
}

}  // namespace hydrascope::image
