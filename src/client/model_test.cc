// Buffers and executions on one device.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "base/file.h"
#include "client/cost.h"
#include "client/strided.h"
#include "client/test_util.h"

namespace weft::client {
namespace {

using testing::Call;
using testing::CompileText;
using testing::F32;
using testing::Floats;
using testing::MakeClient;
using testing::RunOne;

using Values = std::vector<float>;

constexpr char kAddText[] = R"(HloModule add
ENTRY main {
  a = f32[2] parameter(0)
  b = f32[2] parameter(1)
  ROOT c = f32[2] add(a, b)
})";
// Long enough not to run on the caller's thread, and its root may reuse the parameter's bytes.
constexpr char kLoopText[] = R"(HloModule loop, input_output_alias={ {}: (0, {}, may-alias) }
body {
  p = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[2] get-tuple-element(p), index=1
  one = s32[] constant(1)
  ones = f32[2] constant({1, 1})
  j = s32[] add(i, one)
  y = f32[2] add(x, ones)
  ROOT t = (s32[], f32[2]) tuple(j, y)
}
condition {
  p = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(STEPS)
  ROOT r = pred[] compare(i, n), direction=LT
}
ENTRY main {
  x = f32[2] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[2]) tuple(zero, x)
  w = (s32[], f32[2]) while(t), condition=condition, body=body
  ROOT r = f32[2] get-tuple-element(w), index=1
})";

std::string LoopText(int64_t steps) {
  std::string text = kLoopText;
  text.replace(text.find("STEPS"), 5, std::to_string(steps));
  return text;
}

TEST(Event, RunsWaitersInOrderAndAcrossThreads) {
  Event event;
  std::vector<int> order;
  event.OnReady([&](const Status&) { order.push_back(1); });
  event.OnReady([&](const Status&) { order.push_back(2); });
  EXPECT_FALSE(event.IsReady());
  std::thread setter([&] { event.Set({}); });
  EXPECT_TRUE(event.Await().has_value());
  setter.join();
  event.OnReady([&](const Status&) { order.push_back(3); });
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_TRUE(Event::Done()->IsReady());
  EXPECT_FALSE(Event::Failed(Error(Code::kAborted, "no"))->Await().has_value());
}

TEST(Event, AllOfTakesTheFirstError) {
  std::vector<EventRef> events;
  for (int i = 0; i < 4; ++i) events.push_back(std::make_shared<Event>());
  EventRef all = AllOf(events);
  events[3]->Set(MakeError(Code::kAborted, "three"));
  events[0]->Set({});
  events[2]->Set({});
  EXPECT_FALSE(all->IsReady());
  events[1]->Set(MakeError(Code::kAborted, "one"));
  ASSERT_TRUE(all->IsReady());
  EXPECT_EQ(all->status().error().message(), "one");
  EXPECT_TRUE(AllOf({})->IsReady());
}

TEST(Executor, BlockedTasksDoNotHoldUpOthers) {
  Executor executor(1);
  Event inner, outer;
  executor.Schedule([&] {
    executor.Schedule([&] { inner.Set({}); });
    inner.Await();
    outer.Set({});
  });
  outer.Await();
}

TEST(Executor, RunsEverythingBeforeItGoes) {
  std::atomic<int> count = 0;
  {
    Executor executor(3);
    for (int i = 0; i < 1000; ++i) {
      executor.Schedule([&] {
        if (count.fetch_add(1) % 100 == 0) executor.Schedule([&] { ++count; });
      });
    }
  }
  EXPECT_GE(count, 1000);
}

