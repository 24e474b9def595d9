#include "model/training/training_state.h"

#include "kernels/file_place.h"
#include "kernels/limits.h"
#include "kernels/number_text.h"
#include "model/checkpoint/checkpoint.h"
#include "model/vision_transformer.h"

#include <ATen/ATen.h>

#include <algorithm>
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
constexpr std::string_view kBestPrefix = "best-";
constexpr std::string_view kStepField = "training.step";

struct TypePair {
  checkpoint::Dtype file;
  at::ScalarType memory;
};
constexpr TypePair kTypes[] = {{checkpoint::Dtype::F32, at::kFloat},
                               {checkpoint::Dtype::F64, at::kDouble},
                               {checkpoint::Dtype::I64, at::kLong}};

}  // namespace

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

namespace {

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

/// N of "step-N", or of another `prefix`, with `ending` after it.
std::optional<std::int64_t> step_of(const std::string& name, std::string_view prefix,
                                    std::string_view ending) {
  if (!name.starts_with(prefix) || !name.ends_with(ending)) return std::nullopt;
  if (name.size() < prefix.size() + ending.size()) return std::nullopt;
  return parse_number<std::int64_t>(
      std::string_view(name).substr(prefix.size(), name.size() - prefix.size() - ending.size()));
}

/// The steps that have a file with that ending, newest first.
std::vector<std::int64_t> steps_in(const fs::path& folder, std::string_view ending = kState,
                                   std::string_view prefix = kStepPrefix) {
  std::vector<std::int64_t> steps;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored))
    if (const auto step = step_of(entry.path().filename().string(), prefix, ending))
      steps.push_back(*step);
  std::ranges::sort(steps, std::greater());
  return steps;
}

fs::path file_of(const fs::path& folder, std::int64_t step, std::string_view ending) {
  return folder / (std::string(kStepPrefix) + std::to_string(step) + std::string(ending));
}

/// Steps of the best weights, newest first.
std::vector<std::int64_t> bests_in(const fs::path& folder) {
  return steps_in(folder, kWeights, kBestPrefix);
}

fs::path best_file_of(const fs::path& folder, std::int64_t step) {
  return folder / (std::string(kBestPrefix) + std::to_string(step) + std::string(kWeights));
}

void remove_state(const fs::path& folder, std::int64_t step) {
  std::error_code ignored;  // the state goes first: a state without weights would be an error later
  fs::remove(file_of(folder, step, kState), ignored);
  fs::remove(file_of(folder, step, kWeights), ignored);
}

/// Gives `from` the further name `name`, at once; copies if the file system has no links.
void link_file(const fs::path& from, const fs::path& name) {
  const fs::path to = end_of_links(name);
  const fs::path temporary = to.string() + ".new";
  std::error_code error;
  fs::remove(temporary, error);
  fs::create_hard_link(from, temporary, error);
  if (error) fs::copy_file(from, temporary, fs::copy_options::overwrite_existing, error);
  if (!error) fs::rename(temporary, to, error);
  // Renaming a link to another link of the same file does nothing.
  std::error_code ignored;
  fs::remove(temporary, ignored);
  if (error) throw unwritable("cannot be written", name.string(), error.value());
}

}  // namespace

StateFolder::StateFolder(fs::path folder, int recent)
    : folder_(std::move(folder)), recent_(std::max(1, recent)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) {
    throw Error(ErrorCode::unwritable, "the folder cannot be created: " + error.message(),
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
  name_best();
  forget_all_but(static_cast<std::size_t>(recent_), state.step);
}

void StateFolder::clear() { forget_all_but(0); }

void StateFolder::keep_only(std::int64_t step) {
  forget_all_but(0, step);
  const std::vector<std::int64_t> bests = bests_in(folder_);
  std::error_code ignored;
  if (!bests.empty())
    fs::rename(best_file_of(folder_, bests.front()), best_file_of(folder_, step), ignored);
}

void StateFolder::forget_all_but(std::size_t recent, std::optional<std::int64_t> written) {
  const std::vector<std::int64_t> steps = steps_in(folder_);
  for (std::size_t i = recent; i < steps.size(); ++i)
    if (steps[i] != written) remove_state(folder_, steps[i]);
  // Weights whose state a kill prevented.
  for (const std::int64_t step : steps_in(folder_, kWeights))
    if (std::error_code ignored; !fs::exists(file_of(folder_, step, kState), ignored))
      remove_state(folder_, step);
  // Best weights to which no state would go back.
  std::vector<std::int64_t> kept = steps_in(folder_);
  bool is_newest = !kept.empty();
  for (const std::int64_t best : bests_in(folder_)) {
    const bool is_known =
        std::erase_if(kept, [&](std::int64_t state) { return state >= best; }) > 0;
    if (!std::exchange(is_newest, false) && !is_known) {
      std::error_code ignored;
      fs::remove(best_file_of(folder_, best), ignored);
    }
  }
}

void StateFolder::forget_after(std::int64_t step) {
  // A run that was killed right after its state has not named its weights.
  const fs::path weights = file_of(folder_, step, kWeights);
  if (std::error_code ignored; fs::exists(weights, ignored))
    link_file(weights, folder_ / "last.safetensors");
  for (const std::int64_t later : steps_in(folder_))
    if (later > step) remove_state(folder_, later);
  for (const std::int64_t best_step : bests_in(folder_)) {
    if (best_step <= step) return link_file(best_file_of(folder_, best_step), best());
    std::error_code ignored;
    fs::remove(best_file_of(folder_, best_step), ignored);
    fs::remove(best(), ignored);
  }
}

void StateFolder::save_best(const VisionTransformerImpl& model, const checkpoint::Metadata& about,
                            std::int64_t step) {
  const fs::path weights = best_file_of(folder_, step);
  checkpoint::save_checkpoint(weights, model, checkpoint::Dtype::F32, about);
  unnamed_best_ = step;
  if (newest()) name_best();
}

void StateFolder::name_best() {
  if (!unnamed_best_) return;
  link_file(best_file_of(folder_, *unnamed_best_), best());
  unnamed_best_.reset();
}

std::optional<fs::path> newest_state(const fs::path& folder) {
  const std::vector<std::int64_t> steps = steps_in(folder);
  if (steps.empty()) return std::nullopt;
  return file_of(folder, steps.front(), kState);
}

TrainingState load_training_state(const fs::path& file, VisionTransformerImpl& model,
                                  const std::optional<std::string>& identity) {
  std::string stem = file.string();
  for (const std::string_view ending : {kState, kWeights}) {
    if (!stem.ends_with(ending)) continue;
    stem.resize(stem.size() - ending.size());
    break;
  }
  const auto contents = checkpoint::SafetensorsFile::open(stem + std::string(kState));
  TrainingState state;
  state.fields = contents.metadata();
  state.step = integer_field(state.fields, std::string(kStepField), file.string());
  if (state.step < 0)
    throw Error(ErrorCode::decode_failed, "the state is of a step below 0", file.string());
  state.fields.erase(std::string(kStepField));
  if (identity) require_same_run(*identity, state.fields[kIdentityField], file.string());
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
