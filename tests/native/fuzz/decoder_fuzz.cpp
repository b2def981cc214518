// SPDX-License-Identifier: Apache-2.0
// Throws bytes at everything that reads bytes of a peer. The first byte chooses the decoder.
//
// No input may crash a decoder or take memory that it only announces. A value that is accepted must encode to bytes
// that are accepted and encode the same again. Start it with an empty folder as its corpus: it puts seeds there.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "transport/tcp/chunk_header.h"
#include "transport/tcp/frame_stream.h"
#include "wire/messages.h"

namespace ringtune {
namespace {

enum class Target : uint8_t { kRequest, kForwardedRequest, kResponse, kFailure, kFrameStream, kChunkHeader };
constexpr int kTargetCount = 6;

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

template <typename Message>
void check_message(ByteSpan input) {
  Message first;
  if (!decode(input, first)) {
    return;
  }
  const Bytes encoded = encode(first);
  Message second;
  require(decode(encoded, second));
  require(encode(second) == encoded);
}

struct Stream {
  Bytes frames;  // encoded again
  bool is_broken = false;
};

Stream decode_in_pieces(ByteSpan input, size_t piece_bytes) {
  FrameDecoder decoder;
  Frame frame;
  Stream stream;
  for (size_t at = 0; at < input.size(); at += piece_bytes) {
    decoder.feed(input.subspan(at, std::min(piece_bytes, input.size() - at)));
    auto outcome = FrameDecoder::Outcome::kIncomplete;
    while ((outcome = decoder.next(frame)) == FrameDecoder::Outcome::kFrame) {
      const Bytes bytes = encode_frame(frame.type, frame.payload);
      stream.frames.insert(stream.frames.end(), bytes.begin(), bytes.end());
    }
    stream.is_broken = outcome == FrameDecoder::Outcome::kBroken;
  }
  return stream;
}

// The first byte is the size of the pieces; frames come out the same however they are cut.
void check_frame_stream(ByteSpan input) {
  if (input.empty()) {
    return;
  }
  const ByteSpan bytes = input.subspan(1);
  const Stream whole = decode_in_pieces(bytes, std::max<size_t>(1, bytes.size()));
  const Stream pieces = decode_in_pieces(bytes, 1 + std::to_integer<size_t>(input[0]));
  require(whole.frames == pieces.frames && whole.is_broken == pieces.is_broken);
  require(whole.frames.size() <= bytes.size());
  require(std::equal(whole.frames.begin(), whole.frames.end(), bytes.begin()));
}

void check(ByteSpan input) {
  if (input.empty()) {
    return;
  }
  const ByteSpan rest = input.subspan(1);
  switch (static_cast<Target>(std::to_integer<int>(input[0]) % kTargetCount)) {
    case Target::kRequest:
      return check_message<Request>(rest);
    case Target::kForwardedRequest:
      return check_message<ForwardedRequest>(rest);
    case Target::kResponse:
      return check_message<Response>(rest);
    case Target::kFailure:
      return check_message<Failure>(rest);
    case Target::kFrameStream:
      return check_frame_stream(rest);
    case Target::kChunkHeader:
      return check_message<ChunkHeader>(rest);
  }
}

class SeedFolder {
 public:
  explicit SeedFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void put(Target target, ByteSpan bytes) {
    std::ofstream file(folder_ / ("seed-" + std::to_string(count_++)), std::ios::binary);
    file.put(static_cast<char>(target));
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

 private:
  std::filesystem::path folder_;
  int count_ = 0;
};

Signature sample_signature(OpKind kind) {
  Signature signature;
  signature.kind = kind;
  signature.shape = {64, 128};
  signature.group = "layer.4";
  signature.group_size = 2;
  return signature;
}

// None, as runs, as bits.
std::vector<std::vector<CacheId>> cached_samples() { return {{}, {1, 2, 3, 900}, {1, 3, 5, 7, 9, 11, 13}}; }

void put_messages(SeedFolder& seeds) {
  Request request;
  for (int kind = 0; kind < kOpKindCount; ++kind) {
    RequestItem item;
    item.name = "gradient." + std::to_string(kind);
    item.signature = sample_signature(static_cast<OpKind>(kind));
    request.items.push_back(item);
  }
  for (const std::vector<CacheId>& cached : cached_samples()) {
    request.cached = cached;
    seeds.put(Target::kRequest, encode(request));
    seeds.put(Target::kForwardedRequest, encode(ForwardedRequest{3, request}));
  }
  for (int type = 0; type < Response::kTypeCount; ++type) {
    Response response;
    response.type = static_cast<Response::Type>(type);
    response.cached = {7, 5, 6};
    response.tensors = {{8, "gradient.8", sample_signature(OpKind::kAllreduce)}};
    response.error_code = StatusCode::kMismatchError;
    response.error_text = "shapes differ";
    seeds.put(Target::kResponse, encode(response));
  }
}

void put_frames(SeedFolder& seeds) {
  const Bytes failure = encode(Failure{StatusCode::kPeerLostError, 3, "rank 3 died"});
  seeds.put(Target::kFailure, failure);
  Bytes stream{std::byte{3}};
  for (const FrameType type : {FrameType::kRequest, FrameType::kAbort, FrameType::kDepart}) {
    const Bytes frame = encode_frame(type, failure);
    stream.insert(stream.end(), frame.begin(), frame.end());
  }
  seeds.put(Target::kFrameStream, stream);
  seeds.put(Target::kChunkHeader, encode(ChunkHeader{7, 4096, 65536}));
}

}  // namespace
}  // namespace ringtune

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = (*argv)[i];
    if (!argument.starts_with('-') && std::filesystem::is_directory(argument)) {
      ringtune::SeedFolder seeds{std::filesystem::path(argument)};
      ringtune::put_messages(seeds);
      ringtune::put_frames(seeds);
      break;
    }
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ringtune::check({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
