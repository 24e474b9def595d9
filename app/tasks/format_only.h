// convert --format-only: another file of the same weights.
#pragma once

#include "app/options/requests.h"
#include "app/run/output_file.h"
#include "model/checkpoint/formats/safetensors.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace hydrascope::app {

struct RewriteRequest {
  Console console;
  ModelRequest model;
  std::string architecture;  ///< of what `from` holds, or ""
  std::string from;
  std::string to;
  bool force = false;
  TransformRequest transform;
  std::uint64_t seed = 42;
  std::optional<checkpoint::Dtype> dtype;
  std::string labels;
};
/// IN OUT, or --model and --output in their places. Throws Error(invalid_argument) for another number
/// of names.
RewriteRequest rewrite_request(const ParsedOptions& options);
/// Returns the exit code.
int rewrite_checkpoint(const RewriteRequest& request);

/// Throws Error(invalid_argument) for a file that is none of this program's format, or that exists
/// without `force`, and where it may not be replaced as `kind`; makes its folder.
void prepare_output(const std::filesystem::path& file, bool force, FileKind kind = FileKind::any);

}  // namespace hydrascope::app
