// The images of a batch at an exit: some leave, the others close up.
#include "model/inference/cpu/exit_branch.h"
#include "model/inference/cpu/exit_score.h"
#include "model/inference/cpu/streaming_executor.h"

#include <algorithm>
#include <utility>

namespace hydrascope::model::inference {

template <class T>
void StreamingExecutor<T>::look_by_branch(std::size_t layer, std::int64_t count,
                                          StageTimes* times) {
  const std::int64_t threads = team_.size();
  const std::int64_t group = std::min(kExitImages, (count + threads - 1) / threads);
  const auto look = [&](std::int64_t item, int thread) {
    StageClock clock(times != nullptr ? times + thread : nullptr);
    const std::int64_t first = item * group;
    const std::int64_t images = std::min(group, count - first);
    const ExitRows found{exit_logits_.data() + first * net_.num_classes,
                         exit_features_[0].data() + first * dim_, exit_stops_.data() + first};
    run_exit(net_, static_cast<std::int64_t>(layer), tokens({first, 0, 0, 0}), images, num_tokens_,
             scratch_of(thread).exit, found);
    clock.lap(Stage::head);
  };
  team_.run((count + group - 1) / group, look);
}

template <class T>
void StreamingExecutor<T>::look_coarsely(std::size_t layer, std::int64_t count, StageTimes* times) {
  StreamingExecutor& to = *coarse_;
  const TokenGrid& fine = geometry_.grid;
  const TokenGrid& grid = to.geometry_.grid;
  const auto reduce = [&](std::int64_t item, int thread) {
    StageClock clock(times != nullptr ? times + thread : nullptr);
    const Tile t = tile_of(item, to.extent_);
    const T* const from = tokens({t.image, 0, 0, 0});
    T* const x = to.tokens(t);
    std::copy_n(from + t.first * dim_, t.rows_before(net_.num_prefix) * dim_, x);
    const auto row_of = [&](std::int64_t patch) {
      return from + places_[static_cast<std::size_t>(patch)] * dim_;
    };
    const auto reduce_patch = [&](std::int64_t patch, T* mean) {
      if (patch >= grid.num_patches()) {
        std::copy_n(row_of(fine.num_patches() + patch - grid.num_patches()), dim_, mean);
        return;
      }
      const std::int64_t top = patch / grid.columns * kCoarsePatches;
      const std::int64_t left = patch % grid.columns * kCoarsePatches;
      const std::int64_t rows = std::min(kCoarsePatches, fine.rows - top);
      const std::int64_t columns = std::min(kCoarsePatches, fine.columns - left);
      const T* patches[kCoarsePatches * kCoarsePatches];
      for (std::int64_t i = 0; i < rows * columns; ++i)
        patches[i] = row_of((top + i / columns) * fine.columns + left + i % columns);
      const float share = 1 / static_cast<float>(rows * columns);
      for (std::int64_t d = 0; d < dim_; ++d) {
        float sum = 0;
        for (std::int64_t i = 0; i < rows * columns; ++i) sum += static_cast<float>(patches[i][d]);
        mean[d] = T(sum * share);
      }
    };
    to.geometry_.for_each_run(t.first, t.rows,
                              [&](std::int64_t row, std::int64_t patch, std::int64_t number) {
                                for (std::int64_t i = 0; i < number; ++i)
                                  reduce_patch(patch + i, x + (row + i) * dim_);
                              });
    clock.lap(Stage::head);
  };
  team_.run(count * to.extent_.num_tiles(), reduce);
  to.enter(layer + 1, count, times);
  to.run_blocks(layer + 1, net_.blocks.size(), count, nullptr, nullptr, {}, times);
  to.answer(count, /*in_places=*/false, exit_logits_.data(), times);
}

template <class T>
std::int64_t StreamingExecutor<T>::leave(std::size_t layer, std::int64_t count,
                                         const ExitRecord& exits, float* logits,
                                         StageTimes* times) {
  const auto behind = static_cast<std::int64_t>(layer);
  const std::vector<std::int64_t>& all = net_.exits.layers;
  const std::int64_t number = std::ranges::lower_bound(all, behind) - all.begin();
  const auto row = [](Buffer<float>& rows, std::int64_t place, std::int64_t width) {
    return rows.data() + place * width;
  };
  if (coarse_ != nullptr)
    look_coarsely(layer, count, times);
  else
    look_by_branch(layer, count, times);
  for (std::int64_t place = 0; place < count; ++place) {
    const auto width = static_cast<std::size_t>(dim_);
    ExitFindings findings{
        {row(exit_logits_, place, net_.num_classes), static_cast<std::size_t>(net_.num_classes)},
        {row(exit_features_[0], place, dim_), width},
        {},
        *row(exit_stops_, place, 1)};
    if (number > 0) findings.previous = {row(exit_features_[1], place, dim_), width};
    exit_scores_[static_cast<std::size_t>(place)] = exit_score(exits.rule, findings);
  }
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
