#include "model/inference/cpu/group_mixing.h"

#include "kernels/softmax_attention/few_queries.h"
#include "kernels/softmax_attention/softmax_attention.h"

#include <algorithm>
#include <cstring>

namespace hydrascope::model::inference {
namespace {

namespace softmax_attention = kernels::softmax_attention;

/// Keys that are gathered before they are packed: a group of columns of the panels.
constexpr std::int64_t kGathered = 32;

/// One group's memory, all of one head.
template <class T>
struct GroupScratch {
  T* queries;   ///< (queries, d), in whose place come the outputs
  T* gathered;  ///< kGathered keys, then their values
  T* keys;      ///< packed
  T* values;
  float* parts;  ///< (passes, queries, d + 2)
  void* attend;
  std::size_t bytes = 0;

  GroupScratch(void* memory, std::int64_t most_queries, std::int64_t most_keys, std::size_t passes,
               std::int64_t head_dim) {
    const softmax_attention::Shape shape{most_keys, 1, head_dim};
    const auto rows = static_cast<std::size_t>(most_queries);
    const auto dim = static_cast<std::size_t>(head_dim);
    queries = take<T>(memory, rows * dim);
    gathered = take<T>(memory, 2 * kGathered * dim);
    keys = take<T>(memory, softmax_attention::keys_size<T>(shape));
    values = take<T>(memory, softmax_attention::values_size<T>(shape));
    parts = take<float>(
        memory, passes > 1 ? passes * softmax_attention::part_size(most_queries, 1, head_dim) : 0);
    attend = take<std::byte>(memory, softmax_attention::scratch_bytes<T>(shape));
  }

 private:
  /// Without memory only counts.
  template <class Element>
  Element* take(void* memory, std::size_t count) {
    auto* at = memory == nullptr
                   ? nullptr
                   : reinterpret_cast<Element*>(static_cast<std::byte*>(memory) + bytes);
    bytes += (count * sizeof(Element) + 63) / 64 * 64;
    return at;
  }
};

/// A layer of one image as groups see it: rows of one head.
template <class T>
struct HeadRows {
  std::int64_t head_dim;
  const T* queries;
  std::int64_t query_stride;
  const T* keys;
  const T* values;
  std::int64_t stride;  ///< of keys and values
  T* mixed;
  std::int64_t mixed_stride;
  float* parts;              ///< (passes but the last, N, d + 2)
  std::int64_t part_stride;  ///< from one pass to the next

  /// A group's keys, packed.
  void pack(const std::int32_t* tokens, std::int64_t count, const GroupScratch<T>& scratch) const {
    for (std::int64_t first = 0; first < count; first += kGathered, tokens += kGathered) {
      const std::int64_t rows = std::min(kGathered, count - first);
      softmax_attention::PackParams<T> p{{count, 1, head_dim},
                                         scratch.gathered,
                                         scratch.gathered + kGathered * head_dim,
                                         head_dim,
                                         first,
                                         rows,
                                         scratch.keys,
                                         scratch.values};
      bool side_by_side = true;
      for (std::int64_t r = 1; r < rows; ++r)
        side_by_side = side_by_side && tokens[r] == tokens[0] + r;
      if (side_by_side) {
        p.k = keys + tokens[0] * stride;
        p.v = values + tokens[0] * stride;
        p.stride = stride;
      } else {
        gather(keys, stride, tokens, rows, scratch.gathered);
        gather(values, stride, tokens, rows, scratch.gathered + kGathered * head_dim);
      }
      softmax_attention::pack(p);
    }
  }

  void gather(const T* from, std::int64_t from_stride, const std::int32_t* tokens,
              std::int64_t count, T* to) const {
    for (std::int64_t r = 0; r < count; ++r)
      copy(from + tokens[r] * from_stride, head_dim, to + r * head_dim);
  }
  template <class Element>
  static void copy(const Element* from, std::int64_t count, Element* to) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(Element));
  }

