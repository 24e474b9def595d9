// From pixels to the tokens that enter the first block.
#include "kernels/patchify/patchify.h"
#include "kernels/resize/resize.h"
#include "model/inference/cpu/streaming_executor.h"

#include <algorithm>
#include <cstring>

namespace hydrascope::model::inference {

template <class T>
void StreamingExecutor<T>::make_overviews(const float* images, std::int64_t count) {
  constexpr std::int64_t kRows = 8;  // neighbours read most of the same rows of the picture
  const kernels::resize::Taps& rows = overview_rows_;
  const kernels::resize::Taps& columns = overview_columns_;
  const std::int64_t parts = (rows.to() + kRows - 1) / kRows;
  const auto reduce = [&](std::int64_t item, int thread) {
    const std::int64_t plane = item / parts;
    const std::int64_t first = item % parts * kRows;
    kernels::resize::resize({images + plane * rows.from * columns.from, &rows, &columns, first,
                             std::min(kRows, rows.to() - first),
                             overview_.data() + plane * rows.to() * columns.to(),
                             scratch_of(thread).overview});
  };
  team_.run(count * net_.in_chans * parts, reduce);
}

template <class T>
void StreamingExecutor<T>::embed(const float* images, const Tile& t, Scratch& scratch,
                                 const kernels::linear::Outputs& outputs) {
  const std::int64_t prefix = t.rows_before(net_.num_prefix);
  const std::int64_t first = outputs.first;
  const std::int64_t end = outputs.end_of(dim_);
  T* x = tokens(t);
  for (std::int64_t row = 0; row < prefix; ++row) {
    const float* const token = geometry_.prefix.data() + (t.first + row) * dim_;
    std::transform(token + first, token + end, x + row * dim_ + first,
                   [](float value) { return T(value); });
  }
  if (t.rows == prefix) return;
  x += prefix * dim_;
  const T* const position = position_.data() + (t.first + prefix - net_.num_prefix) * dim_;
  const std::int64_t patches = t.rows - prefix;
  const bool adds = net_.patch_norm.empty();
  for (std::int64_t row = 0; adds && row < patches; ++row)
    std::memcpy(x + row * dim_ + first, position + row * dim_ + first,
                static_cast<std::size_t>(end - first) * sizeof(T));
  const std::int64_t size = net_.patch_size;
  const std::int64_t width = net_.patch_dim();
  geometry_.for_each_run(
      t.first, t.rows, [&](std::int64_t row, std::int64_t patch, std::int64_t count) {
        const ImageGeometry::Plane plane = geometry_.plane_of(patch);
        const float* const tensor = plane.first > 0 ? overview_.data() : images;
        kernels::patchify::from_tensor(kernels::patchify::TensorParams<T>{
            tensor + t.image * plane.rows * plane.columns * width, net_.in_chans, plane.rows * size,
            plane.columns * size, plane.columns, size, patch - plane.first, count,
            scratch.wide + (row - prefix) * width, width});
      });
  using kernels::linear::Epilogue;
  apply(net_.patch_embed, LinearInput<T>{scratch.wide, {}}, patches, x, dim_,
        adds ? Epilogue::add : Epilogue::store, outputs);
  if (adds) return;
  norm(net_.patch_norm, patches, x);
  add(position, patches * dim_, x);
}

template void StreamingExecutor<float>::make_overviews(const float*, std::int64_t);
template void StreamingExecutor<float>::embed(const float*, const Tile&, Scratch&,
                                              const kernels::linear::Outputs&);
template void StreamingExecutor<kernels::BFloat16>::make_overviews(const float*, std::int64_t);
template void StreamingExecutor<kernels::BFloat16>::embed(const float*, const Tile&, Scratch&,
                                                          const kernels::linear::Outputs&);

}  // namespace hydrascope::model::inference
