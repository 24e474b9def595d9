// Queries, keys and values on the device, and what linear attention makes of them there.
#pragma once

#include "kernels/linear_attention/geometry.h"
#include "kernels/linear_attention/linear_attention_cuda.h"
#include "tests/kernels/linear_attention/linear_attention_reference.h"
#include "tests/kernels/token_rows.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace hydrascope::kernels::test {

namespace la = linear_attention;
namespace cuda = linear_attention::cuda;
using la::Feature;
using la::kAllFeatures;
using la::name_of;
using la::Normaliser;
using la::shape_of;

inline std::size_t to_size(std::int64_t count) { return static_cast<std::size_t>(count); }

template <class T>
struct Problem {
  la::Shape shape;
  cuda::Extent extent;
  TokenRows<T> q, k, v, y;
  std::vector<float> state;

  Problem(const la::Shape& shape_, std::int64_t images, std::int64_t tokens,
          Fill how = Fill::normal, std::optional<std::int64_t> queries = {})
      : shape(shape_),
        extent{images, tokens, queries.value_or(tokens), {}},
        q(images, extent.queries, shape.num_heads * shape.width, Layout::packed, how, 1),
        k(images, tokens, shape.num_heads * shape.width, Layout::packed, how, 2),
        v(images, tokens, shape.num_heads * shape.head_dim, Layout::packed, how, 3),
        y(images, extent.queries, v.dim(), Layout::packed) {}

  void run() {
    for (TokenRows<T>* rows : {&q, &k, &v}) rows->upload();
    DeviceArray<float> on_device(cuda::state_floats(shape, extent));
    DeviceArray<float> workspace(cuda::workspace_bytes(shape, extent) / sizeof(float));
    cuda::forward<T>({shape, extent, q.read(), k.read(), v.read(), y.write(), on_device.data(),
                      workspace.data()},
                     nullptr);
    y.download("y");
    state = on_device.download();
    EXPECT_TRUE(on_device.intact() && workspace.intact());
  }

  /// Makes image 0 what image b of another problem is.
  void take(Problem& from, std::int64_t b) {
    for (const auto rows : {&Problem::q, &Problem::k, &Problem::v})
      (this->*rows).take(from.*rows, b);
  }

  [[nodiscard]] la::Tokens<T> tokens(std::int64_t b) const {
    return {shape,      q.host_of(b), q.stride(), extent.queries, k.host_of(b),
            k.stride(), v.host_of(b), v.stride(), extent.tokens,  extent.weights};
  }
};

}  // namespace hydrascope::kernels::test
