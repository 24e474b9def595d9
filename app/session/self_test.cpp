#include "app/session/self_test.h"

#include "app/run/assets.h"
#include "app/run/exit_code.h"
#include "app/session/session.h"
#include "kernels/error.h"
#include "model/checkpoint/formats/safetensors.h"
#include "model/image/decode.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/stack.h>
#include <nlohmann/json.hpp>

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::app {
namespace {

struct Check {
  std::string_view precision;
  double bound;  ///< of the relative error
};
// Resamplers may differ that much in float32 (0.002 was measured); the rest is what rounding to 8
// bits of mantissa (0.016), and to integers of 8 bits (0.04), does to this model.
constexpr std::array<Check, 3> kChecks{{{"float32", 0.01}, {"bfloat16", 0.03}, {"int8", 0.09}}};

/// The difference of a JPEG that stb_image decoded, and not libjpeg as in Pillow, with which the
/// answers were made. 0.028 was measured in float32.
double bound_of_decoder() { return image::decodes_jpeg_like_pillow() ? 0.0 : 0.03; }

/// timm's answers, and for what.
struct Expected {
  std::string model;
  std::vector<std::string> pictures;
  at::Tensor logits;  ///< (pictures, classes)
};

Expected read_expected() {
  const std::filesystem::path file = assets_folder() / kSelfTestFile;
  const auto contents = checkpoint::SafetensorsFile::open(file);
  const checkpoint::TensorView* logits = contents.find("logits");
  const auto files = contents.metadata().find("files");
  const auto model = contents.metadata().find("model");
  if (logits == nullptr || files == contents.metadata().end() || model == contents.metadata().end())
    throw Error(ErrorCode::decode_failed, "logits, files or model are missing", file.string());
  Expected expected{model->second, {}, {}};
  for (const auto& name : nlohmann::json::parse(files->second))
    expected.pictures.push_back((assets_folder() / "images" / name.get<std::string>()).string());
  expected.logits =
      at::from_blob(const_cast<std::byte*>(logits->data.data()), logits->shape, at::kFloat).clone();
  return expected;
}

/// The computation of `hydrascope classify --device cpu --precision PRECISION PICTURES`.
at::Tensor classify(const Expected& expected, std::string_view precision) {
  RunRequest run;
  run.device = "cpu";
  run.precision = precision;
  const auto session = Session::of(open_model({.word = expected.model}), {}, run, Console());
  session->load();
  std::vector<Input> pictures;
  for (const std::string& file : expected.pictures) pictures.push_back(file_input(file, file));
  std::vector<at::Tensor> rows;
  session->run(one_by_one(std::move(pictures)), [&](PipelineResult& result) {
    if (result.error) throw Error(*result.error, result.message, result.input.given);
    rows.push_back(std::move(result.logits));
    return true;
  });
  if (rows.size() < expected.pictures.size())
    throw Error(ErrorCode::failed, "stopped", "doctor `self_test`");
  return at::stack(rows);
}

}  // namespace

SelfTest run_self_test() {
  const Expected expected = read_expected();
  SelfTest test{ResultTable({{"precision", "precision"},
                             {"pictures", "pictures"},
                             {"top1_equal", "same top-1"},
                             {"largest_difference", "largest difference", 5},
                             {"relative_error", "relative error", 5},
                             {"bound", "bound", 2},
                             {"result", "result"}})};
  for (const auto& [precision, bound_of_precision] : kChecks) {
    const double bound = bound_of_precision + bound_of_decoder();
    const at::Tensor logits = classify(expected, precision);
    const at::Tensor difference = logits - expected.logits;
    const auto pictures = static_cast<std::int64_t>(expected.pictures.size());
    const auto equal = logits.argmax(1).eq(expected.logits.argmax(1)).sum().item<std::int64_t>();
    const auto error = (difference.norm() / expected.logits.norm()).item<double>();
    const bool passed = equal == pictures && error <= bound;  // NaN does not
    test.table.add({std::string(precision), pictures, equal, difference.abs().max().item<double>(),
                    error, bound, std::string(passed ? "ok" : "wrong")});
    test.passed = test.passed && passed;
  }
  return test;
}

}  // namespace hydrascope::app
