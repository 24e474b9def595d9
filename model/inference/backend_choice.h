// The choice between several ways to compute the same: the fastest one that serves a shape.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace hydrascope::model::inference {

/// The numbers 0 .. count - 1 stand for the ways; the last one is taken for want of another.
class BackendChoice {
 public:
  /// Computes by one of the ways; throws c10::Error if this way does not serve the shape.
  using Run = std::function<at::Tensor(int backend)>;
  /// How long `work` takes, in any unit.
  using Time = std::function<float(const std::function<void()>& work)>;

  /// `deterministic`: the first way that serves the shape instead of the fastest.
  BackendChoice(int count, bool deterministic) : count_(count), deterministic_(deterministic) {}

  /// Computes by the way that was chosen for `shape`, or chooses one. A way that fails, other than
  /// for want of memory, is not asked for this shape again, and another one is chosen. Throws the
  /// last way's error if none serves the shape.
  at::Tensor compute(const std::vector<std::int64_t>& shape, const Run& run, const Time& time);

  /// The ways that were chosen, each once, in the order of the shapes.
  [[nodiscard]] std::vector<int> chosen() const;

 private:
  struct Entry {
    std::vector<std::int64_t> shape;
    std::vector<bool> refused;
    int chosen = -1;
  };

  void choose(Entry& entry, const Run& run, const Time& time) const;

  int count_;
  bool deterministic_;
  std::vector<Entry> entries_;
};

}  // namespace hydrascope::model::inference
