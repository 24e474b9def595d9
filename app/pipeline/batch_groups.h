// Prepared pictures that wait for the model, in groups of one size, which batches are made of.
#pragma once

#include "app/pipeline/pipeline.h"
#include "kernels/stopwatch.h"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

namespace hydrascope::app {

struct PipelineItem {
  std::int64_t sequence = 0;
  PipelineResult result;
  Clock::time_point ready = {};  ///< for the model
};

class BatchGroups {
 public:
  static constexpr std::int64_t kMostAutomaticBatch = 256;

  /// The batch size 0 is chosen by the number of tokens.
  explicit BatchGroups(std::int64_t batch_size) : batch_size_(batch_size) {}

  [[nodiscard]] bool empty() const { return groups_.empty(); }

  void add(PipelineItem item) { groups_[group_of(item.result)].push_back(std::move(item)); }

  /// Whether there is a whole batch of some size.
  [[nodiscard]] bool has_full() const {
    return std::ranges::any_of(groups_, [this](const auto& group) { return is_full(group); });
  }

  /// Since when the oldest picture waits; there must be one.
  [[nodiscard]] Clock::time_point waiting_since() const { return oldest()->second.front().ready; }

  /// The next batch: a whole one where `full_first` and there is one, else the oldest picture and
  /// others of its size. Empty where nothing waits.
  std::vector<PipelineItem> take(bool full_first) {
    std::vector<PipelineItem> batch;
    if (groups_.empty()) return batch;
    auto group = full_first ? std::ranges::find_if(
                                  groups_, [this](const auto& each) { return is_full(each); })
                            : groups_.end();
    if (group == groups_.end()) group = groups_.find(oldest()->first);
    auto& [size, items] = *group;
    for (std::int64_t left = batch_for(size); left > 0 && !items.empty(); --left) {
      batch.push_back(std::move(items.front()));
      items.pop_front();
    }
    if (items.empty()) groups_.erase(group);
    return batch;
  }

  /// Pictures that did not fit come first again; batches of its size have `limit` pictures from then on.
  void put_back(std::vector<PipelineItem> items, std::int64_t limit) {
    const Group group = group_of(items.front().result);
    limits_[group.model_size] = limit;
    for (; !items.empty(); items.pop_back()) groups_[group].push_front(std::move(items.back()));
  }

 private:
  /// The common properties of a batch: the model, its input size, and the tensors' size, which differs
  /// where bytes are padded without this program's knowledge.
  struct Group {
    std::pair<std::int64_t, std::int64_t> model_size;
    std::pair<std::int64_t, std::int64_t> tensor_size;
    bool is_finder;  // in front of the engine, whose address is chance
    model::inference::Engine* engine;
    auto operator<=>(const Group&) const = default;
  };
  using Groups = std::map<Group, std::deque<PipelineItem>>;

  static Group group_of(const PipelineResult& result) {
    return {{result.model_size.height, result.model_size.width},
            {result.tensor.size(0), result.tensor.size(1)},
            result.seer.is_finder,
            result.seer.engine};
  }

  /// There must be one.
  [[nodiscard]] Groups::const_iterator oldest() const {
    return std::ranges::min_element(
        groups_, {}, [](const auto& group) { return group.second.front().sequence; });
  }

  [[nodiscard]] std::int64_t batch_for(const Group& group) const {
    const auto& [height, width] = group.model_size;
    const auto limit = limits_.find(group.model_size);
    if (limit != limits_.end()) return limit->second;
    if (batch_size_ > 0) return batch_size_;
    return std::clamp<std::int64_t>(
        group.engine->enough_tokens() / group.engine->num_tokens(height, width), 1,
        kMostAutomaticBatch);
  }
  [[nodiscard]] bool is_full(const Groups::value_type& group) const {
    return std::ssize(group.second) >= batch_for(group.first);
  }

  std::int64_t batch_size_;
  Groups groups_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> limits_;  // found by trying
};

}  // namespace hydrascope::app
