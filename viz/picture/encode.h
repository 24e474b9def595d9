// Canvas -> encoded file. OpenCV encodes where it is built in and can be loaded, stb_image_write PNG
// and JPEG else.
#pragma once

#include "viz/picture/canvas.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace hydrascope::viz {

/// ".jpg" of "a/B.JPG"; empty where there is none.
std::string lower_extension(std::string_view name);

enum class ImageFormat { png, jpeg };
/// By the extension of `name` (.png .jpg .jpeg); nothing for another one.
std::optional<ImageFormat> find_image_format(std::string_view name);
/// The same; throws Error(unsupported_format).
ImageFormat image_format(std::string_view name);
std::string_view extension(ImageFormat format);
/// Whether the format has room for edges of so many pixels.
bool fits(ImageFormat format, std::int64_t width, std::int64_t height);

/// The quality of JPEG, 1..100.
inline constexpr int kDefaultQuality = 90;
/// The picture says at its end that "hydrascope" made it. Throws Error(unsupported_format, out_of_memory, failed).
std::vector<std::byte> encode(const Canvas& canvas, ImageFormat format,
                              int quality = kDefaultQuality);
/// In the format of its extension, under a temporary name, then renamed. Throws also Error(unwritable) if writing
/// fails.
void write_image(const std::filesystem::path& file, const Canvas& canvas);
/// Begins to load what encodes on a thread of its own, while the caller does something else.
[[nodiscard]] std::jthread prepare_to_encode();

}  // namespace hydrascope::viz
