// SHA-256 (FIPS 180-4), by which a converted checkpoint names the file that it was made from. Free
// of LibTorch.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace hydrascope::checkpoint {

/// The digest as 64 lower-case hexadecimal digits.
std::string sha256(std::span<const std::byte> bytes);

/// The SHA-256 of a file's content. Throws as `MappedFile` does.
std::string sha256_of_file(const std::filesystem::path& file);

}  // namespace hydrascope::checkpoint
