#include "app/train/session.h"

#include "app/model/running_model.h"
#include "app/pipeline/predictions.h"
#include "app/run/console.h"
#include "app/run/local_ranks.h"
#include "app/run/output_file.h"
#include "app/run/signal_stop.h"
#include "app/run/terminal_text.h"
#include "app/run/usage_error.h"
#include "app/scores/scores.h"
#include "app/session/session.h"
#include "app/specs/training.h"
#include "kernels/error.h"
#include "model/checkpoint/formats/refused_weights.h"
#include "model/device.h"
#include "model/vision_transformer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <optional>
#include <system_error>
#include <utility>

namespace hydrascope::app {

namespace {

/// The modules under training as an engine of the pipeline.
class ModulesUnderTraining final : public model::inference::Engine {
 public:
  ModulesUnderTraining(model::VisionTransformerImpl& model, c10::Device device,
                       model::training::Autocast autocast)
      : Engine(model.config(), on(device)), model_(model), autocast_(autocast) {
    model_.eval();
  }
  ~ModulesUnderTraining() override { model_.train(); }

  [[nodiscard]] std::int64_t enough_tokens() const noexcept override {
    constexpr std::int64_t kBusyGpu = 32768;
    constexpr std::int64_t kBusyCpu = 4096;
    return options().device.is_cuda() ? kBusyGpu : kBusyCpu;
  }

 private:
  static model::inference::InferenceOptions on(c10::Device device) {
    model::inference::InferenceOptions options;
    options.device = device;
    return options;
  }
  model::inference::EngineOutputs run(const model::inference::ImageBatch& batch) override {
    const at::NoGradGuard no_grad;
    const c10::Device device = options().device;
    const model::training::AutocastScope scope(autocast_, device.type());
    return {model_.forward(batch.stacked().to(device)).to(at::kFloat).cpu(), {}};
  }

  model::VisionTransformerImpl& model_;
  model::training::Autocast autocast_;
};

}  // namespace

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

void check_state(const fs::path& file, const fs::path& folder,
                 const std::optional<fs::path>& newest) {
  const std::string place = "`resume` " + file.string();
  std::error_code ignored;
  if (!fs::exists(file, ignored)) throw NotFound("no such file", place);
  const std::string hint = newest ? "the newest one is " + newest->string() : "";
  if (!file.native().ends_with(".state.safetensors"))
    throw UsageError("expected a state, step-N.state.safetensors", place, hint);
  if (!fs::equivalent(fs::absolute(file).parent_path(), folder, ignored))
    throw UsageError("is no state of the run in " + folder.string(), place,
                     hint.empty() ? "a run goes on in its own folder (-o)" : hint);
}

}  // namespace

void refuse_other_files(const fs::path& folder) {
  std::vector<fs::path> files{folder / "metrics.jsonl",
                              folder / "adapter" / checkpoint::kAdapterConfig,
                              folder / "adapter" / "adapter_model.safetensors"};
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored))
    if (const std::string name = entry.path().filename().string();
        name == "best.safetensors" || name == "last.safetensors" ||
        (name.ends_with(".safetensors") &&
         (name.starts_with("step-") || name.starts_with("best-"))))
      files.push_back(entry.path());
  for (const fs::path& file : files) {
    const bool is_text = file.extension() != ".safetensors";
    refuse_to_replace(file, is_text ? FileKind::companion : FileKind::weights, file.string(),
                      "`force` replaces it");
  }
}

namespace {

// Settings of earlier versions that are constants today. They stay in the identity of a run, so that
// a state that has them as they are goes on, and one with others does not.
constexpr std::string_view kConstants = R"({"aug-repeats": 0, "color-jitter": 0, "mixup-prob": 1,
  "mixup-switch-prob": 0.5, "opt-eps": 1e-8, "ratio": [0.75, 1.3333333333333333], "recount": 1,
  "remode": "pixel", "train-interpolation": "random", "vflip": 0})";
constexpr std::string_view kConstantsOfTrain =
    R"({"decay-epochs": 90, "decay-rate": 0.1, "train-split": "train", "warmup-lr": 1e-6})";
