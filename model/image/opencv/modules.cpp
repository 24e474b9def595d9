#include "model/image/opencv/modules.h"

#include "kernels/error.h"

#include <dlfcn.h>

namespace hydrascope::opencv {
namespace {

/// The table that the module's only function gives. The run path of the program leads to it.
template <class Table>
const Table& load_table(const char* module, const char* function) {
  // For good: the codecs' libraries do not all stand being unloaded.
  void* library = ::dlopen(module, RTLD_LAZY | RTLD_LOCAL);
  void* symbol = library == nullptr ? nullptr : ::dlsym(library, function);
  if (symbol == nullptr) {
    const char* reason = ::dlerror();
    throw Error(ErrorCode::failed,
                std::string("OpenCV cannot be loaded: ") + (reason != nullptr ? reason : "unknown"),
                module);
  }
  return *reinterpret_cast<const Table* (*)()>(symbol)();
}

}  // namespace

const PictureCodecs& picture_codecs() {
  static const PictureCodecs& table =
      load_table<PictureCodecs>("libhydrascope_opencv_pictures.so", "hydrascope_picture_codecs");
  return table;
}

std::jthread load_picture_codecs_ahead() {
  return std::jthread([] {
    try {
      picture_codecs();
    } catch (const Error&) {
      // Whoever needs them is told.
    }
  });
}

const VideoCodecs& video_codecs() {
  static const VideoCodecs& table =
      load_table<VideoCodecs>("libhydrascope_opencv_video.so", "hydrascope_video_codecs");
  return table;
}

}  // namespace hydrascope::opencv
