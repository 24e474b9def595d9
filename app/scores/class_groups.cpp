#include "app/scores/class_groups.h"

#include "app/run/assets.h"
#include "kernels/input_file.h"

#include <map>
#include <sstream>

namespace hydrascope::app {

ClassGroups::ClassGroups(const image::Labels& labels)
    : chains_(labels.size()), is_scene_(labels.size()) {
  const auto file = bundled_labels("imagenet1k_groups");
  if (!file || !labels.has_ids()) return;
  struct Row {
    Group group;
    std::string parent;  // the id of the group around it
    std::optional<std::size_t> place = {};
  };
  std::map<std::string, Row> rows;
  std::vector<std::string> nearest(labels.size());
  InputFile lines(*file);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    Row row;
    for (std::string* cell : {&row.group.id, &row.group.name, &row.parent})
      std::getline(cells, *cell, '\t');
    if (row.parent.empty()) continue;  // a comment
    for (std::string id; cells >> id;) {
      const auto index = static_cast<std::size_t>(labels.find_id(id).value_or(-1));
      if (index >= labels.size()) continue;
      if (row.group.id == "scene")
        is_scene_[index] = true;
      else
        nearest[index] = row.group.id;
    }
    rows.emplace(row.group.id, row);
  }
  std::vector<std::vector<Row*>> paths(labels.size());
  for (std::size_t index = 0; index < labels.size(); ++index)
    for (auto row = rows.find(nearest[index]); row != rows.end();
         row = rows.find(row->second.parent)) {
      row->second.group.classes.push_back(static_cast<std::int64_t>(index));
      paths[index].push_back(&row->second);
    }
  for (std::size_t index = 0; index < labels.size(); ++index)
    for (Row* row : paths[index]) {
      std::vector<std::size_t>& chain = chains_[index];
      const std::size_t size = row->group.classes.size();
      const std::size_t before = chain.empty() ? 1 : groups_[chain.back()].classes.size();
      if (size == before || size == labels.size()) continue;
      if (!row->place) {
        row->place = groups_.size();
        groups_.push_back(row->group);
      }
      chain.push_back(*row->place);
    }
}

std::optional<GroupAnswer> ClassGroups::answer(std::span<const double> probabilities,
                                               std::int64_t first, double least) const {
  constexpr double kGain = 0.05;
  if (probabilities.size() != chains_.size()) return std::nullopt;
  for (const std::size_t place : chain(first)) {
    double sum = 0;
    for (const std::int64_t index : groups_[place].classes)
      sum += probabilities[static_cast<std::size_t>(index)];
    if (sum >= least && sum >= probabilities[static_cast<std::size_t>(first)] + kGain)
      return GroupAnswer{groups_[place].name, sum};
  }
  return std::nullopt;
}

}  // namespace hydrascope::app
