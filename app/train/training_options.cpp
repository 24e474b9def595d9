#include "app/train/training_options.h"

#include "app/options/option_builders.h"
#include "app/pictures/inputs.h"
#include "app/results/json.h"
#include "kernels/device/cpu_features.h"
#include "kernels/error.h"
#include "model/checkpoint/formats/sha256.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
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

std::array<double, 2> pair_value(const ParsedOptions& options, const char* name) {
  const std::vector<double> values = options.numbers(name);
  return {values.at(0), values.at(1)};
}

std::array<double, 2> range_value(const ParsedOptions& options, const char* name, double maximum) {
  const std::array<double, 2> range = pair_value(options, name);
  if (!(range[0] > 0 && range[0] <= range[1] && range[1] <= maximum)) {
    throw Error(ErrorCode::invalid_argument, "expected a smaller and a larger number above 0",
                "--" + std::string(name));
  }
  return range;
}

void require_whole_patches(const image::Size& size, std::int64_t patch, const char* option) {
  if (size.height % patch == 0 && size.width % patch == 0) return;
  throw Error(ErrorCode::invalid_argument,
              "expected multiples of the patch, " + std::to_string(patch) + " pixels",
              std::string(option) + " " + size_text(size));
}

/// In order.
std::vector<std::filesystem::path> background_pictures(const std::string& word) {
  std::set<std::filesystem::path> known;
  std::vector<std::filesystem::path> files;
  for (model::training::TrainingPicture& picture : pictures_of(word, 0, known))
    files.push_back(std::move(picture.file));
  return files;
}

}  // namespace

std::string size_text(const image::Size& size) {
  return std::to_string(size.height) + "x" + std::to_string(size.width);
}

image::TransformConfig training_transform(const ResolvedTransform& transform) {
  if (transform.config.native) {
    throw Error(ErrorCode::invalid_argument, "pictures of a batch need one size", "--native",
                "--img-size sets it");
  }
  require_whole_patches(transform.config.img_size, transform.config.patch_size, "--img-size");
  return transform.config;
}

model::training::OptimizerOptions optimizer_of(const ParsedOptions& options) {
  model::training::OptimizerOptions optimizer;
  if (options.text("opt") == "sgd") optimizer.kind = model::training::OptimizerKind::sgd;
  optimizer.betas = pair_value(options, "opt-betas");
  for (const double beta : optimizer.betas) {
    if (!(beta < 1))
      throw Error(ErrorCode::invalid_argument, "expected numbers below 1", "--opt-betas");
  }
  optimizer.eps = options.number("opt-eps");
  optimizer.momentum = options.number("momentum");
  return optimizer;
}

model::training::AugmentOptions augmentation_of(const ParsedOptions& options,
                                                const image::TransformConfig& transform) {
  model::training::AugmentOptions augment;
  augment.size = transform.img_size;
  augment.mean = transform.mean;
  augment.stddev = transform.std;
  augment.scale = range_value(options, "scale", 1);
  constexpr double kMostRatio = 100;
  augment.ratio = range_value(options, "ratio", kMostRatio);
  augment.hflip = options.number("hflip");
  augment.vflip = options.number("vflip");
  augment.color_jitter = options.number("color-jitter");
  augment.rand_augment = model::training::parse_rand_augment(options.text("aa"));
  augment.erase_probability = options.number("reprob");
  augment.erase_with_noise = options.text("remode") == "pixel";
  augment.erase_count = static_cast<int>(options.integer("recount"));
  augment.interpolation = options.text("train-interpolation");
  return augment;
}

model::training::MixupOptions mixing_of(const ParsedOptions& options) {
  model::training::MixupOptions mixing;
  mixing.mixup_alpha = options.number("mixup");
  mixing.cutmix_alpha = options.number("cutmix");
  mixing.prob = options.number("mixup-prob");
  mixing.switch_prob = options.number("mixup-switch-prob");
  return mixing;
}

std::vector<model::training::TrainingPicture> pictures_of(const std::string& word,
                                                          std::int32_t source,
                                                          std::set<std::filesystem::path>& known) {
  std::vector<model::training::TrainingPicture> pictures;
  InputStream inputs({word}, /*recursive=*/true, std::cin);
  while (const auto input = inputs.next()) {
    if (input->error) throw Error(ErrorCode::invalid_argument, input->message, input->given);
    if (input->is_video) continue;
    if (known.insert(std::filesystem::weakly_canonical(input->path)).second)
      pictures.push_back({input->path, -1, source});
  }
  if (pictures.empty()) {
    throw Error(ErrorCode::invalid_argument,
                "found no pictures, or none that no other input has named", word);
  }
  return pictures;
}

model::training::ResolutionOptions resolutions_of(const ParsedOptions& options,
                                                  const image::TransformConfig& transform) {
  model::training::ResolutionOptions resolutions;
  for (const std::string& text : options.texts("sizes")) {
    resolutions.sizes.push_back(parse_size(text, "--sizes"));
    require_whole_patches(resolutions.sizes.back(), transform.patch_size, "--sizes");
  }
  if (options.given("scenes")) {
    if (resolutions.sizes.empty()) {
      throw Error(ErrorCode::invalid_argument, "scenes are for the sizes that are learned",
                  "--scenes", "--sizes 512,1088x1920");
    }
    resolutions.backgrounds = background_pictures(options.text("scenes"));
  }
  return resolutions;
}

model::training::LoaderOptions loader_of(const ParsedOptions& options, const RunRequest& run,
                                         const image::TransformConfig& transform) {
  model::training::LoaderOptions loader;
  loader.sampler.repeats = static_cast<int>(options.integer("aug-repeats"));
  loader.augment = augmentation_of(options, transform);
  loader.workers = loader_workers(run);
  loader.cache_bytes = options.integer("cache-mb") << 20;
  loader.decode = run.decode;
  return loader;
}

std::string name_and_sha256(const std::filesystem::path& file) {
  return file.filename().string() + ", sha256 " + checkpoint::sha256_of_file(file);
}

std::string recipe_of(const ParsedOptions& options, model::training::Autocast autocast,
                      int processes) {
  Json recipe = Json::parse(options.dump_config());
  for (const char* name : {"resume",       "output",          "force",
                           "format",       "report",          "max-minutes",
                           "log-interval", "checkpoint-hist", "recovery-interval",
                           "on-error",     "deterministic",   "cache-mb",
                           "device",       "threads",         "workers",
                           "ddp-timeout",  "verbose",         "quiet",
                           "no-progress",  "color",           "print-transform",
                           "eval",         "labels-csv",      "require-top1"})
    recipe.erase(name);
  if (options.given("scenes")) {
    recipe["scenes"] = Json::array();
    for (const std::filesystem::path& file : background_pictures(options.text("scenes")))
      recipe["scenes"].push_back(file.filename().string());
  }
  recipe["amp-dtype"] = name(autocast);
  recipe["processes"] = processes;
  return recipe.dump();
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

model::training::Autocast autocast_of(const ParsedOptions& options, c10::Device device) {
  using model::training::Autocast;
  const std::string& word = options.text("amp-dtype");
  if (word == "bfloat16") return Autocast::bfloat16;
  if (word == "float32") return Autocast::off;
  return device.is_cuda() || kernels::device::cpu_features().avx512_bf16 ? Autocast::bfloat16
                                                                         : Autocast::off;
}

}  // namespace hydrascope::app
