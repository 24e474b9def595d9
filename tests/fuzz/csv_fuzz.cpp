// Labels of pictures: --labels-csv, then --real-labels.
#include "app/pictures/labelled_set.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace fuzz = hydrascope::fuzz;
  namespace app = hydrascope::app;
  constexpr std::int64_t kClasses = 3;
  static const fuzz::Folder kFolder;
  static const auto kLabels = hydrascope::image::Labels::parse(
      "n01440764 tench, Tinca tinca\nn01443537 goldfish\nn01484850 shark\n", "fuzz");
  const auto parts = fuzz::parts_of(fuzz::as_text(data, size), 2);
  const auto check = [](const app::LabelledSet& set) {
    for (const app::LabelledPicture& picture : set.pictures) {
      fuzz::require(picture.target >= app::kNoClass && picture.target < kClasses,
                    "targets are classes");
      for (const std::int64_t index : picture.valid)
        fuzz::require(index >= 0 && index < kClasses, "valid labels are classes");
    }
  };
  app::LabelledSet set;
  const auto csv = kFolder.write("labels.csv", parts[0]);
  if (!fuzz::gives_result([&] { check(set = app::read_labels_csv(csv, kFolder.path(), kLabels)); }))
    set.pictures.assign(2, {"ILSVRC2012_val_00000002.JPEG", 1, {}});
  const auto real = kFolder.write("real.json", parts[1]);
  fuzz::gives_result([&] {
    app::read_real_labels(real, kClasses, set);
    check(set);
  });
  return 0;
}
