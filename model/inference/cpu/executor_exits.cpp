// The images of a batch at an exit: some leave, the others close up.
#include "model/inference/cpu/exit_branch.h"
#include "model/inference/cpu/exit_score.h"
#include "model/inference/cpu/streaming_executor.h"

#include <algorithm>
#include <utility>

namespace hydrascope::model::inference {

template <class T>
std::int64_t StreamingExecutor<T>::leave(std::size_t layer, std::int64_t count,
                                         const ExitRecord& exits, float* logits,
                                         StageTimes* times) {
  const auto behind = static_cast<std::int64_t>(layer);
  const std::vector<std::int64_t>& all = net_.exits.layers;
  const std::int64_t number = std::ranges::lower_bound(all, behind) - all.begin();
  const std::int64_t threads = team_.size();
  const std::int64_t group = std::min(kExitImages, (count + threads - 1) / threads);
  const auto row = [](Buffer<float>& rows, std::int64_t place, std::int64_t width) {
    return rows.data() + place * width;
  };
  const auto look = [&](std::int64_t item, int thread) {
    StageClock clock(times != nullptr ? times + thread : nullptr);
    const std::int64_t first = item * group;
    const std::int64_t images = std::min(group, count - first);
    const ExitRows found{row(exit_logits_, first, net_.num_classes),
                         row(exit_features_[0], first, dim_), row(exit_stops_, first, 1)};
    run_exit(net_, behind, tokens({first, 0, 0, 0}), images, num_tokens_, scratch_of(thread).exit,
             found);
    for (std::int64_t place = first; place < first + images; ++place) {
      const auto width = static_cast<std::size_t>(dim_);
      ExitFindings findings{
          {row(exit_logits_, place, net_.num_classes), static_cast<std::size_t>(net_.num_classes)},
          {row(exit_features_[0], place, dim_), width},
          {},
          *row(exit_stops_, place, 1)};
      if (number > 0) findings.previous = {row(exit_features_[1], place, dim_), width};
      exit_scores_[static_cast<std::size_t>(place)] = exit_score(exits.rule, findings);
    }
    clock.lap(Stage::head);
  };
  team_.run((count + group - 1) / group, look);
  std::swap(exit_features_[0], exit_features_[1]);
  const auto exits_of_all = std::ssize(all);
  std::int64_t staying = count;
  for (std::int64_t place = 0; place < staying;) {
    const std::int64_t image = images_[static_cast<std::size_t>(place)];
    const float score = exit_scores_[static_cast<std::size_t>(place)];
    const float* const found = row(exit_logits_, place, net_.num_classes);
    if (exits.scores != nullptr) exits.scores[image * exits_of_all + number] = score;
    if (exits.classes != nullptr)
      exits.classes[image * exits_of_all + number] =
          std::max_element(found, found + net_.num_classes) - found;
    if (!exits.leave || !(score > exits.threshold)) {
      ++place;
      continue;
    }
    std::copy_n(found, net_.num_classes, logits + image * net_.num_classes);
    if (exits.layers != nullptr) exits.layers[image] = behind;
    // The last image takes its place.
    --staying;
    if (place == staying) break;
    std::copy_n(tokens({staying, 0, 0, 0}), num_tokens_ * dim_, tokens({place, 0, 0, 0}));
    std::copy_n(row(exit_logits_, staying, net_.num_classes), net_.num_classes,
                row(exit_logits_, place, net_.num_classes));
    std::copy_n(row(exit_features_[1], staying, dim_), dim_, row(exit_features_[1], place, dim_));
    exit_scores_[static_cast<std::size_t>(place)] = exit_scores_[static_cast<std::size_t>(staying)];
    images_[static_cast<std::size_t>(place)] = images_[static_cast<std::size_t>(staying)];
  }
  return staying;
}

template std::int64_t StreamingExecutor<float>::leave(std::size_t, std::int64_t, const ExitRecord&,
                                                      float*, StageTimes*);
template std::int64_t StreamingExecutor<kernels::BFloat16>::leave(std::size_t, std::int64_t,
                                                                  const ExitRecord&, float*,
                                                                  StageTimes*);

}  // namespace hydrascope::model::inference
