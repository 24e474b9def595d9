// hydrascope doctor: what this build and this machine can do.
#include "app/build_info.h"
#include "app/command.h"
#include "app/model/running_model.h"
#include "app/options/mechanism_listing.h"
#include "app/options/option_table.h"
#include "app/options/requests.h"
#include "app/results/report.h"
#include "app/run/assets.h"
#include "app/run/exit_code.h"
#include "app/run/output_file.h"
#include "app/session/session.h"
#include "app/specs/requests.h"
#include "kernels/device/cpu_features.h"
#include "kernels/device/gpu_info.h"
#include "kernels/device/processors.h"
#include "kernels/error.h"
#include "model/checkpoint/formats/safetensors.h"
#include "model/device.h"
#include "model/image/decode.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/stack.h>
#include <nlohmann/json.hpp>
#include <torch/version.h>

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

/// Classifies the bundled pictures on the CPU, as `classify` does, in every precision that has
/// kernels there, and compares the logits with timm's in assets/self_test.safetensors. A precision
/// passes if its relative error (L2, over all pictures) is within its bound and the best class of
/// every picture is timm's. This takes some seconds. Throws Error if a bundled file is missing or
/// cannot be read, and Error(failed) if a stop was requested meanwhile.
int run_self_test(const OutputRequest& request) {
  OutputFile output(request.file);
  const Expected expected = read_expected();
  ResultTable table({{"precision", "precision"},
                     {"pictures", "pictures"},
                     {"top1_equal", "same top-1"},
                     {"largest_difference", "largest difference", 5},
                     {"relative_error", "relative error", 5},
                     {"bound", "bound", 2},
                     {"result", "result"}});
  bool all_passed = true;
  for (const auto& [precision, bound_of_precision] : kChecks) {
    const double bound = bound_of_precision + bound_of_decoder();
    const at::Tensor logits = classify(expected, precision);
    const at::Tensor difference = logits - expected.logits;
    const auto pictures = static_cast<std::int64_t>(expected.pictures.size());
    const auto equal = logits.argmax(1).eq(expected.logits.argmax(1)).sum().item<std::int64_t>();
    const auto error = (difference.norm() / expected.logits.norm()).item<double>();
    const bool passed = equal == pictures && error <= bound;  // NaN does not
    table.add({std::string(precision), pictures, equal, difference.abs().max().item<double>(),
               error, bound, std::string(passed ? "ok" : "wrong")});
    all_passed = all_passed && passed;
  }
  Report::of("hydrascope doctor --self-test", table).write(request.format, output.stream());
  output.close();
  return all_passed ? kExitOk : kExitCheckFailed;
}

}  // namespace

int run_doctor(const ParsedOptions& options) {
  const OutputRequest request = output_request(options);
  if (options[&DoctorRequest::self_test].flag()) return run_self_test(request);
  namespace device = kernels::device;
  // Before anything asks LibTorch about GPUs: it remembers the first answer.
  const std::string& why_no_cuda = model::cuda_unavailable_reason();
  const device::GpuInfo gpus = device::gpu_info();
  const device::CpuFeatures features = device::cpu_features();
  const std::string instruction_sets = join_words(device::names(features), ", ", ", ");

  Report report("hydrascope doctor");
  report.add("version", std::string(kVersion));
  report.add("build", std::string(kBuildType));
  report.add("commit", std::string(kCommit));
  report.add("compiler", std::string(kCompiler));
  report.add("libtorch", TORCH_VERSION);
  report.add("decoder", image::decoder_name());
  report.add("cpu", device::cpu_model());
  report.add("instruction_sets",
             instruction_sets.empty() ? "none beyond the baseline" : instruction_sets);
  report.add("libtorch_instruction_set", at::get_cpu_capability());
  const device::Processors processors = device::processors();
  report.add("processors", processors.usable());
  report.add("processors_of", processors.describe());
  report.add("memory_bytes", device::total_memory().value_or(0));
  report.add("memory_available_bytes", device::available_memory().value_or(0));
  report.add("auto_precision", describe_fastest_precision());
  report.add("cuda_built_in", gpus.built_in);
  report.add("cuda_runtime", gpus.runtime.empty() ? "none" : gpus.runtime);
  report.add("cuda_architectures", gpus.architectures.empty() ? "none" : gpus.architectures);
  report.add("cuda_driver", gpus.driver.empty() ? "none" : gpus.driver);
  report.add("cuda_usable", why_no_cuda.empty());
  report.add("cuda_why_not", why_no_cuda.empty() ? "-" : why_no_cuda);
  ResultTable list({{"device", "GPU"},
                    {"name", "name"},
                    {"compute_capability", "compute capability"},
                    {"multiprocessors", "multiprocessors"},
                    {"memory_bytes", "memory, bytes"},
                    {"has_kernels", "kernels"}});
  for (const device::Gpu& gpu : gpus.gpus) {
    list.add({"cuda:" + std::to_string(gpu.index), gpu.name,
              std::to_string(gpu.major) + '.' + std::to_string(gpu.minor), gpu.multiprocessors,
              gpu.memory_bytes, gpu.has_code});
  }
  report.add_table("gpus", "", std::move(list));
  report.add("attention_mechanisms", join_words(mechanism_names(), ", ", ", "));
  std::string assets;
  bool assets_found = true;
  try {
    assets = assets_folder().string();
  } catch (const Error& error) {
    assets = error.what();
    assets_found = false;
  }
  report.add("assets", assets);
  OutputFile output(request.file);
  report.write(request.format, output.stream());
  output.close();
  return assets_found ? kExitOk : kExitFailed;
}

}  // namespace hydrascope::app
