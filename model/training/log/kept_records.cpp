#include "model/training/log/kept_records.h"

#include "kernels/error.h"

#include <fstream>
#include <iterator>
#include <system_error>

namespace hydrascope::model::training {

std::string keep_records(const std::filesystem::path& file,
                         const std::function<std::size_t(std::string_view)>& kept) {
  if (!std::filesystem::exists(file)) return {};
  std::string bytes;
  {
    std::ifstream in(file, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
    if (in.bad() || !in.is_open()) throw Error(ErrorCode::failed, "cannot be read", file.native());
  }
  const std::size_t size = kept(bytes);
  if (size == bytes.size()) return bytes;
  std::error_code error;
  std::filesystem::resize_file(file, size, error);
  if (error) {
    throw Error(ErrorCode::failed,
                "cannot be cut to its first " + std::to_string(size) + " bytes: " + error.message(),
                file.native());
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace hydrascope::model::training