constexpr std::string_view kConstantsOfConvert = R"({"cls-weight": 0, "evaluations-maps": 2,
  "evaluations-outputs": 2, "hydra-deviation": 0.3, "hydra-offset": 1, "hydra-start-batches": 4,
  "lr-maps": 1e-2, "lr-outputs": 1e-3, "mixup-prob": 0.7, "outputs-cls-weight": 0.5,
  "outputs-lr-scale": 0.5, "query-rows": 49, "stage": "both", "temperature": 1})";

}  // namespace

std::string identity_of_run(std::string_view command, const std::string& recipe,
                            const checkpoint::Metadata& about,
                            const std::vector<model::training::TrainingPicture>& pictures) {
  Json identity = Json::parse(kConstants);
  identity.update(Json::parse(command == "convert" ? kConstantsOfConvert : kConstantsOfTrain));
  const Json recorded = Json::parse(recipe);
  for (const auto& [name, value] : recorded.items())
    if (is_kept_by_a_run(role_of_setting(command, name))) identity[name] = value;
  const auto of_model = [&](const char* name) {
    const auto found = about.find(name);
    return found == about.end() ? std::string() : found->second;
  };
  identity["weights"] = of_model("parent_sha256");
  identity["transform"] = of_model("transform");
  identity["pictures"] = model::training::fingerprint(pictures);
  return identity.dump();
}

void TrainingSession::require_same_on_all(const std::string& recipe, const std::string& identity) {
  const auto mine = static_cast<std::int64_t>(std::hash<std::string>{}(recipe + identity));
  const std::int64_t of_first = model::training::number_of_first(*group_, mine);
  if (model::training::sum_of_all(*group_, mine == of_first ? 0 : 1) > 0) {
    throw UsageError("the processes were given different options or pictures", "training",
                     "start all of them with the same command line, on the same files");
  }
}

namespace {

RunRequest in_environment(RunRequest run) {
  run.launch = model::training::read_launch_environment();
  return run;
}

}  // namespace

int local_processes(const std::optional<Asked<int>>& asked, int otherwise) {
  const bool is_launched = std::getenv("WORLD_SIZE") != nullptr;
  if (is_launched && asked && !LocalRanks::started_this_process()) {
    throw UsageError("the launcher says how many processes there are",
                     asked->origin + " with WORLD_SIZE in the environment");
  }
  if (is_launched) return 1;
  return asked ? asked->value : otherwise;
}

model::training::FailureReport UnreadablePictures::report() {
  return [this](const std::string& file, const std::string& message) {
    if (ends_run_) throw Error(ErrorCode::failed, message, file);
    const std::lock_guard lock(mutex_);
    if (files_.insert(file).second)
      print_failure(Error(ErrorCode::unreadable, message, file),
                    spelled("error: " + printable(file + ": " + message)));
  };
}

std::int64_t UnreadablePictures::count(model::training::ProcessGroup& group) const {
  std::vector<std::int64_t> mine;
  {
    const std::lock_guard lock(mutex_);
    for (const std::string& file : files_)
      mine.push_back(static_cast<std::int64_t>(std::hash<std::string>{}(file)));
  }
  // The names' hashes of all, each process's at its own place.
  at::Tensor counts = at::zeros({group.world_size()}, at::kLong);
  counts[group.rank()] = std::ssize(mine);
  group.sum({counts});
  at::Tensor all = at::zeros({counts.sum().item<std::int64_t>()}, at::kLong);
  if (all.numel() == 0) return 0;
  const auto before = counts.narrow(0, 0, group.rank()).sum().item<std::int64_t>();
  std::ranges::copy(mine, all.mutable_data_ptr<std::int64_t>() + before);
  group.sum({all});
  return std::get<0>(at::_unique(all)).numel();
}

TrainingSession::TrainingSession(const TrainingRequest& request)
    : resume_(request.resume),
      run_(in_environment(request.run)),
      console_(run_.launch.is_first() ? request.console : request.console.errors_only()),
      device_(model::resolve_device(run_.device)),
      group_(model::training::join_process_group(device_,
                                                 [] {
                                                   LocalRanks::require_all_running();
                                                   return stop_requested();
                                                 })),
      unreadable_(run_.fail_fast) {
  at::set_num_threads(model_threads(run_));
  if (run_.deterministic) at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  const FoundPictures scenes = backgrounds_of(request);
  report_found(scenes.failed, scenes.passed.notes());
}

