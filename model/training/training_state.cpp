#include "model/training/training_state.h"

#include "kernels/error.h"
#include "model/checkpoint/checkpoint.h"
#include "model/vision_transformer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

namespace hydrascope::model::training {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWeights = ".safetensors";
constexpr std::string_view kState = ".state.safetensors";
constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kStepField = "training.step";

struct TypePair {
  checkpoint::Dtype file;
  at::ScalarType memory;
};
constexpr TypePair kTypes[] = {{checkpoint::Dtype::F32, at::kFloat},
                               {checkpoint::Dtype::F64, at::kDouble},
                               {checkpoint::Dtype::I64, at::kLong}};

void write_tensors(const fs::path& file, const NamedTensors& tensors,
                   const checkpoint::Metadata& metadata) {
  std::vector<at::Tensor> values;
  std::vector<checkpoint::TensorView> views;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor& value = values.emplace_back(tensor.detach().cpu().contiguous());
    const auto* type = std::ranges::find(kTypes, value.scalar_type(), &TypePair::memory);
    if (type == std::end(kTypes)) {
      throw Error(ErrorCode::internal,
                  std::string("a training state holds no ") + c10::toString(value.scalar_type()),
                  name);
    }
    views.push_back({name,
                     type->file,
                     value.sizes().vec(),
                     {static_cast<const std::byte*>(value.const_data_ptr()), value.nbytes()}});
  }
  checkpoint::write_safetensors(file, views, metadata);
}

NamedTensors read_tensors(const checkpoint::SafetensorsFile& file) {
  NamedTensors tensors;
  for (const checkpoint::TensorView& view : file.tensors()) {
    const auto* type = std::ranges::find(kTypes, view.dtype, &TypePair::file);
    if (type == std::end(kTypes)) {
      throw Error(ErrorCode::unsupported_format,
                  "a training state holds no " + std::string(checkpoint::name(view.dtype)),
                  view.name);
    }
    at::Tensor value = at::empty(view.shape, type->memory);
    // The file's bytes may be unaligned.
    std::memcpy(value.data_ptr(), view.data.data(), view.data.size());
    tensors.emplace_back(view.name, std::move(value));
  }
  return tensors;
}

/// N of "step-N.state.safetensors".
std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kStepPrefix) || !name.ends_with(kState)) return std::nullopt;
  const char* first = name.data() + kStepPrefix.size();
  const char* last = name.data() + name.size() - kState.size();
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(first, last, step);
  if (error != std::errc() || end != last) return std::nullopt;
  return step;
}

/// Newest first.
std::vector<std::int64_t> steps_in(const fs::path& folder) {
  std::vector<std::int64_t> steps;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored))
    if (const auto step = step_of(entry.path().filename().string())) steps.push_back(*step);
  std::ranges::sort(steps, std::greater());
  return steps;
}

fs::path file_of(const fs::path& folder, std::int64_t step, std::string_view ending) {
  return folder / (std::string(kStepPrefix) + std::to_string(step) + std::string(ending));
}

/// `to` becomes another name of `from`, at once; a copy where the file system has no such thing.
void link_file(const fs::path& from, const fs::path& to) {
  const fs::path temporary = to.string() + ".new";
  std::error_code error;
  fs::remove(temporary, error);
  fs::create_hard_link(from, temporary, error);
  if (error) fs::copy_file(from, temporary, fs::copy_options::overwrite_existing, error);
  if (!error) fs::rename(temporary, to, error);
  if (error)
    throw Error(ErrorCode::unreadable, "cannot be written: " + error.message(), to.string());
}

}  // namespace

StateFolder::StateFolder(fs::path folder, int recent)
    : folder_(std::move(folder)), recent_(std::max(1, recent)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) {
    throw Error(ErrorCode::unreadable, "the folder cannot be created: " + error.message(),
                folder_.string());
  }
}

void StateFolder::save(const VisionTransformerImpl& model, const checkpoint::Metadata& about,
                       const TrainingState& state) {
  const fs::path weights = file_of(folder_, state.step, kWeights);
  checkpoint::save_checkpoint(weights, model, checkpoint::Dtype::F32, about);
  checkpoint::Metadata fields = state.fields;
  fields[std::string(kStepField)] = std::to_string(state.step);
  write_tensors(file_of(folder_, state.step, kState), state.tensors, fields);
  link_file(weights, folder_ / "last.safetensors");
  forget_all_but(static_cast<std::size_t>(recent_));
}

void StateFolder::clear() { forget_all_but(0); }

void StateFolder::forget_all_but(std::size_t recent) {
  const std::vector<std::int64_t> steps = steps_in(folder_);
  for (std::size_t i = recent; i < steps.size(); ++i) {
    std::error_code ignored;  // the state first: one without weights would be an error later
    fs::remove(file_of(folder_, steps[i], kState), ignored);
    fs::remove(file_of(folder_, steps[i], kWeights), ignored);
  }
}

void StateFolder::save_best(const VisionTransformerImpl& model, const checkpoint::Metadata& about) {
  checkpoint::save_checkpoint(best(), model, checkpoint::Dtype::F32, about);
}

std::optional<fs::path> StateFolder::newest() const {
  const std::vector<std::int64_t> steps = steps_in(folder_);
  if (steps.empty()) return std::nullopt;
  return file_of(folder_, steps.front(), kState);
}

TrainingState load_training_state(const fs::path& file, VisionTransformerImpl& model) {
  std::string stem = file.string();
  for (const std::string_view ending : {kState, kWeights}) {
    if (!stem.ends_with(ending)) continue;
    stem.resize(stem.size() - ending.size());
    break;
  }
  const auto contents = checkpoint::SafetensorsFile::open(stem + std::string(kState));
  TrainingState state;
  state.fields = contents.metadata();
  const auto step = state.fields.find(std::string(kStepField));
  if (step == state.fields.end())
    throw Error(ErrorCode::decode_failed, "this is no training state", file.string());
  state.step = std::stoll(step->second);
  state.fields.erase(step);
  state.tensors = read_tensors(contents);
  load_weights(stem + std::string(kWeights), model);
  return state;
}

void load_weights(const fs::path& file, VisionTransformerImpl& model) {
  const auto contents = checkpoint::Checkpoint::open(file);
  const checkpoint::LoadReport report = contents.load_into(model);
  if (!report.initialised.empty() || !report.unused.empty()) {
    const auto& names = report.initialised.empty() ? report.unused : report.initialised;
    throw Error(ErrorCode::failed, "the weights are those of another model: " + names.front(),
                file.string());
  }
}

}  // namespace hydrascope::model::training
