// Package numeric holds the arithmetic whose bits the project promises.
//
// The functions of package math are assembly on some architectures and fused on
// others, so the same call can differ in its last bit between two machines. The
// functions here use additions, multiplications, divisions and square roots only,
// in an order that is written out, with every product rounded before it is added
// (the conversion float64(x*y) forbids the compiler to fuse). They give the same
// bits everywhere. The mix of 64-bit numbers, from which every order, draw and
// digest is made, stands here too.
package numeric
