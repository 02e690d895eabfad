// A row of a matrix for every warp, in pieces of four elements a lane.
#pragma once
#include "tile.h"

constexpr int COLUMNS = 128; // that a warp takes at once

DEV_FN int row_of_warp() { return (int)(DEV_BLOCK_X * (DEV_THREADS / 32) + DEV_WARP); }
DEV_FN int first_column() { return (int)DEV_LANE * 4; }

// 1/sqrt(mean(x²) + eps) of a row of which read(v, c) gets the elements c to c+3, zeros beyond the end.
template <class Read> DEV_FN float inverse_root(Read read, int width, float eps) {
  float squares = 0.0f;
  for (int c = first_column(); c < width; c += COLUMNS) {
    float v[4];
    read(v, c);
#pragma unroll
    for (int e = 0; e < 4; e++) squares = dev_fma(v[e], v[e], squares);
  }
  return 1.0f / dev_sqrt(warp_sum(squares) / (float)width + eps);
}
