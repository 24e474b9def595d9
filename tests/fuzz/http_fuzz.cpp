// The server's readers of requests: the target, the query, Accept, the Content-Type, and a form's
// body.
#include "app/http/http_text.h"
#include "tests/fuzz/fuzz.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace fuzz = hydrascope::fuzz;
  namespace app = hydrascope::app;
  constexpr std::size_t kMostParts = 4;
  const auto parts = fuzz::parts_of(fuzz::as_text(data, size), 3);

  const std::string decoded = app::decoded_url(parts[0], false);
  fuzz::require(decoded.size() <= parts[0].size(), "decoding adds nothing");
  if (parts[0].find('%') == std::string_view::npos)
    fuzz::require(decoded == parts[0], "what is no escape stays");
  std::size_t length = 0;
  for (const auto& [name, value] : app::parse_query(parts[0])) length += name.size() + value.size();
  fuzz::require(length <= parts[0].size(), "a query's fields are in it");

  const app::Target target = app::split_target(parts[0]);
  fuzz::require(
      target.path.size() + target.query.size() <= std::max<std::size_t>(parts[0].size(), 1),
      "a target's parts are in it");
  constexpr std::array<std::string_view, 2> kOffered{"application/json", "image/png"};
  const std::string_view type = app::accepted_type(parts[1], kOffered);
  fuzz::require(std::ranges::find(kOffered, type) != kOffered.end(), "what is offered is taken");

  std::optional<std::string> boundary;
  fuzz::gives_result([&] { boundary = app::form_boundary(parts[1]); });
  const std::string_view body = parts[2];
  fuzz::gives_result([&] {
    const auto form = app::parse_form(body, boundary.value_or("b"), kMostParts);
    fuzz::require(form.size() <= kMostParts, "no more parts than are allowed");
    const char* at = body.data();
    for (const app::FormPart& part : form) {
      const char* begin = part.content.data();
      const char* end = begin + part.content.size();
      fuzz::require(
          std::less_equal<>()(at, begin) && std::less_equal<>()(end, body.data() + body.size()),
          "parts lie in the body, one after the other");
      at = end;
    }
  });
  return 0;
}
