// hydrascope doctor: what this build and this machine can do.
#include "app/build_info.h"
#include "app/command.h"
#include "app/model/auto_precision.h"
#include "app/options/mechanism_listing.h"
#include "app/options/option_table.h"
#include "app/options/requests.h"
#include "app/results/report.h"
#include "app/run/assets.h"
#include "app/run/output_file.h"
#include "app/session/self_test.h"
#include "app/specs/requests.h"
#include "kernels/device/cpu_features.h"
#include "kernels/device/gpu_info.h"
#include "kernels/device/processors.h"
#include "model/device.h"
#include "model/image/decode.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include <utility>

namespace hydrascope::app {
namespace {

int report_self_test(const OutputRequest& request) {
  OutputFile output(request.file);
  const SelfTest test = run_self_test();
  Report::of("hydrascope doctor --self-test", test.table).write(request.format, output.stream());
  output.close();
  return test.passed ? kExitOk : kExitCheckFailed;
}

}  // namespace

int run_doctor(const ParsedOptions& options) {
  const OutputRequest request = output_request(options);
  if (options[&DoctorRequest::self_test].flag()) return report_self_test(request);
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
