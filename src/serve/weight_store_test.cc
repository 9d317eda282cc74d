// Weights that versions have in common.
#include "serve/weight_store.h"

#include <gtest/gtest.h>

#include <set>

#include "serve/test_model.h"

namespace weft::serve {
namespace {

using testing::Floats;
using testing::TempFolder;
using testing::WriteLinear;

TEST(ContentKey, DiffersWhereBytesDo) {
  std::string bytes(1000, '\0');
  std::set<ContentKey> seen;
  for (size_t size : {0, 1, 7, 8, 63, 64, 65, 1000}) {
    EXPECT_TRUE(seen.insert(ContentOf(std::string_view(bytes).substr(0, size))).second) << size;
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes[i] = static_cast<char>(1 << bit);
      EXPECT_TRUE(seen.insert(ContentOf(bytes)).second) << i;
    }
    bytes[i] = 0;
  }
  EXPECT_EQ(ContentOf(bytes), ContentOf(std::string(1000, '\0')));
}

TEST(WeightStore, SharesTheSameBytesAndLetsGo) {
  auto backend = testing::TestBackend();
  WeightStore store(*backend);
  auto first = store.Place(Floats({2, 2}, {1, 2, 3, 4}));
  ASSERT_TRUE(first);
  EXPECT_EQ(*store.Place(Floats({2, 2}, {1, 2, 3, 4})), *first);
  EXPECT_NE(*store.Place(Floats({2, 2}, {1, 2, 3, 5})), *first);
  EXPECT_NE(*store.Place(Floats({4}, {1, 2, 3, 4})), *first);  // another shape is another array
  EXPECT_EQ(store.shared(), 1);
  std::weak_ptr<const DeviceValue> gone = *first;
  first = DeviceValueRef();
  EXPECT_TRUE(gone.expired());
}

TEST(WeightStore, VersionsOfAModelShareWhatIsEqual) {
  TempFolder folder;
  WriteLinear(folder.path() + "/1", 0.5, 2);
  WriteLinear(folder.path() + "/2", 0.5, 3);  // `a` is the same
  Server server(testing::TestBackend(), DefaultServerOptions());
  VersionPolicy all{VersionPolicy::Kind::kAll};
  ASSERT_TRUE(server.models().SetConfig({{"m", folder.path(), all}}));
  EXPECT_EQ(server.models().shared_weights(), 1);
  for (int64_t version : {1, 2}) {
    InferRequest request{.model = {"m", version}};
    request.inputs.push_back({"x", Floats({1, 2}, {2, 4})});
    auto response = server.InferAndWait(std::move(request));
    ASSERT_TRUE(response);
    EXPECT_EQ(response->outputs[0].value.ToString(),
              version == 1 ? "{ { 3, 4 } }" : "{ { 4, 5 } }");
  }
}

}  // namespace
}  // namespace weft::serve
