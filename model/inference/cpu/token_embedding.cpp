#include "model/inference/cpu/token_embedding.h"

#include "kernels/patchify/patchify.h"
#include "kernels/resize/resize.h"

#include <algorithm>
#include <cstring>

namespace hydrascope::model::inference {

template <class T>
void make_overviews(const PackedNetwork& network, const float* images, std::int64_t count,
                    Workspace<T>& work, kernels::device::ThreadTeam& team) {
  constexpr std::int64_t kRows = 8;  // neighbours read most of the same rows of the picture
  const kernels::resize::Taps& rows = work.overview_rows;
  const kernels::resize::Taps& columns = work.overview_columns;
  const std::int64_t parts = (rows.to() + kRows - 1) / kRows;
  const auto reduce = [&](std::int64_t item, int thread) {
    const std::int64_t plane = item / parts;
    const std::int64_t first = item % parts * kRows;
    kernels::resize::resize({images + plane * rows.from * columns.from, &rows, &columns, first,
                             std::min(kRows, rows.to() - first),
                             work.overview.data() + plane * rows.to() * columns.to(),
                             work.scratch[static_cast<std::size_t>(thread)].overview});
  };
  team.run(count * network.in_chans * parts, reduce);
}

template <class T>
void embed(const PackedNetwork& network, const ImageGeometry& geometry, const float* images,
           const Tile& t, Workspace<T>& work, Scratch<T>& scratch) {
  const std::int64_t dim = network.embed_dim;
  const std::int64_t prefix = std::clamp<std::int64_t>(network.num_prefix - t.first, 0, t.rows);
  T* x = work.tokens(t);
  std::transform(geometry.prefix.data() + t.first * dim,
                 geometry.prefix.data() + (t.first + prefix) * dim, x,
                 [](float value) { return T(value); });
  if (t.rows == prefix) return;
  x += prefix * dim;
  std::memcpy(x, work.position.data() + (t.first + prefix - network.num_prefix) * dim,
              static_cast<std::size_t>((t.rows - prefix) * dim) * sizeof(T));
  const std::int64_t size = network.patch_size;
  const std::int64_t width = network.patch_dim();
  geometry.for_each_run(
      t.first, t.rows, [&](std::int64_t row, std::int64_t patch, std::int64_t count) {
        const ImageGeometry::Plane plane = geometry.plane_of(patch);
        const float* const tensor = plane.first > 0 ? work.overview.data() : images;
        kernels::patchify::from_tensor(kernels::patchify::TensorParams<T>{
            tensor + t.image * plane.rows * plane.columns * width, network.in_chans,
            plane.rows * size, plane.columns * size, plane.columns, size, patch - plane.first,
            count, scratch.wide + (row - prefix) * width, width});
      });
  apply(network.patch_embed, LinearInput<T>{scratch.wide, {}}, t.rows - prefix, x, dim,
        kernels::linear::Epilogue::add);
}

template void make_overviews(const PackedNetwork&, const float*, std::int64_t, Workspace<float>&,
                             kernels::device::ThreadTeam&);
template void make_overviews(const PackedNetwork&, const float*, std::int64_t,
                             Workspace<kernels::BFloat16>&, kernels::device::ThreadTeam&);
template void embed(const PackedNetwork&, const ImageGeometry&, const float*, const Tile&,
                    Workspace<float>&, Scratch<float>&);
template void embed(const PackedNetwork&, const ImageGeometry&, const float*, const Tile&,
                    Workspace<kernels::BFloat16>&, Scratch<kernels::BFloat16>&);

}  // namespace hydrascope::model::inference
