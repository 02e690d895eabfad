// Package enginetest holds what every engine must satisfy: a slow reference of the
// whole model and the suite that compares an engine with it.
//
// One set of plain loops (OpTable, and the network built on it) serves three ends.
// In float64 it is the reference, itself checked by finite differences. In float32
// it is the plain version, whose distance from the reference says how much error an
// honest fp32 engine may have. Wrapped as an engine (NewPlain) it is a small,
// portable, deterministic engine for tests of everything above engines.
//
// # The tolerance rule
//
// A tensor computed by an engine passes when its distance from the float64
// reference is at most twice that of the plain float32 version, plus 2^-20 of the
// reference: once with the largest absolute value as the norm, once with the root
// of the sum of squares. The plain version rounds every product and every sum in one
// chain, so that an engine that fuses, tiles or splits its sums is not worse; the
// second term (8 units in the last place of the largest element) is for small
// tensors, where the plain version may be exact by luck.
package enginetest
