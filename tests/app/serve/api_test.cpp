#include "app/serve/api.h"

#include "app/http/metrics.h"

#include <gtest/gtest.h>

namespace hydrascope::app {
namespace {

TEST(ServeApi, BodiesHoldNoMoreBytesThanTheyMay) {
  ServeMetrics metrics;
  ApiOptions options;
  options.most_bytes = 100;
  ServeApi api(options, metrics, nullptr);
  EXPECT_FALSE(api.hold(60));
  const std::optional<HttpResponse> refusal = api.hold(41);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->status, 503);
  EXPECT_NE(refusal->body.find("busy"), std::string::npos);
  EXPECT_FALSE(api.hold(40)) << "what was refused does not count";
  EXPECT_TRUE(api.hold(1));
  api.release(60);
  EXPECT_FALSE(api.hold(60));
}

TEST(ServeApi, RefusesBeforeTheBodyComes) {
  ServeMetrics metrics;
  ServeApi api({}, metrics, nullptr);
  const auto status = [&](const std::string& method, const std::string& path,
                          std::vector<std::pair<std::string, std::string>> query = {}) {
    const auto refusal = api.admit({method, path, std::move(query)}, /*has_body=*/true);
    return refusal ? refusal->status : 200;
  };
  EXPECT_EQ(status("POST", "/v1/classify"), 200);
  EXPECT_EQ(status("POST", "/v1/nothing"), 404);
  EXPECT_EQ(status("GET", "/v1/classify"), 405);
  EXPECT_EQ(status("GET", "/healthz"), 413);
  EXPECT_EQ(status("POST", "/v1/explain", {{"topk", "20"}}), 200);
  EXPECT_EQ(status("POST", "/v1/explain", {{"topk", "20"}, {"class", "1"}}), 400);
  EXPECT_EQ(status("POST", "/v1/explain", {{"patch", "0,0"}, {"layer", "0"}}), 200);
  EXPECT_EQ(status("POST", "/v1/explain", {{"patch", "0,0"}, {"layer", "0"}, {"head", "1"}}), 400);
}

}  // namespace
}  // namespace hydrascope::app