  void mix(const GroupedKeys& grouped, std::size_t pass, const KeyGroup& group,
           const GroupScratch<T>& scratch) const {
    pack(grouped.tokens.data() + group.keys, group.num_keys, scratch);
    const std::int32_t* const tokens = grouped.tokens.data() + group.queries;
    const std::int64_t count = group.num_queries;
    gather(queries, query_stride, tokens, count, scratch.queries);
    const bool whole = pass == 0 && group.is_last;
    const std::int64_t width = head_dim + 2;
    const auto size = static_cast<std::int64_t>(softmax_attention::part_size(count, 1, head_dim));
    float* const part = whole ? nullptr : scratch.parts + static_cast<std::int64_t>(pass) * size;
    softmax_attention::AttendParams<T> p{{group.num_keys, 1, head_dim},
                                         scratch.queries,
                                         head_dim,
                                         count,
                                         scratch.keys,
                                         scratch.values,
                                         scratch.queries,
                                         head_dim,
                                         scratch.attend};
    if (group.sees != KeyGroup::kAllSeen) p.sees = grouped.sees.data() + group.sees;
    p.part = part;
    softmax_attention::attend(p);
    if (!group.is_last) {
      float* const to = parts + static_cast<std::int64_t>(pass) * part_stride;
      for (std::int64_t r = 0; r < count; ++r)
        copy(part + r * width, width, to + tokens[r] * width);
      return;
    }
    for (std::int64_t before = 0; before < static_cast<std::int64_t>(pass); ++before) {
      for (std::int64_t r = 0; r < count; ++r)
        copy(parts + before * part_stride + tokens[r] * width, width,
             scratch.parts + before * size + r * width);
    }
    if (!whole)
      softmax_attention::merge_parts(softmax_attention::MergeParams<T>{
          1, head_dim, count, scratch.parts, size, static_cast<std::int64_t>(pass) + 1,
          scratch.queries, head_dim});
    for (std::int64_t r = 0; r < count; ++r)
      copy(scratch.queries + r * head_dim, head_dim, mixed + tokens[r] * mixed_stride);
  }
};

}  // namespace

template <class T>
std::size_t group_scratch_bytes(std::int64_t most_queries, std::int64_t most_keys,
                                std::size_t passes, std::int64_t head_dim) {
  return GroupScratch<T>(nullptr, most_queries, most_keys, passes, head_dim).bytes;
}

