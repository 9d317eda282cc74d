#include "privacy.h"

#include <algorithm>
#include <cctype>

namespace weft::tools {
namespace {

constexpr std::string_view kShared = "site-packages/";

bool IsWordByte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || (c & 0x80) != 0;
}
bool IsPathByte(char c) {
  return IsWordByte(c) || (c != '\0' && std::string_view("./~+@%-#").contains(c));
}

// Whether a path begins here: "/x" or "~/" or "~me/" behind what is no part of a path. "//" is a
// comment, "://" an address, and "a/b" is relative.
bool BeginsPath(std::string_view text, size_t at) {
  if (at > 0 && (IsPathByte(text[at - 1]) || text[at - 1] == '\\')) return false;
  if (at + 1 >= text.size()) return false;
  if (text[at] == '~') return IsPathByte(text[at + 1]);
  if (text[at] != '/' || text[at + 1] == '/') return false;
  bool address = at >= 1 && text[at - 1] == ':' && at + 1 < text.size() && text[at + 1] == '/';
  return IsPathByte(text[at + 1]) && !address;
}

// Where the path ends that begins here: in quotes at the closing one, since names have spaces.
size_t EndOfPath(std::string_view text, size_t at) {
  char quote = at > 0 ? text[at - 1] : ' ';
  if (quote == '"' || quote == '\'') {
    size_t end = text.find_first_of(quote == '"' ? "\"\n" : "'\n", at);
    if (end != text.npos && text[end] == quote) return end;
  }
  size_t end = at;
  while (end < text.size() && IsPathByte(text[end])) ++end;
  return end;
}

std::string Shorten(std::string_view path) {
  if (size_t shared = path.find(kShared); shared != path.npos) {
    return std::string(".../").append(path.substr(shared));
  }
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  size_t slash = path.rfind('/');
  if (slash == path.npos) return "~";                               // a home folder
  if (path.front() == '/' && slash == 0) return std::string(path);  // "/tmp", and "a /b"
  return std::string("...").append(path.substr(slash));
}

}  // namespace

std::string ShortenPaths(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (!BeginsPath(text, at)) {
      out += text[at++];
      continue;
    }
    size_t end = EndOfPath(text, at);
    out += Shorten(text.substr(at, end - at));
    at = end;
  }
  return out;
}

std::string HideNames(std::string text, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name.size() < 3) continue;  // would be found everywhere
    for (size_t at = text.find(name); at != text.npos; at = text.find(name, at)) {
      size_t end = at + name.size();
      bool whole =
          (at == 0 || !IsWordByte(text[at - 1])) && (end == text.size() || !IsWordByte(text[end]));
      if (!whole) {
        at = end;
        continue;
      }
      text.replace(at, name.size(), "xxxx");
      at += 4;
    }
  }
  return text;
}

std::string MaskFolders(std::string bytes, const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    if (folder.size() < 2) continue;  // "/"
    for (size_t at = bytes.find(folder); at != bytes.npos; at = bytes.find(folder, at)) {
      size_t end = at + folder.size();
      while (end < bytes.size() && IsPathByte(bytes[end])) ++end;
      size_t slash = std::max(bytes.rfind('/', end - 1), at + folder.size());
      for (size_t i = at; i < slash; ++i) {
        if (bytes[i] != '/') bytes[i] = 'x';
      }
      at = end;
    }
  }
  return bytes;
}

}  // namespace weft::tools