TEST(Buffer, EveryTypeGoesInAndOut) {
  auto client = MakeClient();
  Memory* memory = client->devices()[0]->default_memory();
  for (int t = 1; t < kDTypeCount; ++t) {
    DType dtype = static_cast<DType>(t);
    if (!IsArrayType(dtype)) continue;
    Shape shape(dtype, {3, 5});
    std::vector<unsigned char> in(static_cast<size_t>(shape.ByteSize())), out(in.size());
    // Bytes that hold one element of fewer bits hold values of the type.
    size_t values = dtype == DType::kPred || dtype == DType::kU1 ? 2
                    : dtype == DType::kS1                        ? 1
                    : dtype == DType::kS2                        ? 2
                    : dtype == DType::kU2                        ? 4
                                                                 : 7;
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<unsigned char>(i % values);
    for (int semantics = 0; semantics < 4; ++semantics) {
      EventRef done;
      HostArray host{in.data(), shape, {}, static_cast<HostSemantics>(semantics)};
      auto buffer = BufferFromHost(memory, host, &done);
      ASSERT_TRUE(buffer.has_value());
      std::memset(out.data(), 0, out.size());
      EXPECT_TRUE((*buffer)->CopyToHost(out.data(), shape.ByteSize())->Await().has_value());
      EXPECT_EQ(in, out) << Name(dtype);
      buffer->reset();
      EXPECT_TRUE(done->IsReady());
    }
  }
  EXPECT_EQ(memory->use().bytes, 0);
  EXPECT_GT(memory->use().peak_bytes, 0);
}

// Element by element, as the definition says.
void CheckStrides(std::vector<int64_t> dims, std::vector<size_t> order, int64_t width) {
  std::vector<int64_t> strides(dims.size());
  int64_t bytes = width;
  for (size_t d : order) strides[d] = bytes, bytes *= dims[d];
  std::vector<std::byte> from(static_cast<size_t>(bytes)), to(from.size());
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 31 + i / 251);
  Dims dense = RowMajorStrides(dims, width);
  CopyStrided(dims, width, to.data(), dense, from.data(), strides);
  std::vector<int64_t> index(dims.size());
  for (int64_t n = 0; n < bytes / width; ++n) {
    int64_t rest = n, offset = 0;
    for (size_t d = dims.size(); d-- > 0; rest /= dims[d]) offset += rest % dims[d] * strides[d];
    ASSERT_EQ(std::memcmp(to.data() + n * width, from.data() + offset, width), 0) << n;
  }
  std::vector<std::byte> back(from.size());
  CopyStrided(dims, width, back.data(), strides, to.data(), dense);
  EXPECT_EQ(back, from);
}

TEST(Buffer, Strides) {
  for (int64_t width : {1, 2, 4, 8, 16}) {
    CheckStrides({}, {}, width);
    CheckStrides({40, 70}, {0, 1}, width);
    CheckStrides({40, 70}, {1, 0}, width);
    CheckStrides({3, 5, 70}, {0, 2, 1}, width);
    CheckStrides({3, 5, 1, 70}, {1, 0, 3, 2}, width);
    CheckStrides({33, 2, 3, 4}, {2, 0, 3, 1}, width);
  }
  auto client = MakeClient();
  Memory* memory = client->devices()[0]->default_memory();
  Values in = {0, 1, 2, 3, 4, 5};
  std::vector<int64_t> reversed = {-8, 4}, transposed = {4, 8};
  EventRef done;
  HostArray host{in.data() + 4, Shape(DType::kF32, {3, 2}), reversed};
  EXPECT_EQ(Floats(**BufferFromHost(memory, host, &done)), (Values{4, 5, 2, 3, 0, 1}));
  host = {in.data(), Shape(DType::kF32, {2, 3}), transposed, HostSemantics::kImmutableZeroCopy};
  auto buffer = BufferFromHost(memory, host, &done);
  EXPECT_TRUE(done->IsReady());  // copied
  EXPECT_EQ(Floats(**buffer), (Values{0, 2, 4, 1, 3, 5}));
  Values out(6);
  EXPECT_TRUE((*buffer)->CopyToHost(out.data(), 24, transposed)->Await().has_value());
  EXPECT_EQ(out, in);
  EXPECT_FALSE((*buffer)->CopyToHost(out.data(), 20, transposed)->Await().has_value());
  EXPECT_FALSE((*buffer)->CopyToHost(out.data(), 20)->Await().has_value());
  EXPECT_FALSE((*buffer)->CopyRawToHost(out.data(), 20, 8)->Await().has_value());
  EXPECT_TRUE((*buffer)->CopyRawToHost(out.data(), 20, 4)->Await().has_value());
  EXPECT_EQ(out[0], 5);
}