void TrainingSession::report_found(const std::vector<Input>& failed,
                                   const std::vector<std::string>& notes) {
  if (!is_first()) return;
  for (const Input& input : failed) unreadable_.report()(input.path.string(), input.message);
  for (const std::string& note : notes) console_.note(note);
}

std::optional<fs::path> TrainingSession::begin_in(const fs::path& folder,
                                                  const std::optional<fs::path>& newest) {
  if (is_first()) {
    lock_ = std::make_unique<FileLock>(folder);
    if (lock_->is_taken())
      throw UsageError("another run is at work in this folder", folder.string(),
                       "wait for its end, or give this one another place (-o)");
  }
  const std::string& word = resume_.word;
  std::error_code ignored;
  if (is_first() && !word.empty() && word != "auto") check_state(word, folder, newest);
  const bool begins = word.empty() || (word == "auto" && !newest);
  if (is_first() && word.empty() && newest && !resume_.force) {
    throw UsageError("the folder holds a run", folder.string(),
                     "`resume` auto goes on with it, `force` begins anew");
  }
  const bool all_begin = model::training::number_of_first(*group_, begins ? 1 : 0) != 0;
  const std::optional<fs::path> file =
      begins ? std::optional<fs::path>() : (word == "auto" ? *newest : fs::path(word));
  const bool sees_it = all_begin || (file && fs::exists(*file, ignored));
  const std::int64_t blind = model::training::sum_of_all(*group_, sees_it ? 0 : 1);
  if (!all_begin && group_->world_size() > 1 && blind > 0) {
    throw Error(ErrorCode::failed, "some process does not see the state that rank 0 sees",
                folder.string(), "the folder has to be the same for all of them");
  }
  return all_begin ? std::nullopt : file;
}

ValidationScore TrainingSession::validate(model::VisionTransformerImpl& model,
                                          model::training::Autocast autocast,
                                          const std::vector<LabelledPicture>& pictures,
                                          const image::TransformConfig& transform) {
  PipelineOptions pipeline = pipeline_options(run_, transform);
  pipeline.refuses_nan = false;   // the loss says so, of all pictures at once
  pipeline.whole_batches = true;  // a resumed run has the loss of one that was not interrupted
  const model::training::FailureReport unreadable = unreadable_.report();
  ModulesUnderTraining modules(model, device_, autocast);
  const auto stride = static_cast<std::size_t>(group_->world_size());
  std::size_t next = static_cast<std::size_t>(group_->rank());
  const auto next_input = [&]() -> std::optional<Input> {
    if (next >= pictures.size() || stop_requested()) return std::nullopt;
    const LabelledPicture& picture = pictures[next];
    next += stride;
    return input_of(picture);
  };
  std::size_t seen = static_cast<std::size_t>(group_->rank());
  enum Count : std::uint8_t { kImages, kFailed, kTop1, kTop5, kLoss, kInterrupted, kCounts };
  std::array<double, kCounts> sum{};
  const auto add = [&](PipelineResult& result) {
    const std::size_t index = std::exchange(seen, seen + stride);
    const std::int64_t target = pictures[index].target;
    if (result.error) {
      unreadable(pictures[index].file.string(), result.message);
      sum[kFailed] += 1;
      return true;
    }
    const at::Tensor logits = result.logits.to(at::kFloat).contiguous();
    const ScoredPicture scored = score_picture(values_of(logits), target, index);
    sum[kImages] += 1;
    sum[kTop1] += scored.is_right() ? 1 : 0;
    sum[kTop5] += scored.rank <= kTopClasses ? 1 : 0;
    sum[kLoss] += scored.log_loss;
    return true;
  };
  run_pipeline(next_input, modules, pipeline, add);
  if (stop_requested()) sum[kInterrupted] = 1;
  group_->sum({at::from_blob(sum.data(), {static_cast<std::int64_t>(sum.size())}, at::kDouble)});
  const bool is_whole = sum[kInterrupted] == 0;
  if (is_whole && sum[kImages] == 0)
    throw Error(ErrorCode::empty, "none of the labelled pictures can be read", "validation");
  const double images = std::max(1.0, sum[kImages]);
  return {static_cast<std::int64_t>(sum[kImages]),
          static_cast<std::int64_t>(sum[kFailed]),
          100 * sum[kTop1] / images,
          100 * sum[kTop5] / images,
          sum[kLoss] / images,
          !is_whole};
}

}  // namespace hydrascope::app
