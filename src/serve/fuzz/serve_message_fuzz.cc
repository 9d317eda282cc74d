// Messages: however a body arrives its bytes are the same and its longest field is aligned; an
// answer of text and tensors leaves through a queue as it is, whatever the socket takes at once.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/storage.h"
#include "serve/message.h"
#include "serve/net/out_queue.h"

namespace weft::serve {
namespace {

// Numbers that the input chooses, again and again.
struct Choices {
  std::string_view bytes;
  size_t at = 0;
  size_t Next(size_t below) {
    size_t value = at++;
    if (!bytes.empty()) {
      for (int i = 0; i < 2; ++i)
        value = (value << 8) + static_cast<unsigned char>(bytes[at++ % bytes.size()]);
    }
    return value % below;
  }
};

void Expect(bool good) {
  if (!good) std::abort();
}

void FuzzBody(std::string_view all, Choices choices) {
  MessageBody body;
  const size_t prefix = choices.Next(8), first = choices.Next(all.size() + 1);
  if (choices.Next(2) == 1) body.Expect(choices.Next(1 << 16), prefix);
  for (size_t at = 0, size = first; at < all.size(); at += size, size = 1 + choices.Next(4096)) {
    size = std::min(size, all.size() - at);
    Expect(body.Append(all.substr(at, size)));
  }
  Expect(body.view() == all && body.size() == all.size());
  Expect(LongestFieldIn(all) <= all.size());
  const MessageBody moved = std::exchange(body, {});
  Expect(body.empty() && body.view().empty() && moved.view() == all);
  if (all.empty()) return;
  // The whole of it at once: where the longest field begins is known.
  MessageBody whole;
  Expect(whole.Append(all));
  const auto address = reinterpret_cast<uintptr_t>(whole.view().data() + LongestFieldIn(all));
  Expect(address % kStorageAlignment == 0);
}

void FuzzAnswer(std::string_view all, Choices choices) {
  auto owner = std::make_shared<const std::string>(all);
  Message message{std::string(all.substr(0, choices.Next(all.size() + 1)))};
  size_t at = 0;
  for (size_t i = 0, count = choices.Next(5); i < count; ++i) {
    at += choices.Next(message.text.size() - at + 1);
    const size_t begin = choices.Next(owner->size() + 1);
    message.slices.push_back({at, owner, std::string_view(*owner).substr(begin)});
  }
  const std::string joined = message.Joined();
  Expect(joined.size() == message.size());
  OutQueue out;
  auto kept = std::make_shared<const Message>(std::move(message));
  Message::ForParts(kept, [&](const std::shared_ptr<const void>& part_owner,
                              std::string_view bytes) { out.Append(part_owner, bytes); });
  kept.reset(), owner.reset();  // what is on its way keeps what it needs
  std::string sent;
  while (!out.empty()) {
    iovec pieces[3];
    size_t there = 0, left = 1 + choices.Next(8192);
    const size_t count = out.Pieces(pieces);
    Expect(count > 0 && out.front().data() == pieces[0].iov_base);
    for (size_t i = 0; i < count && left > 0; ++i) {
      const size_t size = std::min(left, pieces[i].iov_len);
      sent.append(static_cast<const char*>(pieces[i].iov_base), size);
      there += size, left -= size;
    }
    out.Drop(there);
  }
  Expect(sent == joined);
}

}  // namespace
}  // namespace weft::serve

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t numbers = std::min<size_t>(data[0], text.size());
  weft::serve::Choices choices{text.substr(0, numbers)};
  std::string all(text.substr(numbers));
  // Tensors are larger than what mutations make.
  if (data[0] % 2 == 1) {
    while (!all.empty() && all.size() < 2 * weft::serve::kWorthKeeping) all += all;
    weft::serve::FuzzAnswer(all, choices);
  } else {
    weft::serve::FuzzBody(all, choices);
  }
  return 0;
}
