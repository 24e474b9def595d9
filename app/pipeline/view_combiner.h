// From the results of a picture's views, one after the other, to the picture's.
#pragma once

#include "app/pipeline/pipeline.h"

#include <cstdint>
#include <functional>
#include <optional>

namespace hydrascope::app {

class ViewCombiner {
 public:
  /// Both must outlive it.
  ViewCombiner(const PipelineOptions& options, const std::function<bool(PipelineResult&)>& done)
      : options_(options), done_(done) {}

  /// The result of the next view, in order, which it takes apart; `done` gets the picture's after
  /// the last, and says whether to go on. A picture fails as its first view that does.
  bool add(PipelineResult& view);
  /// Pictures that did not fail.
  [[nodiscard]] std::int64_t classified() const noexcept { return classified_; }

 private:
  void take(PipelineResult& view, PipelineResult& picture);

  const PipelineOptions& options_;
  const std::function<bool(PipelineResult&)>& done_;
  std::optional<PipelineResult> picture_;  // in the making
  std::int64_t classified_ = 0;
};

}  // namespace hydrascope::app
