// Two queues of earlier frames: the newest whole, older ones compressed (Rae et al. 2019, Compressive
// Transformers, arXiv 1911.05507, sections 3.1 and 3.2, with frames in the place of segments):
//   y_i = softmax_j(q_i . k_j / sqrt(d)) v_j     over the frame, `frames` whole and `compressed` older ones
// A frame that leaves the first queue keeps one token for each cell of its patches: their mean or their
// maximum, of keys and of values, or as many patches as there are cells, those that the prefix tokens
// looked at most. Nothing is learned: the article's convolutions, and its losses, are. Compressed tokens
// differ from the frame's own, so that a still video ends near its picture's answer and not at it.
#include "model/attention/memories/kept_tokens.h"
#include "model/attention/projection/patch_pooling.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

namespace hydrascope::model {
namespace {

using at::Tensor;

enum class Compression { mean, max, most_used };

const IntegerOption kWholeFrames("frames", 1, 1, 64, "number of earlier frames that are whole");
const IntegerOption kCompressedFrames("compressed", 4, 0, 256, "number of compressed frames");
const IntegerOption kCellEdge("cell", 2, 1, 64, "edge of the cells of patches");
const ChoiceOption<Compression> kCompression("by",
                                             {{"mean", Compression::mean},
                                              {"max", Compression::max},
                                              {"most_used", Compression::most_used}},
                                             "compression of a cell, or choice of patches");

class CompressiveMemory final : public FrameMemory {
 public:
  explicit CompressiveMemory(const MechanismOptions& options)
      : frames_(kWholeFrames(options)),
        compressed_frames_(kCompressedFrames(options)),
        cell_(kCellEdge(options)),
        compression_(kCompression(options)) {}

  Tensor look(TokenMixer& mixer, const Tensor& q, const Tensor& k, const Tensor& v,
              const TokenGrid& grid, Kernels kernels) override {
    std::vector<KeptTokens> kept;
    for (const Whole& frame : whole_) kept.push_back(frame.tokens);
    kept.insert(kept.end(), compressed_.begin(), compressed_.end());
    return mix_beside_kept(mixer, {q, k, v}, grid, kernels, kept, /*decay=*/0);
  }
  void join(TokenMixer& /*mixer*/, const Tensor& q, const Tensor& k, const Tensor& v,
            const TokenGrid& grid) override {
    Whole& frame = whole_.emplace_front(Whole{{k.clone(), v.clone()}, {}});
    if (compression_ == Compression::most_used) frame.use = use_of_patches(q, k, grid);
    if (std::ssize(whole_) <= frames_) return;
    if (compressed_frames_ > 0) compressed_.push_front(compressed(whole_.back(), grid));
    whole_.pop_back();
    if (std::ssize(compressed_) > compressed_frames_) compressed_.pop_back();
  }
  void forget() override {
    whole_.clear();
    compressed_.clear();
  }

 private:
  struct Whole {
    KeptTokens tokens;
    Tensor use;  ///< (patches), with Compression::most_used
  };

  /// The attention of the prefix tokens to each patch, or of all tokens where there is no prefix.
  static Tensor use_of_patches(const Tensor& q, const Tensor& k, const TokenGrid& grid) {
    const std::int64_t queries = grid.num_prefix > 0 ? grid.num_prefix : q.size(2);
    const Tensor scores =
        to_compute_type(q.narrow(2, 0, queries)).matmul(to_compute_type(k).transpose(-2, -1)) /
        std::sqrt(static_cast<double>(q.size(3)));
    return scores.softmax(-1).sum({0, 1, 2}).narrow(0, grid.num_prefix, grid.num_patches());
  }

  [[nodiscard]] KeptTokens compressed(const Whole& frame, const TokenGrid& grid) const {
    if (compression_ == Compression::most_used) {
      const std::int64_t count = coarse(grid, cell_).num_patches();
      const Tensor chosen = std::get<1>(frame.use.topk(count)) + grid.num_prefix;
      return {frame.tokens.k.index_select(2, chosen), frame.tokens.v.index_select(2, chosen)};
    }
    const PoolBy by = compression_ == Compression::mean ? PoolBy::average : PoolBy::maximum;
    return {pool_cells(frame.tokens.k, grid, cell_, by),
            pool_cells(frame.tokens.v, grid, cell_, by)};
  }

  std::int64_t frames_;
  std::int64_t compressed_frames_;
  std::int64_t cell_;
  Compression compression_;
  std::deque<Whole> whole_;  ///< the newest first
  std::deque<KeptTokens> compressed_;
};

const MemoryRegistration kCompressive({
    .name = "compressive",
    .summary = "keys and values of the last frames, and of older ones one for each cell of patches",
    .citation = "Rae et al. 2019, Compressive Transformers, arXiv 1911.05507",
    .equation = "y_i = softmax_j(q_i . k_j / sqrt(d)) v_j over the frame and both queues",
    .options = {kWholeFrames, kCompressedFrames, kCellEdge, kCompression},
    .keeps = MemoryEntry::Keeps::tokens,
    .make = [](const MechanismOptions& options) -> std::unique_ptr<FrameMemory> {
      return std::make_unique<CompressiveMemory>(options);
    },
});

}  // namespace
}  // namespace hydrascope::model