TEST(Buffer, LargeCopiesComeLater) {
  auto client = MakeClient();
  Values in(1 << 20, 3);
  EventRef done;
  HostArray host{in.data(),
                 Shape(DType::kF32, {1 << 20}),
                 {},
                 HostSemantics::kImmutableUntilTransferCompletes};
  auto buffer = BufferFromHost(client->devices()[0]->default_memory(), host, &done);
  EXPECT_TRUE(done->Await().has_value());
  in.assign(in.size(), 4);
  EXPECT_EQ(Floats(**buffer)[77], 3);
}

TEST(Buffer, DeletedAndExternal) {
  auto client = MakeClient();
  auto buffer = F32(*client, {1, 2}, {2});
  ASSERT_TRUE(buffer->AddExternalReference().has_value());
  const void* address = *buffer->Address();
  buffer->Delete();
  buffer->Delete();
  EXPECT_TRUE(buffer->IsDeleted());
  EXPECT_EQ(static_cast<const float*>(address)[1], 2);
  EXPECT_TRUE(buffer->DropExternalReference().has_value());
  EXPECT_FALSE(buffer->DropExternalReference().has_value());
  EXPECT_FALSE(buffer->Address().has_value());
  EXPECT_TRUE(buffer->ready()->IsReady());
  float out[2];
  EXPECT_FALSE(buffer->CopyToHost(out, 8)->Await().has_value());
}

TEST(Buffer, OtherMemoriesAndTransfers) {
  ClientOptions options;
  options.cpu_devices = 2;
  auto client = MakeClient(options);
  auto buffer = F32(*client, {1, 2}, {2});
  Memory* other = client->devices()[1]->FindMemory("pinned_host");
  auto copy = buffer->CopyTo(other);
  buffer.reset();
  EXPECT_EQ(Floats(**copy), (Values{1, 2}));
  EXPECT_EQ((*copy)->memory(), other);
  auto transfer = HostTransfer::Create(other, {Shape(DType::kF32, {2}), Shape(DType::kF32, {1})});
  auto first = (*transfer)->TakeBuffer(0), second = (*transfer)->TakeBuffer(1);
  EXPECT_FALSE((*transfer)->TakeBuffer(1).has_value());
  EXPECT_FALSE((*transfer)->TakeBuffer(2).has_value());
  float values[2] = {5, 6};
  EXPECT_TRUE((*transfer)->TransferRaw(0, values, 4, 4, false).has_value());
  EXPECT_FALSE((*first)->ready()->IsReady());
  EXPECT_FALSE((*transfer)->TransferRaw(0, values, 5, 4, true).has_value());
  EXPECT_TRUE((*transfer)->TransferRaw(0, values + 1, 0, 4, true).has_value());
  EXPECT_FALSE((*transfer)->TransferRaw(0, values, 0, 4, true).has_value());
  EXPECT_EQ(Floats(**first), (Values{6, 5}));
  transfer->reset();
  EXPECT_FALSE((*second)->ready()->Await().has_value());
}

TEST(Buffer, MemoryLimit) {
  ClientOptions options;
  options.memory_limit = 1000;
  auto client = MakeClient(options);
  auto fits = F32(*client, Values(200), {200});
  EventRef done;
  HostArray host{fits.get(), Shape(DType::kF32, {100})};
  auto larger = BufferFromHost(client->devices()[0]->default_memory(), host, &done);
  ASSERT_FALSE(larger.has_value());
  EXPECT_EQ(larger.error().code(), Code::kResourceExhausted);
  EXPECT_NE(larger.error().message().find("800 bytes of 1.0 kB"), std::string::npos);
}

