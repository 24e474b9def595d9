#include "app/scores/confusion_counts.h"

#include "app/scores/accuracy.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace hydrascope::app {

void ConfusionCounts::add(const ScoredPicture& picture) {
  if (!picture.is_labelled()) return;
  Class& of = classes_[picture.target];
  ++of.images;
  if (picture.rank <= kTopClasses) ++of.in_top5;
  if (picture.is_right()) {
    ++of.right;
  } else {
    ++of.taken_for[picture.predicted];
  }
}

ResultTable ConfusionCounts::classes(const image::Labels& labels) const {
  ResultTable table({{"class", "class"},
                     {"id", "id"},
                     {"label", "label"},
                     {"images", "images"},
                     {"right", "right"},
                     {"top1", "top-1", 2},
                     {"top5", "top-5", 2},
                     {"taken_for", "taken for"},
                     {"taken_for_label", "label"},
                     {"taken_for_images", "images"}});
  for (const auto& [index, of] : classes_) {
    const image::Label& label = labels.at(index);
    std::vector<OrderedJson> row{index,
                                 label.id,
                                 label.short_name,
                                 of.images,
                                 of.right,
                                 percent_of(of.right, of.images),
                                 percent_of(of.in_top5, of.images)};
    if (const auto most = std::ranges::max_element(of.taken_for, {},
                                                   [](const auto& taken) { return taken.second; });
        most != of.taken_for.end()) {
      row.insert(row.end(), {most->first, labels.at(most->first).short_name, most->second});
    } else {
      row.insert(row.end(), {OrderedJson(), OrderedJson(), OrderedJson()});
    }
    table.add(std::move(row));
  }
  return table;
}

ResultTable ConfusionCounts::pairs(std::size_t count, const image::Labels& labels) const {
  struct Pair {
    std::int64_t target;
    std::int64_t predicted;
    std::int64_t images;
  };
  std::vector<Pair> pairs;
  for (const auto& [target, of] : classes_) {
    for (const auto& [predicted, images] : of.taken_for)
      pairs.push_back({target, predicted, images});
  }
  std::ranges::stable_sort(pairs, std::ranges::greater(), &Pair::images);
  pairs.resize(std::min(pairs.size(), count));
  ResultTable table({{"target", "class"},
                     {"target_label", "label"},
                     {"predicted", "taken for"},
                     {"predicted_label", "label"},
                     {"count", "images"},
                     {"share", "share", 2}});
  for (const Pair& pair : pairs) {
    table.add(
        {pair.target, labels.at(pair.target).short_name, pair.predicted,
         labels.at(pair.predicted).short_name, pair.images,
         static_cast<double>(pair.images) / static_cast<double>(classes_.at(pair.target).images)});
  }
  return table;
}

}  // namespace hydrascope::app
