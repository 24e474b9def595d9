#include "app/train/progress_state.h"

#include "kernels/error.h"
#include "model/training/training_state.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace hydrascope::app {
namespace {

constexpr const char* kStepsPerEpoch = "steps_per_epoch";
constexpr const char* kPicturesOfAStep = "pictures_of_a_step";
/// Steps, or pictures of one, that a state may speak of: one a second for sixty years.
constexpr std::int64_t kMostOfARun = std::numeric_limits<std::int32_t>::max();

// Each field once, for writing and reading.
template <class Progress, class Visitor>
void visit(Progress& progress, Visitor&& visitor) {
  visitor("seconds", progress.seconds);
  visitor("updates", progress.updates);
  visitor("best_top1", progress.best_top1);
  visitor("best_loss", progress.best_loss);
  visitor("best_epoch", progress.best_epoch);
  visitor("judged_epochs", progress.judged_epochs);
  visitor("epoch_loss", progress.epoch_loss);
  visitor("epoch_steps", progress.epoch_steps);
}

struct Writer {
  checkpoint::Metadata& fields;
  void operator()(const char* key, double value) const {
    fields[key] = model::training::to_field(value);
  }
  void operator()(const char* key, std::int64_t value) const {
    fields[key] = std::to_string(value);
  }
};

struct Reader {
  const checkpoint::Metadata& fields;
  const std::string& file;
  void operator()(const char* key, double& value) const {
    value = model::training::number_field(fields, key, file);
  }
  void operator()(const char* key, std::int64_t& value) const {
    value = model::training::integer_field(fields, key, file);
  }
};

}  // namespace

bool ProgressState::is_surpassed_by(double top1, double loss) const {
  return std::isfinite(loss) && std::pair(top1, -loss) > std::pair(best_top1, -best_loss);
}

void write_fields(const ProgressState& progress, const RunLength& length,
                  checkpoint::Metadata& fields) {
  visit(progress, Writer{fields});
  fields[kStepsPerEpoch] = std::to_string(length.steps_per_epoch);
  fields[kPicturesOfAStep] = std::to_string(length.pictures_of_a_step);
}

ProgressState read_fields(const checkpoint::Metadata& fields, const std::string& file) {
  ProgressState progress;
  // A state of version 0.1 does not say the loss; no epoch's is below 0.
  checkpoint::Metadata all = fields;
  all.emplace("best_loss", "0");
  visit(progress, Reader{all, file});
  return progress;
}

std::int64_t pictures_of_a_step(const checkpoint::Metadata& fields, const std::string& file) {
  const std::int64_t pictures = model::training::integer_field(fields, kPicturesOfAStep, file);
  if (pictures < 1)
    throw Error(ErrorCode::decode_failed, "the state is of a run without steps", file);
  return pictures;
}

std::int64_t equivalent_step(std::int64_t step, const checkpoint::Metadata& fields,
                             const RunLength& length, const std::string& file) {
  const std::int64_t per_epoch = model::training::integer_field(fields, kStepsPerEpoch, file);
  const std::int64_t pictures = pictures_of_a_step(fields, file);
  if (per_epoch < 1)
    throw Error(ErrorCode::decode_failed, "the state is of a run without steps", file);
  // Products of these fit into 64 bits.
  if (std::max({step, per_epoch, pictures}) > kMostOfARun)
    throw Error(ErrorCode::decode_failed, "the state is of a run that nobody could wait for", file);
  // Whole epochs stay whole, however many pictures a last batch leaves out.
  const std::int64_t within = (step % per_epoch) * pictures / length.pictures_of_a_step;
  return step / per_epoch * length.steps_per_epoch + std::min(within, length.steps_per_epoch - 1);
}

}  // namespace hydrascope::app
