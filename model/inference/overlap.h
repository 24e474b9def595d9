// Batches under way. A GPU's plan computes one while the next is on its way, and takes images as
// bytes. Every other engine has computed a batch when `start` returns.
#pragma once

#include "model/inference/engine.h"

#include <functional>
#include <utility>

namespace hydrascope::model::inference {

/// A batch under way; the engine must outlive it. Dropping it waits and discards the outputs.
class PendingBatch {
 public:
  using Wait = std::function<EngineOutputs()>;
  explicit PendingBatch(Wait wait) : wait_(std::move(wait)) {}
  PendingBatch(PendingBatch&&) noexcept = default;
  PendingBatch& operator=(PendingBatch&&) noexcept = default;
  PendingBatch(const PendingBatch&) = delete;
  PendingBatch& operator=(const PendingBatch&) = delete;
  ~PendingBatch() = default;

  /// Waits for the outputs. Called once; afterwards the batch is no longer under way.
  EngineOutputs get() { return std::exchange(wait_, nullptr)(); }

 private:
  Wait wait_;
};

/// The part of an engine that has several batches under way.
class Overlap {
 public:
  /// Batches that are started and wait for `get`.
  [[nodiscard]] virtual int most_under_way() const noexcept = 0;
  /// Begins a batch, whose images may be bytes; the result waits for the outputs. The batch's memory
  /// is free when the last copy of the result is destroyed.
  virtual PendingBatch::Wait begin(const ImageBatch& batch) = 0;

 protected:
  ~Overlap() = default;
};

/// Starts a batch of any engine. Errors as of Engine::compute, here and in `get`; a batch whose
/// `start` throws is not under way.
PendingBatch start(Engine& engine, const ImageBatch& batch);
/// Batches that any engine has under way at most.
inline int most_under_way(Engine& engine) {
  Overlap* const overlap = engine.overlap();
  return overlap != nullptr ? overlap->most_under_way() : 1;
}
/// Whether images may be bytes, which spares the caller their normalisation.
inline bool takes_bytes(Engine& engine) { return engine.overlap() != nullptr; }

}  // namespace hydrascope::model::inference
