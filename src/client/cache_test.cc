// The persistent cache: what is damaged, foreign or too much.
#include "client/cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "base/digest.h"
#include "base/file.h"
#include "client/build.h"
#include "client/test_util.h"

namespace weft::client {
namespace {

class CacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* base = std::getenv("TMPDIR");
    root_ = StrCat(base == nullptr ? "/tmp" : base, "/weft_cache_XXXXXX");
    ASSERT_NE(mkdtemp(root_.data()), nullptr);
  }
  void TearDown() override { (void)!system(StrCat("rm -rf '", root_, "'").c_str()); }
  std::unique_ptr<Cache> Open(int64_t limit = Cache::kDefaultLimit) {
    auto cache = Cache::Open(root_ + "/a/b", limit);
    if (!cache) ADD_FAILURE() << cache.error().ToString();
    return cache ? std::move(*cache) : nullptr;
  }
  std::string FileOf(std::string_view key) const {
    return StrCat(root_, "/a/b/weft-cache/", key, ".weft");
  }
  std::string root_;
};

TEST(DigestTest, KnownValues) {
  EXPECT_EQ(Digest::Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Digest::Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Digest::Hex(std::string(1000, 'a')),
            "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3");
}

TEST_F(CacheTest, StoresAndFinds) {
  auto cache = Open();
  EXPECT_FALSE(cache->Find("00").has_value());
  cache->Store("00", "value");
  EXPECT_EQ(cache->Find("00"), "value");
  cache->Store("00", "");
  EXPECT_EQ(cache->Find("00"), "");
  cache->Remove("00");
  EXPECT_FALSE(cache->Find("00").has_value());
  struct stat info;
  ASSERT_EQ(stat(cache->directory().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(CacheTest, DamageIsAMiss) {
  auto cache = Open();
  cache->Store("00", "a small value");
  std::string good = *ReadFile(FileOf("00"));
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= 1;
    ASSERT_TRUE(WriteFile(FileOf("00"), bad).has_value());
    EXPECT_FALSE(cache->Find("00").has_value()) << i;
    EXPECT_NE(access(FileOf("00").c_str(), F_OK), 0) << "still there";
    ASSERT_TRUE(WriteFile(FileOf("00"), good.substr(0, i)).has_value());
    EXPECT_FALSE(cache->Find("00").has_value()) << i;
  }
}

TEST_F(CacheTest, OthersFilesAreLeftAlone) {
  auto cache = Open();
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  cache->Store("00", "value");
  ASSERT_EQ(chown(FileOf("00").c_str(), 12345, 12345), 0);
  EXPECT_FALSE(cache->Find("00").has_value());
  ASSERT_EQ(symlink("/etc/passwd", FileOf("01").c_str()), 0);
  EXPECT_FALSE(cache->Find("01").has_value());
  ASSERT_EQ(chown(cache->directory().c_str(), 12345, 12345), 0);
  EXPECT_FALSE(Cache::Open(root_ + "/a/b").has_value());
}

// The directory that is given may be anything: it stays as it is, and so does what is in it.
TEST_F(CacheTest, TheGivenDirectoryStaysAsItIs) {
  ASSERT_EQ(mkdir((root_ + "/shared").c_str(), 0755), 0);
  ASSERT_EQ(chmod((root_ + "/shared").c_str(), 0755), 0);
  auto cache = Cache::Open(root_ + "/shared");
  ASSERT_TRUE(cache.has_value());
  struct stat info;
  ASSERT_EQ(stat((root_ + "/shared").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0755u);
  ASSERT_EQ(stat((*cache)->directory().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  // The folder itself is not used once others may write there.
  ASSERT_EQ(chmod((*cache)->directory().c_str(), 0777), 0);
  auto open = Cache::Open(root_ + "/shared");
  ASSERT_FALSE(open.has_value());
  EXPECT_TRUE(open.error().ToString().contains("open to other users"));
  EXPECT_TRUE(open.error().hint().contains("chmod 700"));
  ASSERT_EQ(stat((*cache)->directory().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0777u);
  // Nor where it is a link.
  ASSERT_EQ(mkdir((root_ + "/linked").c_str(), 0700), 0);
  ASSERT_EQ(symlink(root_.c_str(), (root_ + "/linked/weft-cache").c_str()), 0);
  EXPECT_FALSE(Cache::Open(root_ + "/linked").has_value());
}

TEST_F(CacheTest, ContentsAndClearing) {
  const std::string directory = root_ + "/a/b";
  EXPECT_EQ(LookIntoCache(directory).entries, 0);
  {
    auto cache = Open();
    cache->Store("cpu-00", std::string(1000, 'x'));
    cache->Store("0123", "module");
    cache->Store("facts-1", "a\tb\n");
    EXPECT_TRUE(cache->Find("0123").has_value());
    EXPECT_TRUE(cache->Find("0123").has_value());
    EXPECT_FALSE(cache->Find("0124").has_value());
    EXPECT_FALSE(cache->Find("facts-2").has_value());
  }
  {
    auto cache = Open();
    EXPECT_TRUE(cache->Find("cpu-00").has_value());
  }
  CacheContents contents = LookIntoCache(directory);
  EXPECT_EQ(contents.folder, directory + "/weft-cache");
  EXPECT_EQ(contents.entries, 3);
  EXPECT_EQ(contents.code, 1);
  EXPECT_EQ(contents.programs, 1);
  EXPECT_EQ(contents.facts, 1);
  EXPECT_GT(contents.bytes, 1000);
  EXPECT_GT(contents.oldest, 0);
  EXPECT_LE(contents.oldest, contents.newest);
  EXPECT_EQ(contents.hits, 3);
  EXPECT_EQ(contents.misses, 1);
  // What is not ours stays: other names, other contents, links.
  const std::string mine = directory + "/mine.weft", temporary = directory + "/.tmp.notes";
  ASSERT_TRUE(WriteFile(mine, "my own weaving pattern").has_value());
  ASSERT_TRUE(WriteFile(temporary, "x").has_value());
  ASSERT_TRUE(WriteFile(FileOf("notours"), "x").has_value());
  ASSERT_TRUE(WriteFile(directory + "/old.weft", *ReadFile(FileOf("0123"))).has_value());
  CacheCleared cleared = ClearCache(directory);
  EXPECT_EQ(cleared.files, 4);
  EXPECT_GT(cleared.bytes, 1000);
  EXPECT_TRUE(cleared.left.empty());
  for (const std::string& path : {mine, temporary, FileOf("notours")}) {
    EXPECT_EQ(access(path.c_str(), F_OK), 0) << path;
  }
  EXPECT_NE(access((directory + "/old.weft").c_str(), F_OK), 0);
  unlink(FileOf("notours").c_str());
  EXPECT_EQ(ClearCache(directory).files, 0);
  EXPECT_NE(access(contents.folder.c_str(), F_OK), 0) << "an empty folder goes too";
  EXPECT_EQ(access(directory.c_str(), F_OK), 0);
}

TEST_F(CacheTest, DirectoriesThatCannotBe) {
  ASSERT_TRUE(WriteFile(root_ + "/file", "x").has_value());
  EXPECT_FALSE(Cache::Open(root_ + "/file").has_value());
  EXPECT_FALSE(Cache::Open(root_ + "/file/below").has_value());
  EXPECT_FALSE(Cache::Open("/proc/weft").has_value());
  ClientOptions options;
  options.cache_directory = "/proc/weft";  // no reason not to work
  auto client = Client::Create(options);
  ASSERT_TRUE(client.has_value());
  EXPECT_EQ((*client)->cache(), nullptr);
  auto cache = Open();
  (void)!system(StrCat("rm -rf '", cache->directory(), "'").c_str());
  cache->Store("00", "value");
  EXPECT_FALSE(cache->Find("00").has_value());
}

TEST_F(CacheTest, TheLeastRecentlyUsedGo) {
  auto cache = Open(40'000);
  std::string value(1000, 'x');
  for (int i = 0; i < 30; ++i) {
    cache->Store(StrCat("k", i), value);
    timespec old[2] = {{1000 + i, 0}, {1000 + i, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, FileOf(StrCat("k", i)).c_str(), old, 0), 0);
  }
  for (int i = 30; i < 50; ++i) cache->Store(StrCat("k", i), value);
  EXPECT_TRUE(cache->Find("k0").has_value());                         // used just now
  for (int i = 50; i < 65; ++i) cache->Store(StrCat("k", i), value);  // the 65th looks
  EXPECT_TRUE(cache->Find("k0").has_value());
  EXPECT_FALSE(cache->Find("k1").has_value());
  EXPECT_TRUE(cache->Find("k64").has_value());
}

void HammerCache(const Cache& cache, int seed) {
  for (int i = 0; i < 200; ++i) {
    std::string key = StrCat("k", (i * 7 + seed) % 10);
    auto found = cache.Find(key);
    if (found && *found != std::string(5000, key.back())) _exit(3);
    cache.Store(key, std::string(5000, key.back()));
  }
}

TEST_F(CacheTest, ThreadsAndProcesses) {
  auto cache = Open();
  pid_t child = fork();
  if (child == 0) {
    HammerCache(*cache, 3);
    _exit(0);
  }
  std::thread one([&] { HammerCache(*cache, 1); }), two([&] { HammerCache(*cache, 2); });
  one.join(), two.join();
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(cache->Find(StrCat("k", i)).has_value());
}

// A program whose folding takes long is found again, also when its source lines moved.
TEST_F(CacheTest, Programs) {
  auto text = [](int line) {
    std::string out = "HloModule big\nENTRY main {\n  x0 = f32[8] parameter(0)\n";
    for (int i = 1; i <= 1200; ++i) {
      StrAppend(out, "  x", i, " = f32[8] ", i == 1200 ? "" : "", "add(x", i - 1, ", x0)");
      StrAppend(out, ", metadata={op_name=\"f\" source_file=\"a.py\" source_line=", line, "}\n");
    }
    StrAppend(out, "  ROOT r = f32[8] negate(x1200)\n}\n");
    return out;
  };
  ClientOptions options;
  options.cache_directory = root_ + "/programs";
  auto client = testing::MakeClient(options);
  auto first = testing::CompileText(*client, text(1));
  const std::string& key = first->executable()->fingerprint();
  client->cache()->Store(key, first->executable()->Serialize());
  auto second = testing::CompileText(*client, text(2));
  EXPECT_EQ(second->executable()->fingerprint(), key);
  EXPECT_TRUE(second->executable()->OptimizedText().contains("source_line=1"));  // the saved one
  client->cache()->Store(key, "not a program");
  auto third = testing::CompileText(*client, text(3));
  EXPECT_TRUE(third->executable()->OptimizedText().contains("source_line=3"));
  auto replaced = client->cache()->Find(key);
  ASSERT_TRUE(replaced.has_value()) << "what cannot be used is replaced";
  EXPECT_NE(*replaced, "not a program");
  auto fourth = testing::CompileText(*client, text(4));
  EXPECT_TRUE(fourth->executable()->OptimizedText().contains("source_line=3"));
}

// Objects that the checksum is right for and that are no code (say, of another compiler).
TEST_F(CacheTest, ObjectsThatCannotBeUsedAreReplaced) {
  const std::string program =
      "HloModule m\nENTRY main {\n  x = f32[8] parameter(0)\n  ROOT r = f32[8] sine(x)\n}\n";
  ClientOptions options;
  options.cache_directory = root_ + "/objects";
  auto client = testing::MakeClient(options);
  if (client->native_device() == nullptr) GTEST_SKIP() << "no native code in this build";
  testing::CompileText(*client, program);
  CacheContents before = LookIntoCache(options.cache_directory);
  ASSERT_GT(before.code, 0);
  std::vector<std::string> keys;
  const std::string list = StrCat("ls '", before.folder, "' | grep ^cpu- > '", root_, "/list'");
  ASSERT_EQ(system(list.c_str()), 0);
  const std::string names = *ReadFile(root_ + "/list");
  for (size_t at = 0; at < names.size(); at = names.find('\n', at) + 1) {
    std::string name = names.substr(at, names.find('\n', at) - at);
    EXPECT_TRUE(name.contains(SourceHash())) << "keyed by the compiler: " << name;
    keys.push_back(name.substr(0, name.size() - std::string_view(".weft").size()));
  }
  for (const std::string& key : keys) client->cache()->Store(key, "no object");
  auto again = testing::MakeClient(options);
  testing::CompileText(*again, program);
  for (const std::string& key : keys) EXPECT_NE(again->cache()->Find(key), "no object");
}

// A compiler of other sources has other keys, for modules as for code.
TEST_F(CacheTest, BuildsAreToldApart) {
  EXPECT_EQ(SourceHash().size(), 16u);
  auto client = testing::MakeClient({});
  EXPECT_TRUE(client->platform_version().contains(SourceHash()));
  EXPECT_FALSE(client->machine().empty());
}

}  // namespace
}  // namespace weft::client
