#include "app/train/training_options.h"

#include "app/model/running_model.h"
#include "app/options/option_fields.h"
#include "app/pictures/inputs.h"
#include "app/results/json.h"
#include "app/run/usage_error.h"
#include "app/run/words.h"
#include "app/specs/training.h"
#include "kernels/device/cpu_features.h"
#include "model/checkpoint/formats/sha256.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace hydrascope::app {

using Json = nlohmann::json;

namespace {

/// Small ones with an exponent: 6.05e-07.
std::string short_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return text.data();
}

/// The conditions on the options of the library's parts.
void check_numbers(const TrainingOptions& options) {
  const auto& [least, most] = options.augment.scale;
  if (!(least > 0 && least <= most && most <= 1))
    throw UsageError("expected a smaller and a larger number above 0", "`scale`");
  for (const double beta : options.optimizer.betas)
    if (!(beta < 1)) throw UsageError("expected numbers below 1", "`opt_betas`");
}

void require_whole_patches(const image::Size& size, std::int64_t patch, const char* option) {
  if (size.height % patch == 0 && size.width % patch == 0) return;
  throw UsageError("expected multiples of the patch, " + std::to_string(patch) + " pixels",
                   std::string(option) + " " + size_text(size));
}

Json recipe_of_options(const ParsedOptions& options) {
  Json recipe = Json::parse(options.dump_config());
  for (const auto& [name, entry] : options.entries())
    if (!is_recorded(entry.option.role)) recipe.erase(name);
  return recipe;
}

/// In order.
std::vector<std::filesystem::path> background_pictures(const TrainingRequest& request) {
  std::vector<std::filesystem::path> files;
  for (model::training::TrainingPicture& picture : backgrounds_of(request).pictures)
    files.push_back(std::move(picture.file));
  return files;
}

}  // namespace

TrainingRequest training_request(const ParsedOptions& options, std::string_view command) {
  TrainingRequest request;
  options.fill<PicturesRequest, TrainingOptions>(request, request);
  options.fill(request.output, request.resume, request.augment, request.optimizer, request.groups,
               request.mixup, request.low_rank);
  request.console = console_request(options);
  request.model = model_request(options);
  if (const GivenOption& coarse = options[&ModelRequest::coarse_exits]; coarse.given())
    throw UsageError("a threshold of exits belongs to finished weights", coarse.origin,
                     "`hydrascope convert IN OUT --set coarse-exits=` adds them to the result");
  for (const Field& field :
       std::initializer_list<Field>{&ModelRequest::exit_rule, &ModelRequest::exit_threshold})
    if (command == "train" && options.given(field))
      throw UsageError("another trunk has no use for the exits before", options[field].origin,
                       "`hydrascope convert --exits` teaches them to the result");
  request.model.may_be_random = true;
  request.transform = transform_request(options);
  request.run = run_request(options, AutoExif::as_stored);
  request.words = input_words(options);
  request.output.format =
      choose_format(options[&OutputRequest::format].text(), "", report_formats());
  if (request.sizes.empty() && !request.scenes.empty())
    throw UsageError("scenes are for the sizes that are learned", "`scenes`",
                     "`sizes` 512,1088x1920");
  check_numbers(request);
  request.augment.rand_augment = model::training::parse_rand_augment(
      options[&model::training::AugmentOptions::rand_augment].text());
  take(options[&RunRequest::batch_size], request.batch_size);
  using LowRank = model::training::LowRankOptions;
  for (const auto& [field, word] : {std::pair<Field, const char*>{&LowRank::alpha, "lora.alpha"},
                                    {&LowRank::targets, "lora.targets"}})
    if (request.low_rank.rank == 0 && options[field].source == Source::command_line)
      throw UsageError("there are no updates of low rank", "`set` " + std::string(word),
                       "`lora_rank` 8");
  request.loader.augment = request.augment;
  request.loader.decode = request.run.decode;
  request.loader.cache_bytes = request.cache_mebibytes << 20;
  request.trainer.accumulation = request.accumulation;
  request.trainer.clip_norm = request.clip_norm;
  request.trainer.log_every = request.log_every;
  request.trainer.seed = request.run.seed;
  request.recipe = recipe_of_options(options).dump();
  return request;
}

image::TransformConfig training_transform(const ResolvedTransform& transform) {
  if (transform.config.views.keep_size) {
    throw UsageError("pictures of a batch need one size", "`native`", "`img_size` sets it");
  }
  if (transform.config.in_chans != 3) {
    throw Error(ErrorCode::invalid_argument, "training pictures have 3 channels, the model takes " +
                                                 std::to_string(transform.config.in_chans));
  }
  require_whole_patches(transform.config.img_size, transform.config.patch_size, "`img_size`");
  return transform.config;
}

