#include "model/explain/mixer_inputs.h"

#include <ATen/ATen.h>

namespace hydrascope::model::explain {
namespace {

using at::Tensor;
using Part = AttentionImpl::Part;

/// Rows of a tensor that come in chunks, in order; a single chunk is kept as it is.
class GatheredRows {
 public:
  explicit GatheredRows(std::int64_t num_rows) : num_rows_(num_rows) {}

  /// rows (1, H, n, d)
  void add(std::int64_t first, const Tensor& rows) {
    if (rows.size(2) == num_rows_) {
      all_ = rows;
      return;
    }
    if (!all_.defined()) {
      const std::int64_t heads = rows.size(1);
      all_ = split_heads(at::empty({1, num_rows_, heads * rows.size(3)}, rows.options()), heads);
    }
    all_.narrow(2, first, rows.size(2)).copy_(rows);
  }
  [[nodiscard]] const Tensor& all() const noexcept { return all_; }

 private:
  std::int64_t num_rows_;
  Tensor all_;
};

}  // namespace

MixerInputs project_tokens(BlockImpl& block, const Tensor& tokens, std::int64_t num_queries,
                           bool with_values) {
  AttentionImpl& attention = block.attention();
  const std::int64_t num_tokens = tokens.size(1);
  if (attention.mixer().needs_all_queries()) num_queries = num_tokens;
  GatheredRows q(num_queries);
  GatheredRows k(num_tokens);
  GatheredRows v(num_tokens);
  for_token_chunks(num_tokens, kChunkTokens, [&](std::int64_t first, std::int64_t count) {
    const Tensor normalised = block.normalise(tokens.narrow(1, first, count));
    if (first < num_queries) {
      const std::int64_t queries = std::min(count, num_queries - first);
      q.add(first, attention.project(normalised.narrow(1, 0, queries), Part::query));
    }
    k.add(first, attention.project(normalised, Part::key));
    if (with_values) v.add(first, attention.project(normalised, Part::value));
  });
  return {q.all(), k.all(), v.all()};
}

}  // namespace hydrascope::model::explain