// Programs that run on the caller's thread are held to it too.
TEST(Buffer, MemoryLimitOfTinyPrograms) {
  ClientOptions options;
  options.memory_limit = 20;
  auto client = MakeClient(options);
  auto add = CompileText(*client, kAddText);
  auto a = F32(*client, {1, 2}, {2}), b = F32(*client, {10, 20}, {2});
  auto result = Call(*add, {a.get(), b.get()});
  ASSERT_TRUE(result.has_value());
  Status done = result->done[0]->Await();
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code(), Code::kResourceExhausted);
  EXPECT_NE(done.error().message().find("16 bytes of 20 bytes"), std::string::npos);
}

TEST(Execute, AddsHere) {
  auto client = MakeClient();
  auto add = CompileText(*client, kAddText);
  auto a = F32(*client, {1, 2}, {2}), b = F32(*client, {10, 20}, {2});
  auto result = Call(*add, {a.get(), b.get()});
  ASSERT_TRUE(result.has_value());
  EXPECT_TRUE(result->done[0]->IsReady());
  EXPECT_EQ(Floats(*result->outputs[0][0]), (Values{11, 22}));
  EXPECT_EQ(Floats(*RunOne(*add, {a.get(), a.get()})), (Values{2, 4}));
  EXPECT_EQ(add->executable()->name(), "add");
  EXPECT_EQ(add->executable()->outputs().size(), 1u);
  EXPECT_EQ(add->executable()->cost().flops, 2);
  EXPECT_EQ(add->executable()->memory().argument_bytes, 16);
}

TEST(Execute, WrongArgumentsAreNamed) {
  ClientOptions options;
  options.cpu_devices = 2;
  auto client = MakeClient(options);
  auto add = CompileText(*client, kAddText);
  auto a = F32(*client, {1, 2}, {2}), longer = F32(*client, {1, 2, 3}, {3});
  auto there = F32(*client, {1, 2}, {2}, 1);
  auto message = [&](std::vector<Buffer*> arguments) {
    auto result = Call(*add, std::move(arguments));
    return result ? "fine" : result.error().message();
  };
  EXPECT_EQ(message({a.get()}), "execute add: 1 arguments, the program takes 2");
  EXPECT_EQ(message({a.get(), longer.get()}),
            "execute add: argument 1 has shape f32[3], the program expects f32[2]");
  EXPECT_EQ(message({a.get(), nullptr}), "execute add: argument 1 is missing");
  EXPECT_EQ(message({a.get(), there.get()}),
            "execute add: argument 1 is on WeftDevice(id=1), the program runs on WeftDevice(id=0)");
  a->Delete();
  EXPECT_EQ(message({a.get(), a.get()}),
            "execute add: argument 0: buffer has been deleted or donated: f32[2]");
  add->Delete();
  EXPECT_EQ(message({}), "execute add: the executable was deleted");
}

TEST(Execute, ChainsWithoutWaiting) {
  ClientOptions options;
  options.threads = 2;
  auto client = MakeClient(options);
  auto loop = CompileText(*client, LoopText(1000));
  auto add = CompileText(*client, kAddText);
  auto x = F32(*client, {0, 0}, {2});
  for (int i = 0; i < 5; ++i) {
    Buffer* before = x.get();
    auto next = RunOne(*loop, {before});
    EXPECT_TRUE(before->IsDeleted());
    x = RunOne(*add, {next.get(), next.get()});  // `next` is deleted while it is being computed
  }
  double expected = 0;
  for (int i = 0; i < 5; ++i) expected = 2 * (expected + 1000);
  EXPECT_EQ(Floats(*x), (Values(2, static_cast<float>(expected))));
}

TEST(Execute, ErrorsReachEveryOutput) {
  auto client = MakeClient();
  auto add = CompileText(*client, kAddText);
  Memory* memory = client->devices()[0]->default_memory();
  auto bad = ErrorBuffer(memory, Shape(DType::kF32, {2}), Error(Code::kAborted, "lost"));
  auto sum = RunOne(*add, {bad.get(), bad.get()});
  EXPECT_EQ(sum->ready()->Await().error().message(), "lost");
  // A long chain behind something that is not there yet does not unwind on one stack.
  auto transfer = std::move(*HostTransfer::Create(memory, {Shape(DType::kF32, {2})}));
  auto x = std::move(*transfer->TakeBuffer(0));
  for (int i = 0; i < 20000; ++i) x = RunOne(*add, {x.get(), x.get()});
  EXPECT_FALSE(x->ready()->IsReady());
  ASSERT_TRUE(transfer->SetError(0, Error(Code::kAborted, "gone")).has_value());
  EXPECT_EQ(x->ready()->Await().error().message(), "gone");
  EXPECT_FALSE(x->Address().has_value());
  EXPECT_FALSE(x->AddExternalReference().has_value());
}

