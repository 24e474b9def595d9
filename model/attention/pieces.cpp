#include "model/attention/pieces.h"

#include "model/attention/compute_type.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace hydrascope::model {
namespace {

using at::Tensor;

constexpr std::int64_t kPieceBytes = std::int64_t{64} << 20;

/// of(first, count) for as many of `size` things as fit, each of `elements` like x.
void for_pieces(std::int64_t size, std::int64_t elements, const Tensor& x,
                const std::function<void(std::int64_t first, std::int64_t count)>& of) {
  const auto bytes = elements * static_cast<std::int64_t>(c10::elementSize(compute_type(x)));
  const std::int64_t most =
      std::max<std::int64_t>(1, kPieceBytes / std::max<std::int64_t>(1, bytes));
  for (std::int64_t first = 0; first < size; first += most) of(first, std::min(most, size - first));
}

Tensor joined(const std::vector<Tensor>& parts) {
  return parts.size() == 1 ? parts.front() : at::cat(parts, 1);
}

}  // namespace

Tensor rows_in_pieces(const Tensor& q,
                      const std::function<Tensor(std::int64_t first, std::int64_t count)>& rows) {
  std::vector<Tensor> parts;
  for_pieces(q.size(2), q.size(0) * q.size(1) * q.size(2), q,
             [&](std::int64_t first, std::int64_t count) { parts.push_back(rows(first, count)); });
  return joined(parts);
}

Tensor attend_in_pieces(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& queries,
                        const Tensor& keys, std::int64_t num_maps, const AttendGroups& attend) {
  const std::int64_t n = queries.size(1);
  const std::int64_t m = keys.size(1);
  const Tensor of_queries = queries.to(q.device());
  const Tensor of_keys = keys.to(q.device());
  std::vector<Tensor> parts;
  const std::int64_t elements =
      q.size(0) * q.size(2) * (2 * n * q.size(3) + m * (k.size(3) + v.size(3)) + num_maps * n * m);
  for_pieces(queries.size(0), elements, q, [&](std::int64_t first, std::int64_t count) {
    const auto taken = [&](const Tensor& x, const Tensor& index) {
      const Tensor rows = index.narrow(0, first, count);
      return x.index_select(1, rows.flatten()).unflatten(1, rows.sizes()).transpose(2, 3);
    };
    const Tensor y =
        attend(taken(q, of_queries), taken(k, of_keys), taken(v, of_keys), first, count);
    parts.push_back(y.transpose(2, 3).flatten(1, 2));
  });
  return joined(parts);
}

Tensor in_token_order(const std::vector<Tensor>& parts, const std::vector<Tensor>& tokens,
                      std::int64_t num_tokens) {
  const Tensor places = at::cat(tokens);
  const Tensor part_of = at::zeros({num_tokens}, places.options())
                             .scatter_(0, places, at::arange(places.numel(), places.options()));
  return at::cat(parts, 1).index_select(1, part_of.to(parts.front().device()));
}

}  // namespace hydrascope::model
