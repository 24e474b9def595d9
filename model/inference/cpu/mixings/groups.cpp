#include "model/inference/cpu/mixings/groups.h"

#include "kernels/softmax_attention/few_queries.h"
#include "kernels/softmax_attention/softmax_attention.h"
#include "kernels/vector/arrays.h"

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
  std::byte* attend;
  std::size_t bytes;

  GroupScratch(void* memory, std::int64_t most_queries, std::int64_t most_keys, std::size_t passes,
               std::int64_t head_dim) {
    const softmax_attention::Shape shape{most_keys, 1, head_dim};
    kernels::Arrays arrays(memory);
    const auto take = [&]<class Element>(Element*& array, std::size_t count) {
      array = arrays.take<Element>(static_cast<std::int64_t>(count));
    };
    const auto rows = static_cast<std::size_t>(most_queries);
    const auto dim = static_cast<std::size_t>(head_dim);
    take(queries, rows * dim);
    take(gathered, 2 * kGathered * dim);
    take(keys, softmax_attention::keys_size<T>(shape));
    take(values, softmax_attention::values_size<T>(shape));
    take(parts, passes > 1 ? passes * softmax_attention::part_size(most_queries, 1, head_dim) : 0);
    take(attend, softmax_attention::scratch_bytes<T>(shape));
    bytes = arrays.bytes();
  }
};

/// A layer of one image as groups read it: rows of one head.
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
MixingRoom GroupMixing<T>::plan(const Extent& extent) {
  parts_at_ = padded(prefix_.plan(extent));
  // (H, N, d + 2) of each pass.
  part_stride_ = num_heads_ * extent.num_tokens * (head_dim_ + 2);
  const std::size_t passes = grouped_.passes.size();
  const std::size_t parts =
      passes > 1 ? (passes - 1) * static_cast<std::size_t>(part_stride_) * sizeof(float) : 0;
  return {.image = parts_at_ + parts,
          .thread = GroupScratch<T>(nullptr, most_queries_, most_keys_, passes, head_dim_).bytes};
}

template <class T>
void GroupMixing<T>::mix_group(std::int64_t image, std::size_t pass, const KeyGroup& group,
                               std::int64_t head, const MixingMemory<T>& memory, int thread) const {
  if (head < group.first_head || head >= group.first_head + group.num_heads) return;
  const MixingRows<T> all = memory.rows_of(image);
  const std::int64_t column = head * head_dim_;
  const HeadRows<T> rows{head_dim_,
                         all.queries + column,
                         all.query_stride,
                         all.keys + column,
                         all.values + column,
                         all.stride,
                         memory.mixed + image * memory.num_tokens * memory.dim + column,
                         memory.dim,
                         memory.images.behind(parts_at_).template at<float>(image) +
                             head * memory.num_tokens * (head_dim_ + 2),
                         part_stride_};
  rows.mix(grouped_, pass, group,
           GroupScratch<T>(memory.threads.template at<void>(thread), most_queries_, most_keys_,
                           grouped_.passes.size(), head_dim_));
}

template <class T>
void GroupMixing<T>::combine(const Meeting& meeting, const MixingMemory<T>& memory) const {
  // Prefix tokens are attended to beside the first pass: threads need not meet in between.
  const std::int64_t num_parts = std::ssize(prefix_.parts());
  const std::size_t passes = meeting.patches_have_queries ? grouped_.passes.size() : 1;
  const auto sums = [&](std::int64_t image) { return memory.images.template at<float>(image); };
  for (std::size_t pass = 0; pass < passes; ++pass) {
    const std::vector<KeyGroup>& groups = grouped_.passes[pass];
    const std::int64_t in_image =
        meeting.patches_have_queries ? std::ssize(groups) * num_heads_ : 0;
    const std::int64_t in_groups = meeting.images * in_image;
    meeting.run(in_groups + (pass == 0 ? meeting.images * num_parts : 0), [&](std::int64_t item,
                                                                              int thread) {
      if (item < in_groups) {
        const auto group = static_cast<std::size_t>(item % in_image / num_heads_);
        mix_group(item / in_image, pass, groups[group], item % num_heads_, memory, thread);
        return;
      }
      const std::int64_t image = (item - in_groups) / num_parts;
      const auto part = static_cast<std::size_t>((item - in_groups) % num_parts);
      const MixingRows<T> all = memory.rows_of(image);
      const std::int64_t at = prefix_.parts()[part].first * all.stride;
      prefix_.ask(part, all, all.keys + at, all.values + at, sums(image));
    });
  }
  for (std::int64_t image = 0; image < meeting.images; ++image)
    prefix_.merge(num_prefix_, sums(image), memory.mixed + image * memory.num_tokens * memory.dim);
}

template class GroupMixing<float>;
template class GroupMixing<kernels::BFloat16>;

}  // namespace hydrascope::model::inference