constexpr char kDonatesText[] = R"(HloModule donates, buffer_donor={ (0, {}) }
ENTRY main {
  a = f32[2] parameter(0)
  b = f32[2] parameter(1)
  ROOT c = f32[2] add(a, b)
})";

TEST(Execute, Donation) {
  auto client = MakeClient();
  auto program = CompileText(*client, kDonatesText);
  auto a = F32(*client, {1, 2}, {2}), b = F32(*client, {3, 4}, {2});
  auto twice = Call(*program, {a.get(), a.get()});
  ASSERT_FALSE(twice.has_value());
  EXPECT_NE(twice.error().message().find("donate the same buffer twice"), std::string::npos);
  EXPECT_FALSE(a->IsDeleted());
  EXPECT_TRUE(Call(*program, {a.get(), a.get()}, {0}).has_value());
  EXPECT_FALSE(a->IsDeleted());
  auto sum = RunOne(*program, {a.get(), b.get()});
  EXPECT_TRUE(a->IsDeleted());
  EXPECT_FALSE(b->IsDeleted());
  EXPECT_EQ(Floats(*sum), (Values{4, 6}));
  EXPECT_FALSE(Call(*program, {a.get(), b.get()}).has_value());
}

TEST(Execute, ManyArgumentsDonatedTwice) {
  auto client = MakeClient();
  std::string text = "HloModule many, buffer_donor={ (70, {}) }\nENTRY main {\n";
  for (int i = 0; i < 80; ++i) StrAppend(text, "  p", i, " = f32[] parameter(", i, ")\n");
  StrAppend(text, "  ROOT r = f32[] add(p3, p70)\n}\n");
  auto program = CompileText(*client, text);
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<Buffer*> arguments;
  for (int i = 0; i < 80; ++i) {
    buffers.push_back(F32(*client, {float(i)}, {}));
    arguments.push_back(buffers.back().get());
  }
  arguments[5] = arguments[4];  // not donated: fine
  arguments[20] = arguments[70];
  EXPECT_FALSE(Call(*program, arguments).has_value());
  arguments[20] = arguments[4];
  EXPECT_EQ(Floats(*RunOne(*program, arguments)), (Values{73}));
}

TEST(Execute, HostMemoryIsNeverWrittenTo) {
  auto client = MakeClient();
  auto program = CompileText(*client, kDonatesText);
  auto identity = CompileText(*client, R"(HloModule identity, buffer_donor={ (0, {}) }
ENTRY main { ROOT a = f32[2] parameter(0) })");
  alignas(64) float data[2] = {1, 2};
  Memory* memory = client->devices()[0]->default_memory();
  EventRef done;
  HostArray host{data, Shape(DType::kF32, {2}), {}, HostSemantics::kImmutableZeroCopy};
  auto a = std::move(*BufferFromHost(memory, host, &done));
  EXPECT_EQ(*a->Address(), data);
  EXPECT_FALSE(done->IsReady());
  auto same = RunOne(*identity, {a.get()});
  auto b = F32(*client, {3, 4}, {2});
  auto sum = RunOne(*program, {same.get(), b.get()});
  EXPECT_EQ(Floats(*sum), (Values{4, 6}));
  EXPECT_EQ(data[0], 1);
  EXPECT_EQ(data[1], 2);
  EXPECT_TRUE(done->IsReady());
  host.semantics = HostSemantics::kMutableZeroCopy;
  a = std::move(*BufferFromHost(memory, host, &done));
  sum = RunOne(*program, {a.get(), b.get()});
  EXPECT_EQ(Floats(*sum), (Values{4, 6}));
  sum.reset();
  EXPECT_TRUE(done->IsReady());
}

