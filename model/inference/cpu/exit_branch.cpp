#include "model/inference/cpu/exit_branch.h"

#include "kernels/layer_norm/layer_norm.h"
#include "kernels/softmax_attention/few_queries.h"
#include "kernels/vector/arrays.h"

#include <algorithm>
#include <utility>

namespace hydrascope::model::inference {
namespace {

using kernels::linear::Epilogue;
using kernels::softmax_attention::kPartKeys;
using kernels::softmax_attention::part_size;

/// Parts of an image's keys: the class token, and the others.
std::int64_t parts_of(std::int64_t num_tokens) {
  return 1 + (num_tokens - 1 + kPartKeys - 1) / kPartKeys;
}

/// The memory of a call, (rows, features) each.
struct Room {
  float* tokens;   ///< (images, D): the class tokens
  float* rows;     ///< (images, D)
  float* queries;  ///< (images, D)
  float* asked;    ///< (images, H, D): W_k^T q
  float* means;    ///< (H, D): sum_j p_j y_j
  float* values;   ///< (H, D)
  float* hidden;   ///< (images, hidden)
  float* keys;     ///< (kPartKeys, D): y
  float* parts;
};

/// Cuts the memory, and counts it; of null it only counts.
std::pair<Room, std::size_t> cut(const PackedNetwork& net, std::int64_t num_tokens, float* memory) {
  const std::int64_t dim = net.embed_dim;
  const std::int64_t heads = net.num_heads;
  kernels::Arrays arrays(memory);
  const auto take = [&](std::int64_t rows, std::int64_t width) {
    return arrays.take<float>(rows * width);
  };
  Room room{};
  room.tokens = take(kExitImages, dim);
  room.rows = take(kExitImages, dim);
  room.queries = take(kExitImages, dim);
  room.asked = take(kExitImages * heads, dim);
  room.means = take(heads, dim);
  room.values = take(heads, dim);
  room.hidden = take(kExitImages, net.hidden_dim);
  room.keys = take(kPartKeys, dim);
  room.parts = take(parts_of(num_tokens), static_cast<std::int64_t>(part_size(heads, 1, dim)));
  return {room, arrays.bytes() / sizeof(float)};
}

void layer_norm(const PackedNetwork& net, const float* x, std::int64_t rows, const float* weight,
                const float* bias, float* y) {
  kernels::layer_norm::layer_norm(kernels::layer_norm::LayerNormParams<float>{
      x, net.embed_dim, rows, net.embed_dim, weight, bias, net.layer_norm_eps, y, net.embed_dim,
      net.rms_norm});
}

/// sum_j p_j y_j of each head over the class token's row `own` and the other tokens -> room.means.
template <class T>
void average(const PackedNetwork& net, const T* others, std::int64_t count, const float* own,
             const float* asked, bool keys_are_there, const Room& room) {
  const std::int64_t dim = net.embed_dim;
  const std::int64_t heads = net.num_heads;
  const auto size = static_cast<std::int64_t>(part_size(heads, 1, dim));
  float* part = room.parts;
  const auto attend = [&](const float* rows, std::int64_t keys) {
    kernels::softmax_attention::attend_part(kernels::softmax_attention::PartParams<float>{
        {keys, 1, dim}, asked, dim, heads, rows, rows, dim, nullptr, nullptr, part});
    part += size;
  };
  attend(own, 1);
  for (std::int64_t first = 0; first < count; first += kPartKeys) {
    const std::int64_t keys = std::min(kPartKeys, count - first);
    if (!keys_are_there) {
      const T* const from = others + first * dim;
      for (std::int64_t i = 0; i < keys * dim; ++i) room.keys[i] = static_cast<float>(from[i]);
      layer_norm(net, room.keys, keys, nullptr, nullptr, room.keys);
    }
    attend(room.keys, keys);
  }
  kernels::softmax_attention::merge_parts(kernels::softmax_attention::MergeParams<float>{
      1, dim, heads, room.parts, size, (part - room.parts) / size, room.means, dim});
}

template <class T>
void run_block(const PackedNetwork& net, const PackedClassBlock& block, const T* tokens,
               std::int64_t images, std::int64_t num_tokens, bool keys_are_there,
               const Room& room) {
  const std::int64_t dim = net.embed_dim;
  const std::int64_t heads = net.num_heads;
  const std::int64_t width = dim / heads;
  const auto of = [](const float* rows) { return LinearInput<float>{rows, {}}; };
  layer_norm(net, room.tokens, images, nullptr, nullptr, room.rows);
  apply(block.query, of(room.rows), images, room.queries, dim, Epilogue::store);
  for (std::int64_t h = 0; h < heads; ++h) {
    const PackedLinear& key = block.keys[static_cast<std::size_t>(h)];
    kernels::linear::linear(kernels::linear::LinearParams<float>{
        room.queries + h * width, dim, images, &key.weight, key.bias.data(), room.asked + h * dim,
        heads * dim, Epilogue::store});
  }
  for (std::int64_t image = 0; image < images; ++image) {
    float* const own = room.rows + image * dim;
    average(net, tokens + (image * num_tokens + 1) * dim, num_tokens - 1, own,
            room.asked + image * heads * dim, keys_are_there, room);
    // The values of all heads' means, of which each head needs its own.
    apply(block.value, of(room.means), heads, room.values, dim, Epilogue::store);
    for (std::int64_t h = 0; h < heads; ++h)
      std::copy_n(room.values + h * (dim + width), width, own + h * width);
  }
  apply(block.proj, of(room.rows), images, room.tokens, dim, Epilogue::add);
  layer_norm(net, room.tokens, images, nullptr, nullptr, room.rows);
  apply(block.fc1, of(room.rows), images, room.hidden, net.hidden_dim,
        net.gelu ? Epilogue::store : Epilogue::gelu);
  if (net.gelu)
    kernels::gelu::sigmoid_gelu(kernels::gelu::SigmoidGeluParams<float>{
        room.hidden, images * net.hidden_dim, *net.gelu, room.hidden});
  apply(block.fc2, of(room.hidden), images, room.tokens, dim, Epilogue::add);
}

}  // namespace

template <class T>
void run_exit(const PackedNetwork& network, std::int64_t layer, const T* tokens,
              std::int64_t images, std::int64_t num_tokens, float* memory, const ExitRows& found) {
  const PackedExits& exits = network.exits;
  const std::int64_t dim = network.embed_dim;
  const Room room = cut(network, num_tokens, memory).first;
  for (std::int64_t image = 0; image < images; ++image) {
    const T* const from = tokens + image * num_tokens * dim;
    for (std::int64_t i = 0; i < dim; ++i)
      room.tokens[image * dim + i] = static_cast<float>(from[i]);
  }
  const auto first = static_cast<std::size_t>(layer - exits.layers.front());
  for (std::size_t block = first; block < exits.blocks.size(); ++block) {
    // One part of one image's keys serves all blocks.
    const bool keys_are_there = block > first && images == 1 && parts_of(num_tokens) == 2;
    run_block(network, exits.blocks[block], tokens, images, num_tokens, keys_are_there, room);
  }
  layer_norm(network, room.tokens, images, exits.norm.weight.data(), exits.norm.bias.data(),
             found.features);
  const LinearInput<float> features{found.features, {}};
  apply(exits.classifier, features, images, found.logits, network.num_classes, Epilogue::store);
  apply(exits.stop, features, images, found.stop, 1, Epilogue::store);
}

std::size_t exit_room(const PackedNetwork& network, std::int64_t num_tokens) {
  if (network.exits.blocks.empty()) return 0;
  return cut(network, num_tokens, nullptr).second;
}

template void run_exit(const PackedNetwork&, std::int64_t, const float*, std::int64_t, std::int64_t,
                       float*, const ExitRows&);
template void run_exit(const PackedNetwork&, std::int64_t, const kernels::BFloat16*, std::int64_t,
                       std::int64_t, float*, const ExitRows&);

}  // namespace hydrascope::model::inference
