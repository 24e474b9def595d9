#include "model/checkpoint/checkpoint.h"

#include "kernels/error.h"
#include "model/architectures.h"
#include "model/vision_transformer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

namespace hydrascope::checkpoint {
namespace {

namespace fs = std::filesystem;

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + ")";
}

at::ScalarType scalar_type(const TensorView& view) {
  switch (view.dtype) {
    case Dtype::F32: return at::kFloat;
    case Dtype::F16: return at::kHalf;
    case Dtype::BF16: return at::kBFloat16;
    case Dtype::F64: return at::kDouble;
    default:
      throw Error(ErrorCode::unsupported_format,
                  "expected F32, F16, BF16 or F64, found " + std::string(name(view.dtype)),
                  view.name);
  }
}

void copy_into(const TensorView& view, const at::Tensor& target) {
  const at::ScalarType type = scalar_type(view);
  // The format allows any alignment; a tensor over misaligned memory is undefined behaviour.
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(view.data.data()) % size_of(view.dtype) == 0;
  if (aligned) {
    // from_blob wants a mutable pointer but copy_ only reads it; the mapping is read-only.
    auto* data = const_cast<std::byte*>(view.data.data());
    target.copy_(at::from_blob(data, target.sizes(), at::TensorOptions().dtype(type)));
    return;
  }
  const at::Tensor copy = at::empty(target.sizes(), at::TensorOptions().dtype(type));
  std::memcpy(copy.data_ptr(), view.data.data(), view.data.size());
  target.copy_(copy);
}

/// "a, b, c and 7 more": enough names to see the pattern.
std::string join_names(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

fs::path resolve_file(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  for (const char* candidate : {"model.safetensors", "model.safetensors.index.json"}) {
    if (fs::exists(path / candidate, ignored)) return path / candidate;
  }
  throw Error(ErrorCode::not_found, "the folder holds no model.safetensors", path.string());
}

}  // namespace

Checkpoint Checkpoint::open(const fs::path& path) {
  Checkpoint checkpoint;
  checkpoint.file_ = resolve_file(path);
  checkpoint.contents_ = SafetensorsFile::open(checkpoint.file_);
  std::vector<std::string> keys;
  for (const TensorView& view : checkpoint.contents_.tensors()) keys.push_back(view.name);
  const KeyMap& map = detect_key_map(keys, checkpoint.file_.string());
  checkpoint.layout_ = map.name;
  std::set<std::string> seen;
  for (const TensorView& view : checkpoint.contents_.tensors()) {
    const auto renamed = map.rename(view.name);
    if (!renamed) continue;
    if (!seen.insert(*renamed).second) {
      throw Error(ErrorCode::failed, "two tensors stand for " + *renamed,
                  checkpoint.file_.string());
    }
    checkpoint.named_.push_back({*renamed, &view});
  }
  return checkpoint;
}

std::string Checkpoint::metadata(std::string_view key) const {
  const auto found = metadata().find(std::string(key));
  return found == metadata().end() ? "" : found->second;
}

const TensorView* Checkpoint::find(std::string_view name) const {
  const auto found = std::ranges::find(named_, name, &NamedView::name);
  return found == named_.end() ? nullptr : found->view;
}

model::VitConfig Checkpoint::deduce_config() const {
  const std::string subject = file_.string();
  const auto expect_rank = [&](std::string_view tensor, std::size_t rank) -> const TensorView& {
    const TensorView* view = find(tensor);
    if (view == nullptr)
      throw Error(ErrorCode::failed, std::string(tensor) + " is missing", subject);
    if (view->shape.size() != rank) {
      throw Error(ErrorCode::failed,
                  std::string(tensor) + ": expected " + std::to_string(rank) +
                      " dimensions, found " + shape_text(view->shape),
                  subject);
    }
    return *view;
  };

  model::VitConfig config;
  const std::string arch = metadata("arch");
  const bool has_config = metadata().contains(std::string(kConfigKey));
  const auto architecture = model::find_architecture(arch);
  if (has_config) {
    config =
        model::config_from_json(metadata(kConfigKey), subject + ": " + std::string(kConfigKey));
  } else if (architecture) {
    config = architecture->config;
  }

  const TensorView& patch = expect_rank("patch_embed.proj.weight", 4);
  config.embed_dim = patch.shape[0];
  config.in_chans = patch.shape[1];
  if (patch.shape[2] != patch.shape[3]) {
    throw Error(ErrorCode::failed, "patches that are not square: " + shape_text(patch.shape),
                subject);
  }
  config.patch_size = patch.shape[2];
  std::int64_t depth = 0;
  for (const NamedView& item : named_) {
    constexpr std::string_view kPrefix = "blocks.";
    if (!item.name.starts_with(kPrefix)) continue;
    std::int64_t layer = 0;
    std::from_chars(item.name.data() + kPrefix.size(), item.name.data() + item.name.size(), layer);
    // A hostile name must not ask for a million layers; validate() below bounds the rest.
    depth = std::max(depth, std::min<std::int64_t>(layer, 1 << 20) + 1);
  }
  config.depth = depth;
  if (!has_config && !(architecture && architecture->config.embed_dim == config.embed_dim)) {
    // The field's convention: heads of 64 features.
    constexpr std::int64_t kHeadDim = 64;
    if (config.embed_dim % kHeadDim != 0) {
      throw Error(
          ErrorCode::failed,
          "cannot tell the number of heads from embed_dim " + std::to_string(config.embed_dim),
          subject, "name the architecture: --model NAME --checkpoint FILE");
    }
    config.num_heads = config.embed_dim / kHeadDim;
  }
  config.class_token = find("cls_token") != nullptr;
  config.distilled = find("dist_token") != nullptr;
  config.reg_tokens = find("reg_token") != nullptr ? expect_rank("reg_token", 3).shape[1] : 0;
  config.layer_scale = find("blocks.0.ls1.gamma") != nullptr;
  config.fc_norm = find("fc_norm.weight") != nullptr;
  config.qkv_bias = find("blocks.0.attn.qkv.bias") != nullptr;
  if (!config.class_token || config.fc_norm) config.global_pool = model::Pooling::avg;
  config.num_classes = expect_rank("head.weight", 2).shape[0];
  const std::int64_t hidden = expect_rank("blocks.0.mlp.fc1.weight", 2).shape[0];
  config.mlp_ratio = static_cast<double>(hidden) /
                     static_cast<double>(std::max<std::int64_t>(config.embed_dim, 1));

  // pos_embed: with or without slots for the prefix tokens, and for a square grid unless told.
  const std::int64_t length = expect_rank("pos_embed", 3).shape[1];
  const std::int64_t prefix = config.num_prefix_tokens();
  const std::int64_t said = config.patch_size > 0 ? config.grid_rows() * config.grid_columns() : 0;
  const auto square_root = [](std::int64_t value) {
    const auto root = static_cast<std::int64_t>(
        std::llround(std::sqrt(static_cast<double>(std::max<std::int64_t>(value, 0)))));
    return root * root == value && root > 0 ? root : 0;
  };
  if (length == said + prefix || length == said) {
    config.no_embed_class = length == said && prefix > 0;
  } else if (const std::int64_t with_slots = square_root(length - prefix); with_slots > 0) {
    config.no_embed_class = false;
    config.img_height = config.img_width = with_slots * config.patch_size;
  } else if (const std::int64_t patches_only = square_root(length); patches_only > 0) {
    config.no_embed_class = prefix > 0;
    config.img_height = config.img_width = patches_only * config.patch_size;
  } else {
    throw Error(ErrorCode::failed,
                "pos_embed has " + std::to_string(length) +
                    " positions, which is no square grid with or without " +
                    std::to_string(prefix) + " prefix tokens",
                subject, "name the architecture: --model NAME --checkpoint FILE");
  }
  config.arch = arch.empty() ? "vit" : arch;
  if (const std::string attention = metadata("attention"); !has_config && !attention.empty()) {
    if (config.depth < 1 || config.depth > 1024)
      throw Error(ErrorCode::failed, "no blocks found", subject);
    config.attention.assign(static_cast<std::size_t>(config.depth), {});
    model::apply_attention_spec(attention, config.attention);
  }
  model::validate(config);
  // A few bytes of header can claim a model of terabytes; what is there bounds what is built.
  double elements = 0;
  for (const NamedView& item : named_) {
    elements += static_cast<double>(item.view->data.size() / size_of(item.view->dtype));
  }
  const auto dim = static_cast<double>(config.embed_dim);
  const double least = static_cast<double>(config.depth) * dim * dim * (4 + 2 * config.mlp_ratio);
  constexpr double kSlack = 1e8;  // small files with missing tensors still get the list of them
  if (least > 4 * elements + kSlack) {
    throw Error(ErrorCode::failed,
                "its shapes call for " + std::to_string(least) + " parameters, it holds " +
                    std::to_string(elements),
                subject);
  }
  return config;
}

void Checkpoint::load_into(model::VisionTransformerImpl& model) const {
  const at::NoGradGuard no_grad;
  std::map<std::string_view, const TensorView*> available;
  for (const NamedView& item : named_) available.emplace(item.name, item.view);
  std::vector<std::string> missing;
  std::vector<std::string> mismatched;
  std::vector<std::pair<const TensorView*, at::Tensor>> copies;
  for (const auto& [key, tensor] : model::named_tensors(model)) {
    const auto found = available.find(key);
    if (found == available.end()) {
      missing.push_back(key);
      continue;
    }
    const TensorView& view = *found->second;
    available.erase(found);
    if (view.shape != tensor.sizes().vec()) {
      mismatched.push_back(key + " expected " + shape_text(tensor.sizes().vec()) + " found " +
                           shape_text(view.shape));
      continue;
    }
    copies.emplace_back(&view, tensor);
  }
  std::vector<std::string> unexpected;
  for (const auto& [key, view] : available) unexpected.emplace_back(key);
  if (!missing.empty() || !mismatched.empty() || !unexpected.empty()) {
    std::string text = "the file does not fit " + model.config().arch;
    for (const auto& [label, names] : {std::pair{"missing", &missing},
                                       {"unexpected", &unexpected},
                                       {"mismatched", &mismatched}}) {
      if (!names->empty())
        text += "; " + std::to_string(names->size()) + " " + label + ": " + join_names(*names);
    }
    throw Error(ErrorCode::failed, text, file_.string());
  }
  for (const auto& [view, tensor] : copies) copy_into(*view, tensor);
}

void save_checkpoint(const fs::path& file, const model::VisionTransformerImpl& model, Dtype dtype,
                     Metadata metadata) {
  const model::VitConfig& config = model.config();
  metadata["format"] = "pt";
  metadata[std::string(kSchemaKey)] = "1";
  metadata[std::string(kConfigKey)] = model::to_json(config);
  metadata["arch"] = config.arch;
  metadata["attention"] = model::to_text(config.attention);
  metadata["img_size"] =
      config.img_height == config.img_width
          ? std::to_string(config.img_height)
          : std::to_string(config.img_height) + "x" + std::to_string(config.img_width);
  metadata["num_classes"] = std::to_string(config.num_classes);
  metadata.try_emplace("created_by", "hydrascope");
  TensorView probe;
  probe.name = "dtype";
  probe.dtype = dtype;
  const at::ScalarType type = scalar_type(probe);
  std::vector<at::Tensor> kept;  // owns what the views point to
  std::vector<TensorView> views;
  for (const auto& [key, tensor] : model::named_tensors(model)) {
    kept.push_back(tensor.detach().to(at::kCPU, type).contiguous());
    const at::Tensor& value = kept.back();
    views.push_back({key,
                     dtype,
                     value.sizes().vec(),
                     {static_cast<const std::byte*>(value.const_data_ptr()), value.nbytes()}});
  }
  write_safetensors(file, views, metadata);
}

}  // namespace hydrascope::checkpoint
