// TensorBoard's event files, written by hand: three messages and a frame are less than protobuf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::model::training {

/// Named numbers of one moment of a run.
using Scalars = std::vector<std::pair<std::string, double>>;

/// CRC-32C (Castagnoli; RFC 3720, appendix B.4).
std::uint32_t crc32c(std::string_view bytes) noexcept;
/// TFRecord's frame: u64 length, its masked CRC, `data`, its masked CRC; little-endian.
std::string tfrecord(std::string_view data);

/// Messages of tensorboard/compat/proto/event.proto: Event{wall_time, file_version}, which begins a
/// file, and Event{wall_time, step, summary{value{tag, simple_value}...}}. `wall_time` in seconds
/// since 1970; values become float32.
std::string version_event(double wall_time);
std::string scalars_event(double wall_time, std::int64_t step, const Scalars& scalars);

/// What a resumed run keeps of a file that the interrupted one appended to: cuts `file` after its
/// first `kept(bytes)` bytes and returns them; a file that is not there stays so. Throws
/// Error(failed).
std::string keep_records(const std::filesystem::path& file,
                         const std::function<std::size_t(std::string_view)>& kept);

class EventFile {
 public:
  /// Continues the newest event file of `folder`, or begins one that is named by the time and the
  /// host. What the folder's event files hold after step `resumed_step` is dropped (-1:
  /// everything), as is a record that was cut short. Throws Error(failed).
  explicit EventFile(const std::filesystem::path& folder, std::int64_t resumed_step = -1);
  /// In the file when it returns. Throws Error(failed).
  void add(std::int64_t step, const Scalars& scalars);
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  void write(std::string_view event);

  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace hydrascope::model::training
