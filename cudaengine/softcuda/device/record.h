// record.h - a launch as a file, with the memory that it saw and left: written by the device (SOFTCUDA_RECORD), read by
// replay/replay.cc. Numbers are little-endian 64-bit words.
//
//   "softcuda launch 1\n"
//   length and bytes of the kernel's name
//   grid x, y, z; block x, y, z; dynamic shared memory in bytes
//   number of buffers; of each: length in bytes, the bytes before the launch, the bytes after it
//   number of parameters; of each: size in bytes, buffer from 1 or 0, and the offset in it or the value
#pragma once
#include <cstdint>
#include <string>
#include <vector>

constexpr char record_magic[] = "softcuda launch 1\n";

struct RecordedBuffer { std::vector<unsigned char> before, after; };

struct RecordedParameter { uint64_t size, buffer, value; };

struct Recording {
  std::string kernel;
  uint64_t geometry[7];
  std::vector<RecordedBuffer> buffers;
  std::vector<RecordedParameter> parameters;
};