template <class T>
void mix_groups(const PackedNetwork& net, const ImageGeometry& geometry, std::size_t layer,
                bool with_patches, std::int64_t images, bool timed, Workspace<T>& work,
                kernels::device::ThreadTeam& team) {
  const PackedBlock& block = net.blocks[layer];
  const GroupedKeys& grouped = geometry.grouped[layer];
  const std::int64_t head_dim = net.embed_dim / net.num_heads;
  const std::int64_t stride = block.key_value.out();
  const auto keys_of = [&](std::int64_t image) {
    return work.stored_keys(layer, {image, 0, 0, 0});
  };
  const auto mix_head = [&](std::int64_t image, std::size_t pass, const KeyGroup& group,
                            std::int64_t head, int thread) {
    if (head < group.first_head || head >= group.first_head + group.num_heads) return;
    const std::int64_t column = head * head_dim;
    const T* const keys = keys_of(image) + column;
    const HeadRows<T> rows{head_dim,
                           work.queries({image, 0, 0, 0}) + column,
                           work.query_stride,
                           keys,
                           keys + block.key_width(net.embed_dim),
                           stride,
                           work.mixed.data() + image * work.num_tokens * net.embed_dim + column,
                           net.embed_dim,
                           work.group_parts(image, head),
                           work.group_part_stride()};
    rows.mix(
        grouped, pass, group,
        GroupScratch<T>(work.scratch[static_cast<std::size_t>(thread)].group,
                        work.most_group_queries, work.most_group_keys, work.most_passes, head_dim));
  };
  // Prefix tokens are asked for beside the first pass: threads need not meet in between.
  const auto num_parts = net.num_prefix > 0 ? std::ssize(work.parts) : 0;
  const std::size_t passes = with_patches ? grouped.passes.size() : 1;
  for (std::size_t pass = 0; pass < passes; ++pass) {
    const std::int64_t groups = with_patches ? std::ssize(grouped.passes[pass]) : 0;
    const std::int64_t in_groups = images * groups * net.num_heads;
    const auto item_of = [&](std::int64_t item, int thread) {
      StageTimes& times = work.scratch[static_cast<std::size_t>(thread)].times;
      StageClock clock(timed ? &times : nullptr);
      if (item < in_groups) {
        const std::int64_t in_image = item % (groups * net.num_heads);
        const auto group = static_cast<std::size_t>(in_image / net.num_heads);
        mix_head(item / (groups * net.num_heads), pass, grouped.passes[pass][group],
                 in_image % net.num_heads, thread);
      } else {
        const std::int64_t image = (item - in_groups) / num_parts;
        const auto part = static_cast<std::size_t>((item - in_groups) % num_parts);
        ask_for_prefix(net, geometry, layer, image, part,
                       keys_of(image) + work.parts[part].first * stride, work);
      }
      clock.lap(Stage::attention);
    };
    team.run(in_groups + (pass == 0 ? images * num_parts : 0), item_of);
  }
  for (std::int64_t image = 0; image < images; ++image)
    merge_prefix(net, image, net.num_prefix, work,
                 work.mixed.data() + image * work.num_tokens * net.embed_dim);
}

template <class T>
void ask_for_prefix(const PackedNetwork& net, const ImageGeometry& geometry, std::size_t layer,
                    std::int64_t image, std::size_t index, const T* keys, Workspace<T>& work) {
  const PackedBlock& block = net.blocks[layer];
  const ImageGeometry::PrefixWeights& weights = geometry.prefix_weights[layer];
  const KeyPart& part = work.parts[index];
  const bool biased = part.of_overview && !weights.overview.empty();
  softmax_attention::attend_part(softmax_attention::PartParams<T>{
      work.softmax_shape(part.count), work.queries({image, 0, 0, 0}), work.query_stride,
      net.num_prefix, keys, keys + block.key_width(net.embed_dim), block.key_value.out(),
      weights.factor.empty() ? nullptr : weights.factor.data(),
      biased ? weights.overview.data() : nullptr,
      work.prefix_parts(image) + index * work.part_size});
}

template <class T>
void merge_prefix(const PackedNetwork& net, std::int64_t image, std::int64_t rows,
                  Workspace<T>& work, T* mixed) {
  if (rows == 0) return;
  softmax_attention::merge_parts(softmax_attention::MergeParams<T>{
      net.num_heads, net.embed_dim / net.num_heads, rows, work.prefix_parts(image),
      static_cast<std::int64_t>(work.part_size), std::ssize(work.parts), mixed, net.embed_dim});
}

#define HYDRASCOPE_GROUP_MIXING(T)                                                           \
  template std::size_t group_scratch_bytes<T>(std::int64_t, std::int64_t, std::size_t,       \
                                              std::int64_t);                                 \
  template void mix_groups(const PackedNetwork&, const ImageGeometry&, std::size_t, bool,    \
                           std::int64_t, bool, Workspace<T>&, kernels::device::ThreadTeam&); \
  template void ask_for_prefix(const PackedNetwork&, const ImageGeometry&, std::size_t,      \
                               std::int64_t, std::size_t, const T*, Workspace<T>&);          \
  template void merge_prefix(const PackedNetwork&, std::int64_t, std::int64_t, Workspace<T>&, T*);
HYDRASCOPE_GROUP_MIXING(float)
HYDRASCOPE_GROUP_MIXING(kernels::BFloat16)
#undef HYDRASCOPE_GROUP_MIXING

}  // namespace hydrascope::model::inference
