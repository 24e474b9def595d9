// Every kernel's grid and blocks are legal for every model, image size and batch of the table.
#include "kernels/device/geometry.h"
#include "kernels/hydra/hydra_cuda.h"
#include "kernels/layer_norm/layer_norm_cuda.h"
#include "kernels/linear_attention/geometry.h"
#include "kernels/patchify/patchify_cuda.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace hydrascope::kernels::test {
namespace {

namespace tensor_core = linear_attention::cuda;

struct Model {
  const char* name;
  std::int64_t dim;
  std::int64_t heads;
};
constexpr Model kModels[] = {
    {"Ti", 192, 3}, {"S", 384, 6}, {"B", 768, 12}, {"L", 1024, 16}, {"H", 1280, 16}};
struct Size {
  std::int64_t height;
  std::int64_t width;
  std::int64_t patch;
};
constexpr Size kSizes[] = {{224, 224, 16},  {224, 224, 8},    {224, 224, 14},   {224, 224, 32},
                           {384, 384, 16},  {512, 512, 16},   {1024, 1024, 16}, {1088, 1920, 16},
                           {1088, 1920, 8}, {1064, 1918, 14}, {2160, 3840, 16}, {4320, 7680, 16}};
constexpr std::int64_t kBatches[] = {1, 2, 8, 64, 256};

void expect_legal(const device::Geometry& geometry, const std::string& what) {
  EXPECT_EQ(device::illegal(geometry), "") << what;
}

TEST(LaunchGeometry, IsLegalForEveryModelSizeAndBatch) {
  for (const Model& model : kModels) {
    for (const auto& [height, width, patch] : kSizes) {
      for (const std::int64_t images : kBatches) {
        const std::int64_t rows = height / patch;
        const std::int64_t columns = width / patch;
        const std::int64_t tokens = 1 + rows * columns;
        const std::string where = std::string(model.name) + ", " + std::to_string(height) + "x" +
                                  std::to_string(width) + ", batch " + std::to_string(images);
        const linear_attention::Shape shape{model.heads,
                                            model.dim / model.heads,
                                            model.dim / model.heads,
                                            {linear_attention::Feature::exp_pair}};
        expect_legal(hydra::cuda::project_geometry(images, tokens), "hydra sums, " + where);
        expect_legal(hydra::cuda::rows_geometry(images, tokens), "hydra rows, " + where);
        expect_legal(tensor_core::combine_geometry(shape, images), "combine, " + where);
        expect_legal(tensor_core::state_geometry(images, model.heads, tokens),
                     "tensor-core state, " + where);
        expect_legal(tensor_core::rows_geometry(images, model.heads, tokens),
                     "tensor-core rows, " + where);
        expect_legal(layer_norm::cuda::geometry(images * tokens), "layer_norm, " + where);
        expect_legal(patchify::cuda::pixel_geometry(images, rows, columns, 1), "pixels, " + where);
      }
    }
  }
}

TEST(LaunchGeometry, WhatCudaRefusesIsToldApart) {
  EXPECT_EQ(device::illegal({{1}, {1024}}), "");
  EXPECT_NE(device::illegal({{0}, {1}}), "");
  EXPECT_NE(device::illegal({{1}, {1025}}), "");
  EXPECT_NE(device::illegal({{1}, {32, 33}}), "");
  EXPECT_NE(device::illegal({{1}, {1, 1, 65}}), "");
  EXPECT_NE(device::illegal({{1, 65536}, {1}}), "");
  EXPECT_NE(device::illegal({{std::int64_t{1} << 31}, {1}}), "");
}

TEST(LinearAttentionTensorCoresGeometry, EveryTileHasABlockAndNoPartIsEmpty) {
  for (const std::int64_t tokens : {1, 63, 64, 65, 500, 8161, 100000})
    for (const std::int64_t heads : {1, 3, 12, 300}) {
      const std::int64_t splits = tensor_core::splits_of(tokens, heads);
      EXPECT_LE(splits, tensor_core::tiles_of(tokens));  // none is empty
      for (const std::int64_t images : {1, 7, 4096}) {
        EXPECT_EQ(device::illegal(tensor_core::state_geometry(images, heads, tokens)), "");
        const device::Geometry rows = tensor_core::rows_geometry(images, heads, tokens);
        EXPECT_EQ(device::illegal(rows), "");
        // Every tile has a block, and no block is without a tile.
        const std::int64_t a_block = tensor_core::tiles_a_block(images, heads, tokens);
        const std::int64_t blocks = rows.grid.x / images;
        EXPECT_GE(blocks * a_block, tensor_core::tiles_of(tokens));
        EXPECT_LT((blocks - 1) * a_block, tensor_core::tiles_of(tokens));
      }
    }
}

}  // namespace
}  // namespace hydrascope::kernels::test