// Arrays of a few elements are not worth it.
TEST(Execute, DonatedBytesAreTheResults) {
  auto client = MakeClient();
  auto program = CompileText(*client, R"(HloModule donates, buffer_donor={ (0, {}) }
ENTRY main {
  a = f32[4096] parameter(0)
  b = f32[4096] parameter(1)
  ROOT c = f32[4096] add(a, b)
})");
  auto a = F32(*client, Values(4096, 1), {4096}), b = F32(*client, Values(4096, 2), {4096});
  const void* address = *a->Address();
  auto sum = RunOne(*program, {a.get(), b.get()});
  EXPECT_EQ(Floats(*sum), Values(4096, 3));
  EXPECT_EQ(*sum->Address(), address);
  // Memory of the host that was lent for writing too, and such that was not.
  alignas(64) static float data[4096] = {};
  Memory* memory = client->devices()[0]->default_memory();
  HostArray host{data, Shape(DType::kF32, {4096}), {}, HostSemantics::kMutableZeroCopy};
  EventRef done;
  a = std::move(*BufferFromHost(memory, host, &done));
  sum = RunOne(*program, {a.get(), b.get()});
  EXPECT_EQ(*sum->Address(), data);
  EXPECT_FALSE(done->IsReady());
  sum.reset();
  EXPECT_TRUE(done->IsReady());
  EXPECT_EQ(data[5], 2);
  host.semantics = HostSemantics::kImmutableZeroCopy;
  a = std::move(*BufferFromHost(memory, host, &done));
  sum = RunOne(*program, {a.get(), b.get()});
  EXPECT_EQ(Floats(*sum), Values(4096, 4));
  EXPECT_NE(*sum->Address(), data);
  EXPECT_EQ(data[5], 2);
}

TEST(Execute, ADonatedUpdateIsInPlace) {
  auto client = MakeClient();
  auto program =
      CompileText(*client, R"(HloModule update, input_output_alias={ {}: (0, {}, may-alias) }
combine { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }
ENTRY main {
  x = f32[100000] parameter(0)
  at = s32[1] constant({7})
  one = f32[] constant(1)
  ROOT y = f32[100000] scatter(x, at, one), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=combine
})");
  auto x = F32(*client, Values(100000), {100000});
  for (int i = 0; i < 3; ++i) {
    const void* address = *x->Address();
    auto y = RunOne(*program, {x.get()});
    EXPECT_EQ(*y->Address(), address);
    x = std::move(y);
  }
  EXPECT_EQ(Floats(*x)[7], 1);
}

TEST(Execute, ExternalReferencesSurviveDonation) {
  auto client = MakeClient();
  auto program = CompileText(*client, kDonatesText);
  auto a = F32(*client, {1, 2}, {2}), b = F32(*client, {3, 4}, {2});
  ASSERT_TRUE(a->AddExternalReference().has_value());
  auto* seen = static_cast<const float*>(*a->Address());
  auto sum = RunOne(*program, {a.get(), b.get()});
  EXPECT_TRUE(a->IsDeleted());
  EXPECT_EQ(seen[0], 1);
  EXPECT_EQ(Floats(*sum), (Values{4, 6}));
}

TEST(Execute, OutputsDoNotShareBytes) {
  auto client = MakeClient();
  auto program = CompileText(*client, R"(HloModule shared
ENTRY main {
  a = f32[2] parameter(0)
  k = f32[2] constant({7, 8})
  ROOT t = (f32[2], f32[2], f32[2], f32[2]) tuple(a, a, k, k)
})");
  auto a = F32(*client, {1, 2}, {2});
  auto result = Call(*program, {a.get()});
  ASSERT_TRUE(result.has_value());
  std::vector<const void*> addresses = {*a->Address()};
  for (auto& output : result->outputs[0]) {
    const void* address = *output->Address();
    EXPECT_EQ(std::count(addresses.begin(), addresses.end(), address), 0);
    addresses.push_back(address);
  }
  EXPECT_EQ(Floats(*result->outputs[0][1]), (Values{1, 2}));
  EXPECT_EQ(Floats(*result->outputs[0][3]), (Values{7, 8}));
}

