#include "app/http/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hydrascope::app {
namespace {

using ::testing::HasSubstr;

TEST(ServeMetrics, HistogramsAreCumulative) {
  ServeMetrics metrics;
  metrics.batch(1, 0.003);
  metrics.batch(8, 0.5);
  metrics.batch(8, 100);
  const std::string text = metrics.text({});
  for (const char* line :
       {"# TYPE hydrascope_batch_images histogram\n",
        "hydrascope_batch_images_bucket{le=\"1\"} 1\n",
        "hydrascope_batch_images_bucket{le=\"4\"} 1\n",
        "hydrascope_batch_images_bucket{le=\"8\"} 3\n",
        "hydrascope_batch_images_bucket{le=\"+Inf\"} 3\n", "hydrascope_batch_images_sum 17\n",
        "hydrascope_batch_images_count 3\n", "hydrascope_batch_seconds_bucket{le=\"0.0025\"} 0\n",
        "hydrascope_batch_seconds_bucket{le=\"0.5\"} 2\n",
        "hydrascope_batch_seconds_bucket{le=\"30\"} 2\n", "hydrascope_batch_seconds_sum 100.503\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

TEST(ServeMetrics, RequestsByRouteAndStatus) {
  ServeMetrics metrics;
  metrics.request("/v1/classify", 200, 0.2);
  metrics.request("/v1/classify", 200, 0.2);
  metrics.request("/v1/classify", 503, 0);
  metrics.picture(false);
  metrics.picture(true);
  const std::string text = metrics.text({.waiting = 3, .most_waiting = 16, .held_bytes = 5});
  for (const char* line : {"hydrascope_requests_total{route=\"/v1/classify\",status=\"200\"} 2\n",
                           "hydrascope_requests_total{route=\"/v1/classify\",status=\"503\"} 1\n",
                           "hydrascope_request_seconds_count{route=\"/v1/classify\"} 3\n",
                           "hydrascope_pictures_total 2\n", "hydrascope_pictures_failed_total 1\n",
                           "hydrascope_queue_requests 3\n", "hydrascope_queue_limit_requests 16\n",
                           "hydrascope_queue_bytes 5\n"})
    EXPECT_THAT(text, HasSubstr(line));
  EXPECT_GT(resident_bytes(), 1000000);
}

}  // namespace
}  // namespace hydrascope::app
