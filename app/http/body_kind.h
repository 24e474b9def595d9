// The kind of a body that is no picture, told to its sender.
#pragma once

#include "kernels/error.h"

#include <optional>
#include <string>
#include <string_view>

namespace hydrascope::app {

/// The kind of a body that could not be decoded (`code`), in its sender's own words (`type`, a media type
/// in lower case, may be "") or by its first characters, and how a picture is sent; nothing where
/// the decoder knows better. A picture that `curl -d` has taken bytes from is no broken picture, but a wrong
/// form.
std::optional<std::string> complaint_about(std::string_view body, std::string_view type,
                                           ErrorCode code);

}  // namespace hydrascope::app