void add_pictures(const std::string& word, std::int32_t source,
                  std::set<std::filesystem::path>& known, FoundPictures& found) {
  const std::size_t before = found.pictures.size();
  InputStream inputs({word}, /*recursive=*/true);
  while (auto input = inputs.next()) {
    if (input->memory)
      throw UsageError("standard input is a picture, where the names of files are expected", word);
    if (input->is_video) {
      input->error = ErrorCode::unsupported_format;
      input->message = "is a video, where pictures are learned from";
    }
    if (!input->error) {
      if (known.insert(std::filesystem::weakly_canonical(input->path)).second)
        found.pictures.push_back({input->path, -1, source});
    } else if (input->given == word) {
      if (input->error == ErrorCode::not_found) throw NotFound(input->message, word);
      throw UsageError(input->message, word);
    } else {
      found.failed.push_back(std::move(*input));
    }
  }
  found.passed += inputs.passed();
  if (found.pictures.size() == before) {
    const bool has_failed = !found.failed.empty();
    throw UsageError(
        "found no pictures, or none that no other input has named" +
            (has_failed ? "; " + found.failed.back().given + ": " + found.failed.back().message
                        : std::string()),
        word);
  }
}

FoundPictures backgrounds_of(const TrainingRequest& request) {
  std::set<std::filesystem::path> known;
  FoundPictures found;
  if (!request.scenes.empty()) add_pictures(request.scenes, 0, known, found);
  return found;
}

model::training::ResolutionOptions resolutions_of(const TrainingRequest& request,
                                                  const image::TransformConfig& transform) {
  model::training::ResolutionOptions resolutions{.sizes = request.sizes};
  for (const image::Size& size : request.sizes)
    require_whole_patches(size, transform.patch_size, "`sizes`");
  if (request.scenes.empty()) return resolutions;
  resolutions.backgrounds = background_pictures(request);
  if (std::ranges::none_of(request.sizes, [&](const image::Size& size) {
        return model::training::has_room(size, transform.img_size);
      })) {
    throw UsageError("needs a size above " + size_text(transform.img_size) + " (HxW) in both edges",
                     "`scenes`", "give such a size to `sizes`, or leave `scenes` out");
  }
  return resolutions;
}

model::training::LoaderOptions loader_of(const TrainingRequest& request, const RunRequest& run,
                                         const image::TransformConfig& transform) {
  model::training::LoaderOptions loader = request.loader;
  loader.augment.size = transform.img_size;
  loader.augment.mean = transform.mean;
  loader.augment.stddev = transform.std;
  loader.workers = loader_workers(run);
  return loader;
}

std::string name_and_sha256(const std::filesystem::path& file) {
  return file.filename().string() + ", sha256 " + checkpoint::sha256_of_file(file);
}

std::string recipe_of(const TrainingRequest& request, std::string_view command,
                      model::training::Autocast autocast, int processes) {
  Json recipe = Json::parse(request.recipe);
  if (!request.scenes.empty()) {
    Json& names = recipe[recorded_name(command, &TrainingOptions::scenes)] = Json::array();
    for (const std::filesystem::path& file : background_pictures(request))
      names.push_back(file.filename().string());
  }
  // Weights learned themselves before there was a choice.
  using LowRank = model::training::LowRankOptions;
  if (request.low_rank.rank == 0)
    for (const Field& field :
         std::initializer_list<Field>{&LowRank::rank, &LowRank::alpha, &LowRank::targets})
      recipe.erase(recorded_name(command, field));
  recipe[recorded_name(command, &TrainingOptions::autocast)] = name(autocast);
  recipe[recorded_name(command, &TrainingOptions::processes)] = processes;
  return json_text(recipe);  // scenes' files may have names outside UTF-8
}

model::training::Scalars scalars_of(const model::training::StepRecord& record,
                                    const std::string& prefix) {
  model::training::Scalars values;
  for (const auto& [key, value] : record.losses) values.emplace_back(prefix + key, value);
  values.emplace_back(prefix + "lr", record.learning_rate);
  values.emplace_back(prefix + "gradient_norm", record.gradient_norm);
  values.emplace_back("images_per_second", record.images_per_second);
  values.emplace_back("wait_share", record.wait_share);
  return values;
}

std::string progress_text(const model::training::StepRecord& record) {
  return "loss " + significant(record.losses.at("loss"), 4) + "  lr " +
         short_number(record.learning_rate) + "  " + fixed(record.images_per_second, 1) +
         " images/s";
}

model::training::Autocast autocast_of(const TrainingRequest& request, c10::Device device) {
  using model::training::Autocast;
  if (request.autocast) return *request.autocast;
  return device.is_cuda() || kernels::device::cpu_features().avx512_bf16 ? Autocast::bfloat16
                                                                         : Autocast::off;
}

}  // namespace hydrascope::app
