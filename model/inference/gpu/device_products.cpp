#include "model/inference/gpu/device_products.h"

namespace hydrascope::model::inference {

namespace lt = kernels::linear::cuda;

lt::ProductShape ProductCall::shape(lt::ProductType type) const {
  lt::ProductShape shape;
  const bool is_float = linear->weight.scalar_type() == at::kFloat;
  shape.type = is_float && type != lt::ProductType::tf32 ? lt::ProductType::float32 : type;
  shape.in = linear->in();
  shape.out = linear->out();
  shape.x_stride = shape.in;
  shape.y_stride = shape.out;
  shape.add = c != nullptr;
  shape.c_stride = shape.add ? shape.out : 0;
  shape.gelu = gelu && !gelu_apart();
  // Images whose rows follow each other are one matrix.
  const bool together = x_image_stride == rows * shape.in && y_image_stride == rows * shape.out &&
                        (!shape.add || c_image_stride == y_image_stride);
  shape.rows = together ? images * rows : rows;
  const bool one_c = shape.add && c_image_stride == 0;  // for all images
  if (!together && rows == 1 && !one_c) {  // a row of each image: a matrix of long strides
    shape.rows = images;
    shape.x_stride = x_image_stride;
    shape.y_stride = y_image_stride;
    shape.c_stride = shape.add ? c_image_stride : 0;
  } else if (!together && images > 1) {
    shape.batch = images;
    shape.x_batch_stride = x_image_stride;
    shape.y_batch_stride = y_image_stride;
    shape.c_batch_stride = c_image_stride;
  }
  shape.x_alignment = x_alignment > 0 ? x_alignment : lt::alignment_of(x);
  shape.weight_alignment = lt::alignment_of(linear->weight.const_data_ptr());
  shape.bias_alignment = lt::alignment_of(linear->bias.const_data_ptr());
  shape.y_alignment = lt::alignment_of(y);
  shape.c_alignment = lt::alignment_of(shape.add ? c : y);
  return shape;
}

}  // namespace hydrascope::model::inference
