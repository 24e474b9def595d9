#include "model/image/opencv/modules.h"

#include "kernels/error.h"

#include <dlfcn.h>
#include <system_error>

namespace hydrascope::opencv {
namespace {

/// The table of the module's only function. The program's run path leads to the module. `package`
/// is Debian 12's package of the libraries that the module needs.
template <class Table>
const Table& load_table(const char* module, const char* function, const char* package) {
  // Never unloaded: not all of the codecs' libraries stand that.
  void* library = ::dlopen(module, RTLD_LAZY | RTLD_LOCAL);
  void* symbol = library == nullptr ? nullptr : ::dlsym(library, function);
  if (symbol == nullptr) {
    const char* reason = ::dlerror();
    throw Error(ErrorCode::unsupported_format,
                std::string("OpenCV cannot be loaded: ") +
                    (reason != nullptr ? reason : "unknown") +
                    "; Debian 12 has it in the package " + package,
                module);
  }
  return *reinterpret_cast<const Table* (*)()>(symbol)();
}

}  // namespace

const PictureCodecs& picture_codecs() {
  static const PictureCodecs& table = load_table<PictureCodecs>(
      "libhydrascope_opencv_pictures.so", "hydrascope_picture_codecs", "libopencv-imgcodecs406");
  return table;
}

const std::string& why_no_picture_codecs() {
  static const std::string why = [] {
    try {
      picture_codecs();
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  }();
  return why;
}

std::jthread load_picture_codecs_ahead() {
  try {
    return std::jthread([] { static_cast<void>(why_no_picture_codecs()); });
  } catch (const std::system_error&) {  // then they are loaded at their first use
    return {};
  }
}

const VideoCodecs& video_codecs() {
  static const VideoCodecs& table = load_table<VideoCodecs>(
      "libhydrascope_opencv_video.so", "hydrascope_video_codecs", "libopencv-videoio406");
  return table;
}

}  // namespace hydrascope::opencv
