// `--teacher`: another model of the program says what the pictures show.
#pragma once

#include "app/run/console.h"
#include "app/train/subject.h"
#include "app/train/training_options.h"
#include "model/training/classification_task.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>

namespace hydrascope::app {

/// The settings that decide the result (`recipe_of`), as a JSON object: what the model is, whether
/// the options or its checkpoint say it, and the teacher by name and SHA-256.
std::string training_recipe(const TrainingRequest& request, const model::VitConfig& config,
                            const std::optional<ModelSource>& teacher,
                            model::training::Autocast autocast, int processes);

/// Logits of a batch that is normalised for the student, which has its own mean and deviation;
/// empty without a teacher. The teacher looks at the student's pictures as they are; where it was
/// made for another size the user is told. Throws Error(invalid_argument) for a teacher of other
/// classes, or one that cannot look at pictures of the student's size.
model::training::ClassificationTask::Teacher make_teacher(const std::optional<ModelSource>& teacher,
                                                          const TrainingSubject& subject,
                                                          model::training::Autocast autocast,
                                                          c10::Device device,
                                                          const Console& console);

}  // namespace hydrascope::app
