#include "model/attention/sparse/sparse_form.h"

#include "kernels/linear/panel.h"
#include "kernels/softmax_attention/softmax_attention.h"
#include "model/inference/cpu/mixings/groups.h"
#include "model/inference/cpu/mixings/windows.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace hydrascope::model {
namespace {

namespace softmax_attention = kernels::softmax_attention;
using at::Tensor;
using inference::GroupedKeys;
using inference::KeyGroup;
using inference::TokenOrder;
using kernels::linear::kStripRows;

/// Queries of a group, at most: packing the keys for so many is little beside computing with them.
constexpr std::int64_t kMostQueries = 384;

class Grouping {
 public:
  Grouping(const TokenGrid& grid, const TokenOrder& order, kernels::Storage storage)
      : num_prefix_(grid.num_prefix),
        storage_(storage),
        token_of_(static_cast<std::size_t>(grid.num_image_tokens())) {
    for (const TokenOrder::Run& run : order.runs)
      for (std::int64_t i = 0; i < run.count; ++i)
        token_of_[static_cast<std::size_t>(run.patch + i)] =
            static_cast<std::int32_t>(num_prefix_ + run.token + i);
  }

  /// `place`: the heads and whether it is their last pass. The prefix is seen in the first pass.
  void add(const KeyGroups& groups, std::size_t pass, KeyGroup place) {
    if (grouped_.passes.size() <= pass) grouped_.passes.resize(pass + 1);
    const std::int64_t prefix = pass == 0 ? num_prefix_ : 0;
    place.num_keys = prefix + groups.keys.size(1);
    const std::int64_t words = softmax_attention::sees_words(place.num_keys);
    const std::size_t sees =
        groups.sees.defined() ? add_rows(groups.sees, prefix, words) : KeyGroup::kAllSeen;
    const std::int64_t count = groups.queries.size(1);
    const std::int64_t parts = (count + kMostQueries - 1) / kMostQueries;
    const std::int64_t share =
        ((count + parts - 1) / parts + kStripRows - 1) / kStripRows * kStripRows;
    const Tensor all_keys = groups.keys.contiguous();
    const Tensor all_queries = groups.queries.contiguous();
    for (std::int64_t i = 0; i < all_queries.size(0); ++i) {
      place.keys = grouped_.tokens.size();
      for (std::int64_t token = 0; token < prefix; ++token)
        grouped_.tokens.push_back(static_cast<std::int32_t>(token));
      add_tokens(all_keys, i);
      const std::size_t queries = grouped_.tokens.size();
      add_tokens(all_queries, i);
      for (std::int64_t first = 0; first < count; first += share) {
        place.queries = queries + static_cast<std::size_t>(first);
        place.num_queries = std::min(share, count - first);
        place.sees =
            sees == KeyGroup::kAllSeen ? sees : sees + static_cast<std::size_t>(first * words);
        grouped_.passes[pass].push_back(place);
      }
    }
  }
  [[nodiscard]] GroupedKeys take() { return std::move(grouped_); }

 private:
  /// A row of (G, n) patches.
  void add_tokens(const Tensor& patches, std::int64_t row) {
    const std::int64_t count = patches.size(1);
    const std::int64_t* const list = patches.const_data_ptr<std::int64_t>() + row * count;
    for (std::int64_t i = 0; i < count; ++i)
      grouped_.tokens.push_back(token_of_[static_cast<std::size_t>(list[i])]);
  }

  /// Adds the bits of (n, m) bool behind the prefix tokens' bits. Returns the first word.
  std::size_t add_rows(const Tensor& sees, std::int64_t prefix, std::int64_t words) {
    const std::size_t first = grouped_.sees.size();
    const Tensor rows = sees.contiguous();
    const bool* const seen = rows.const_data_ptr<bool>();
    for (std::int64_t i = 0; i < rows.size(0); ++i) {
      const std::size_t row = grouped_.sees.size();
      grouped_.sees.resize(row + static_cast<std::size_t>(words));
      for (std::int64_t key = 0; key < prefix + rows.size(1); ++key) {
        if (key >= prefix && !seen[i * rows.size(1) + key - prefix]) continue;
        const std::int64_t bit = storage_ == kernels::Storage::float32
                                     ? softmax_attention::sees_bit<float>(key)
                                     : softmax_attention::sees_bit<kernels::BFloat16>(key);
        grouped_.sees[row + static_cast<std::size_t>(bit / 32)] |= std::uint32_t{1} << (bit % 32);
      }
    }
    return first;
  }

  std::int64_t num_prefix_;
  kernels::Storage storage_;
  std::vector<std::int32_t> token_of_;
  GroupedKeys grouped_;
};

/// From a layer's patterns to the groups that the CPU plan computes. Many queries that share their
/// keys are several groups: threads share them.
GroupedKeys group_keys(const std::vector<HeadPattern>& heads, const inference::MixingSite& site,
                       kernels::Storage storage) {
  Grouping grouping(site.grid, site.order, storage);
  KeyGroup place{};
  for (const HeadPattern& head : heads) {
    place.num_heads = head.num_heads;
    const auto passes = image_passes(*head.pattern, site.grid);
    for (std::size_t pass = 0; pass < passes.size(); ++pass) {
      place.is_last = pass + 1 == passes.size();
      for (const KeyGroups& groups : passes[pass]) grouping.add(groups, pass, place);
    }
    place.first_head += head.num_heads;
  }
  return grouping.take();
}

}  // namespace

inference::PrefixWeights SparseForm::prefix_weights(const inference::MixingSite& site) const {
  const auto of_heads = [&](const at::Tensor& values) -> std::vector<float> {
    if (!values.defined()) return {};
    const at::Tensor all = values.to(at::kFloat).expand({site.num_heads}).contiguous();
    return {all.const_data_ptr<float>(), all.const_data_ptr<float>() + all.numel()};
  };
  const PrefixWeighing weighing = mixer_.prefix_weighing(site.grid);
  return {of_heads(weighing.factor), of_heads(weighing.overview)};
}

inference::AnyMixing SparseForm::on_cpu(const inference::MixingSite& site,
                                        kernels::Storage storage) const {
  if (site.in_windows && mixer_.windows_)
    return inference::make_mixing<inference::WindowMixing>(storage, site, prefix_weights(site));
  return inference::make_mixing<inference::GroupMixing>(
      storage, site, group_keys(mixer_.heads_, site, storage), prefix_weights(site));
}

}  // namespace hydrascope::model
