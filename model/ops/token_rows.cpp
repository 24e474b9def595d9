#include "model/ops/token_rows.h"

#include <ATen/ATen.h>

namespace hydrascope::model {

using at::Tensor;

Tensor merge_heads(const Tensor& x) { return x.transpose(1, 2).flatten(2); }

Tensor split_heads(const Tensor& x, std::int64_t num_heads) {
  return x.unflatten(2, {num_heads, -1}).transpose(1, 2);
}

Tensor weighted(const Tensor& x, const TokenWeights& weights) {
  if (weights.all_one()) return x;
  const std::int64_t count = x.size(-2);
  Tensor of_token = at::full({count, 1}, weights.patch, x.options().requires_grad(false));
  of_token.narrow(0, 0, std::clamp<std::int64_t>(weights.num_prefix, 0, count))
      .fill_(weights.prefix);
  return x * of_token;
}

}  // namespace hydrascope::model

namespace hydrascope::model::ops {

using at::Tensor;

Tensor with_token_rows(const Tensor& x) {
  const bool values_adjoin = x.size(3) <= 1 || x.stride(3) == 1;
  const bool heads_adjoin = x.size(1) <= 1 || x.stride(1) == x.size(3);
  return values_adjoin && heads_adjoin ? x : x.transpose(1, 2).contiguous().transpose(1, 2);
}

Tensor with_packed_rows(const Tensor& x) {
  const Tensor rows = with_token_rows(x);
  constexpr std::int64_t kPack = 16;
  const auto size = static_cast<std::int64_t>(rows.element_size());
  const bool aligned = reinterpret_cast<std::uintptr_t>(rows.const_data_ptr()) % kPack == 0 &&
                       token_stride(rows) * size % kPack == 0 && rows.stride(0) * size % kPack == 0;
  return aligned ? rows : empty_token_rows(rows).copy_(rows);
}

Tensor empty_token_rows(const Tensor& x, const c10::SymInt& head_dim) {
  const c10::SymInt heads = x.sym_size(1);
  const c10::SymInt tokens = x.sym_size(2);
  const c10::SymInt row = heads * head_dim;
  return at::empty_strided_symint({x.sym_size(0), heads, tokens, head_dim},
                                  {tokens * row, head_dim, row, 1}, x.options());
}

Tensor empty_token_rows(const Tensor& x) { return empty_token_rows(x, x.sym_size(3)); }

std::int64_t token_stride(const Tensor& x) {
  // A single token's stride means nothing, but kernels compare the strides of k and v.
  return x.size(2) <= 1 ? x.size(1) * x.size(3) : x.stride(2);
}

void check_tokens(const char* op, const Tensor& q, const Tensor& k, const Tensor& v, bool one_width,
                  std::int64_t num_prefix) {
  TORCH_CHECK(q.dim() == 4, "hydrascope::", op, ": q has shape ", q.sym_sizes(),
              ", expected (batch, heads, tokens, head_dim)");
  const auto same_kind = [&](const Tensor& x, const char* name) {
    TORCH_CHECK(x.scalar_type() == q.scalar_type(), "hydrascope::", op, ": ", name, " is ",
                x.scalar_type(), ", expected q's ", q.scalar_type());
    TORCH_CHECK(x.device() == q.device(), "hydrascope::", op, ": ", name, " is on ", x.device(),
                ", expected q's ", q.device());
  };
  same_kind(k, "k");
  same_kind(v, "v");
  TORCH_CHECK(k.sym_sizes() == q.sym_sizes(), "hydrascope::", op, ": k has shape ", k.sym_sizes(),
              ", expected q's ", q.sym_sizes());
  TORCH_CHECK(v.dim() == 4 && (one_width ? v.sym_sizes() : v.sym_sizes().slice(0, 3)) ==
                                  (one_width ? q.sym_sizes() : q.sym_sizes().slice(0, 3)),
              "hydrascope::", op, ": v has shape ", v.sym_sizes(), ", expected ",
              one_width ? "q's " : "but for the last size that of q, ", q.sym_sizes());
  TORCH_CHECK(num_prefix >= 0 && (num_prefix == 0 || k.sym_size(2) >= num_prefix),
              "hydrascope::", op, ": num_prefix is ", num_prefix,
              ", expected 0 to the number of tokens, ", k.sym_size(2));
  switch (q.scalar_type()) {
    case at::kFloat:
    case at::kDouble:
    case at::kBFloat16:
    case at::kHalf: return;
    default:
      TORCH_CHECK(false, "hydrascope::", op, ": q is ", q.scalar_type(),
                  ", expected Float, Double, BFloat16 or Half");
  }
}

}  // namespace hydrascope::model::ops