TEST(Execute, ALoopEndsWithItsClient) {
  auto client = MakeClient();
  auto loop = CompileText(*client, LoopText(2'000'000'000));
  auto x = F32(*client, {0, 0}, {2});
  auto y = RunOne(*loop, {x.get()});
  EventRef ready = y->ready();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  y.reset(), x.reset(), loop.reset();
  client.reset();
  ASSERT_TRUE(ready->IsReady());
  EXPECT_EQ(ready->status().error().code(), Code::kCancelled);
}

TEST(Execute, WorkThatWaitsWhenItsClientGoes) {
  auto client = MakeClient();
  auto add = CompileText(*client, kAddText);
  Memory* memory = client->devices()[0]->default_memory();
  auto transfer = std::move(*HostTransfer::Create(memory, {Shape(DType::kF32, {2})}));
  auto x = std::move(*transfer->TakeBuffer(0));
  auto y = RunOne(*add, {x.get(), x.get()});
  EventRef ready = y->ready();
  x.reset(), y.reset(), add.reset();
  client.reset();
  EXPECT_FALSE(ready->IsReady());
  transfer.reset();
  ASSERT_TRUE(ready->IsReady());
  EXPECT_FALSE(ready->status().has_value());
}

TEST(Executable, SavesAndLoads) {
  auto client = MakeClient();
  std::string text = R"(HloModule table
ENTRY main {
  a = f32[20] parameter(0)
  k = f32[20] constant({0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,nan(0x123)})
  ROOT c = f32[20] add(a, k)
})";
  auto program = CompileText(*client, text);
  std::string saved = program->executable()->Serialize();
  auto again = Executable::Deserialize(*client, saved);
  ASSERT_TRUE(again.has_value()) << again.error().ToString();
  EXPECT_EQ((*again)->fingerprint(), program->executable()->fingerprint());
  EXPECT_EQ((*again)->OptimizedText(), program->executable()->OptimizedText());
  auto loaded = std::move(*LoadedExecutable::Load(*client, *again));
  auto a = F32(*client, Values(20, 1), {20});
  EXPECT_EQ(Floats(*RunOne(*loaded, {a.get()}))[18], 19);
  for (size_t i = 0; i < saved.size(); i += 7) {
    std::string damaged = saved;
    damaged[i] ^= 4;
    EXPECT_FALSE(Executable::Deserialize(*client, damaged).has_value());
    EXPECT_FALSE(Executable::Deserialize(*client, saved.substr(0, i)).has_value());
  }
}

TEST(Executable, BadPrograms) {
  auto client = MakeClient();
  EXPECT_FALSE(Executable::Compile(*client, "hlo", "", {}).has_value());
  EXPECT_FALSE(Executable::Compile(*client, "hlo", "HloModule x", {}).has_value());
  EXPECT_FALSE(Executable::Compile(*client, "elf", kAddText, {}).has_value());
  CompileRequest request;
  request.overrides["nonsense"] = true;
  auto unknown = Executable::Compile(*client, "hlo", kAddText, request);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().message(), "No such compile option: 'nonsense'");
  auto nobody = Executable::Compile(*client, "hlo", R"(HloModule m
ENTRY e {
  x = f32[3] parameter(0)
  ROOT y = f32[3] custom-call(x), custom_call_target="nobody_knows"
})",
                                    {});
  ASSERT_FALSE(nobody.has_value());
  EXPECT_EQ(nobody.error().code(), Code::kUnimplemented);
  EXPECT_NE(nobody.error().ToString().find("nobody_knows"), std::string::npos);
  // Not when nothing reads it, nor in a branch that is not taken.
  auto dead = Executable::Compile(*client, "hlo", R"(HloModule m
there { a = f32[3] parameter(0) ROOT b = f32[3] negate(a) }
elsewhere { a = f32[3] parameter(0) ROOT b = f32[3] custom-call(a), custom_call_target="nobody_knows" }
ENTRY e {
  x = f32[3] parameter(0)
  unread = f32[3] custom-call(x), custom_call_target="nobody_knows"
  zero = s32[] constant(0)
  ROOT y = f32[3] conditional(zero, x, x), branch_computations={there, elsewhere}
})",
                                  {});
  EXPECT_TRUE(dead.has_value()) << dead.error().ToString();
}

