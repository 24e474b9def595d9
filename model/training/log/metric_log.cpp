#include "model/training/log/metric_log.h"

#include "kernels/error.h"
#include "kernels/input_file.h"
#include "kernels/limits.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <iterator>
#include <string_view>

namespace hydrascope::model::training {
namespace {

namespace fs = std::filesystem;

/// The step of the record in `line`; `otherwise` where the line is no record.
std::int64_t step_of(std::string_view line, std::int64_t otherwise) {
  const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return otherwise;
  const auto step = object.find("step");
  const bool is_step = step != object.end() && step->is_number_integer();
  return is_step ? step->get<std::int64_t>() : otherwise;
}

/// Cuts `file`, which need not exist, after its last whole line before the first line that is no
/// record up to `last_step`.
void cut_after(const fs::path& file, std::int64_t last_step) {
  if (!fs::exists(file)) return;
  if (!fs::is_regular_file(file))
    throw Error(ErrorCode::invalid_argument, "expected a file, found a folder or a device",
                file.native());
  InputFile in(file);
  if (!in) throw Error(ErrorCode::failed, "cannot be read", file.native());
  const std::string bytes = in.text();
  std::size_t kept = 0;
  for (std::size_t end = bytes.find('\n'); end != std::string::npos; end = bytes.find('\n', kept)) {
    const std::string_view line = std::string_view(bytes).substr(kept, end - kept);
    if (step_of(line, last_step + 1) > last_step) break;
    kept = end + 1;
  }
  if (kept == bytes.size()) return;
  std::error_code error;
  fs::resize_file(file, kept, error);
  if (error) {
    throw Error(ErrorCode::failed,
                "cannot be cut to its first " + std::to_string(kept) + " bytes: " + error.message(),
                file.native());
  }
}

}  // namespace

MetricLog::MetricLog(const fs::path& folder, std::int64_t resumed_step)
    : path_(folder / "metrics.jsonl") {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error(ErrorCode::failed, "cannot be made: " + error.message(), folder.native());
  cut_after(path_, resumed_step);
  file_.open(path_, std::ios::binary | std::ios::app);
  if (!file_) throw unwritable("cannot be written", path_.native(), errno);
}

void MetricLog::add(const MetricRecord& record) {
  nlohmann::ordered_json object{{"step", record.step}, {"epoch", record.epoch}};
  for (const auto& [name, value] : record.values) object[name] = value;  // not finite: null
  file_ << object.dump() << '\n' << std::flush;
  if (!file_) throw unwritable("cannot be written", path_.native(), errno);
}

}  // namespace hydrascope::model::training
