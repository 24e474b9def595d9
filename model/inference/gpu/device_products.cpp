#include "model/inference/gpu/device_products.h"

#include "kernels/gelu/gelu_cuda.h"

namespace hydrascope::model::inference {

namespace linear = kernels::linear::cuda;
using linear::ProductType;

namespace {

bool gelu_apart(const ProductCall& call) {
  // cuBLASLt has no erf form; in float32 its tanh form would be seen.
  return call.gelu && call.linear->weight.scalar_type() == at::kFloat;
}

}  // namespace

int DeviceProducts::plan(const ProductCall& call) {
  const DeviceLinear& weights = *call.linear;
  linear::ProductShape shape;
  shape.type =
      weights.weight.scalar_type() == weights_.scalar_type() ? weights_.type : ProductType::float32;
  shape.in = weights.in();
  shape.out = weights.out();
  shape.x_stride = shape.in;
  shape.y_stride = shape.out;
  shape.add = call.c != nullptr;
  shape.c_stride = shape.add ? shape.out : 0;
  shape.gelu = call.gelu && !gelu_apart(call);
  // Images whose rows follow each other are one matrix.
  const bool together = call.x_image_stride == call.rows * shape.in &&
                        call.y_image_stride == call.rows * shape.out &&
                        (!shape.add || call.c_image_stride == call.y_image_stride);
  shape.rows = together ? call.images * call.rows : call.rows;
  const bool one_c = shape.add && call.c_image_stride == 0;  // for all images
  if (!together && call.rows == 1 && !one_c) {  // a row of each image: a matrix of long strides
    shape.rows = call.images;
    shape.x_stride = call.x_image_stride;
    shape.y_stride = call.y_image_stride;
    shape.c_stride = shape.add ? call.c_image_stride : 0;
  } else if (!together && call.images > 1) {
    shape.batch = call.images;
    shape.x_batch_stride = call.x_image_stride;
    shape.y_batch_stride = call.y_image_stride;
    shape.c_batch_stride = call.c_image_stride;
  }
  shape.x_alignment = call.x_alignment > 0 ? call.x_alignment : linear::alignment_of(call.x);
  shape.weight_alignment = linear::alignment_of(weights.weight.const_data_ptr());
  shape.bias_alignment = linear::alignment_of(weights.bias.const_data_ptr());
  shape.y_alignment = linear::alignment_of(call.y);
  shape.c_alignment = linear::alignment_of(shape.add ? call.c : call.y);
  return library_.plan(shape);
}

void DeviceProducts::run(int number, const ProductCall& call, const void* x) const {
  library_.run(number, x, call.linear->weight.const_data_ptr(), call.linear->bias.const_data_ptr(),
               call.c, call.y);
}

std::function<void()> DeviceProducts::step(const ProductCall& call) {
  return [this, call, number = plan(call)] {
    run(number, call, call.x);
    if (gelu_apart(call))
      kernels::gelu::cuda::gelu(static_cast<float*>(call.y),
                                call.images * call.rows * call.linear->out(), stream_);
  };
}

}  // namespace hydrascope::model::inference
