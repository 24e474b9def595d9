#include "app/run/torchelastic.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <fstream>

namespace hydrascope::app {

void report_to_torchelastic(const std::string& message) noexcept {
  try {
    const char* file = std::getenv("TORCHELASTIC_ERROR_FILE");
    if (file == nullptr || *file == '\0') return;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
    // torchrun's summary shows "py_callstack", the rest is for its log.
    const nlohmann::json error = {
        {"message",
         {{"message", message},
          {"extraInfo", {{"py_callstack", message}, {"timestamp", std::to_string(seconds)}}}}}};
    std::ofstream(file) << error.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  } catch (const std::exception&) {
    return;
  }
}

}  // namespace hydrascope::app
