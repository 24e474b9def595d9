#include "app/train/teacher.h"

#include "app/run/usage_error.h"
#include "model/device.h"
#include "model/inference/classifier.h"
#include "model/transform.h"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <string>

namespace hydrascope::app {

std::string training_recipe(const TrainingRequest& request, const model::VitConfig& config,
                            const std::optional<ModelSource>& teacher,
                            model::training::Autocast autocast, int processes) {
  nlohmann::json recipe = nlohmann::json::parse(recipe_of(request, "train", autocast, processes));
  const auto recorded = [](const Field& field) { return recorded_name("train", field); };
  recipe[recorded(&ModelRequest::pos_interp)] = model::name(config.pos_interp);
  recipe.erase(recorded(&ModelRequest::overview));
  if (config.overview) recipe[recorded(&ModelRequest::overview)] = "on";
  if (teacher) recipe[recorded(&TrainOptions::teacher)] = name_and_sha256(teacher->weights.file());
  return recipe.dump();
}

model::training::ClassificationTask::Teacher make_teacher(const std::optional<ModelSource>& teacher,
                                                          const TrainingSubject& subject,
                                                          model::training::Autocast autocast,
                                                          c10::Device device,
                                                          const Console& console) {
  if (!teacher) return {};
  const ModelSource& source = *teacher;
  const image::TransformConfig& student = subject.transform.config;
  std::optional<image::Labels> labels;
  if (subject.labels.origin != LabelOrigin::numbers) labels = subject.labels.labels;
  require_same_classes(subject.source, labels, source, "`teacher`");
  const std::int64_t patch = source.config.patch_size;
  if (student.img_size.height % patch != 0 || student.img_size.width % patch != 0) {
    throw UsageError("the teacher's patches of " + std::to_string(patch) +
                         " pixels do not divide the pictures, " + size_text(student.img_size),
                     "`teacher` " + source.name);
  }
  const image::Size own_size{source.config.img_height, source.config.img_width};
  if (own_size != student.img_size) {
    console.note("note: the teacher looks at pictures of " + size_text(student.img_size) +
                 ", it was made for " + size_text(own_size) + " and may know less there");
  }
  model::inference::InferenceOptions wanted;
  wanted.device = device;
  wanted.precision = model::resolve_precision(name(autocast), device);
  const auto classifier =
      std::make_shared<model::Classifier>(source.config, source.weights, wanted);
  const image::TransformConfig own = resolve_transform({}, source).config;
  return [classifier, student, own](const at::Tensor& images) {
    return classifier->engine().logits(image::renormalise(images, student, own));
  };
}

}  // namespace hydrascope::app
