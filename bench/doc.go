// Package bench measures what the CPU engine makes of the machine it runs on.
//
// Everything is compared within one run: a probe of fused multiply-adds between registers
// runs right after every piece of timed work, so that a slower clock or other programs slow
// both. Rates count useful arithmetic only: recomputation and padding are not work done. A
// number is the median of its rounds.
package bench