TEST(CompileOptions, OptionsOfXlaAreChecked) {
  EXPECT_TRUE(CheckOverrides({{"xla_embed_ir_in_executable", true},
                              {"xla_cpu_enable_fast_math", std::string("False")},
                              {"xla_backend_optimization_level", int64_t{2}},
                              {"xla_dump_to", std::string("x")},
                              {"optimization_level", std::string("O1")}}));
  auto wrong = CheckOverrides({{"xla_embed_ir_in_executable", std::string("maybe")}});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message(),
            "While setting option xla_embed_ir_in_executable, 'maybe' is not a valid bool value.");
  EXPECT_FALSE(CheckOverrides({{"xla_backend_optimization_level", 1.5}}));
  EXPECT_FALSE(CheckOverrides({{"xla_no_such_option", true}}));
}

// ENTRY f { ROOT x = f32[2]{0} parameter(0) } as HloModuleProto.
TEST(Executable, HloProto) {
  constexpr std::string_view kProto(
      "\x0a\x01\x66\x12\x01\x66\x1a\x27\x0a\x01\x66\x12\x1e\x0a\x01\x78\x12\x09\x70\x61\x72\x61\x6d"
      "\x65\x74"
      "\x65\x72\x1a\x09\x10\x0b\x18\x02\x2a\x03\x0a\x01\x00\x48\x00\x98\x02\x01\x28\x05\x30\x01\x30"
      "\x05",
      49);
  auto client = MakeClient();
  auto program = CompileText(*client, std::string(kProto));
  ASSERT_NE(program, nullptr);
  auto x = F32(*client, {3, 4}, {2});
  EXPECT_EQ(Floats(*RunOne(*program, {x.get()})), (Values{3, 4}));
}

TEST(CompileOptions, RoundTrip) {
  CompileRequest request;
  request.num_replicas = 2, request.num_partitions = 3;
  request.device_assignment = {5, 4, 3, 2, 1, 0};
  request.use_shardy_partitioner = true;
  request.propagate_sharding_to_output = {true, false};
  request.overrides = {{"a", true}, {"b", int64_t{-3}}, {"c", 1.5}, {"d", std::string("x")}};
  auto again = ParseCompileOptions(SerializeCompileOptions(request));
  ASSERT_TRUE(again.has_value()) << again.error().ToString();
  EXPECT_EQ(again->device_assignment, request.device_assignment);
  EXPECT_EQ(again->overrides, request.overrides);
  EXPECT_EQ(again->propagate_sharding_to_output, request.propagate_sharding_to_output);
  EXPECT_TRUE(again->use_shardy_partitioner);
}

TEST(CompileOptions, RecordedOnes) {
  for (int i = 1; i <= 28; ++i) {
    std::string path = StrCat("../shared/pjrt/artifacts/compile_payloads/opts_", i);
    Result<std::string> bytes = ReadFile(path);
    if (!bytes) GTEST_SKIP() << "no recorded options";
    auto request = ParseCompileOptions(*bytes);
    ASSERT_TRUE(request.has_value()) << request.error().ToString();
    EXPECT_EQ(request->num_replicas, 1);
    EXPECT_EQ(static_cast<int64_t>(request->device_assignment.size()), request->device_count());
    EXPECT_TRUE(request->use_shardy_partitioner);
    for (size_t n = 0; n < bytes->size(); n += 3) {  // cut short: an answer, whatever it is
      (void)ParseCompileOptions(std::string_view(*bytes).substr(0, n));
    }
  }
}

}  // namespace
}  // namespace weft::client
