#include "textflag.h"

// FOLD adds to what it leaves in z what was in z, factors' distance further down, and from.
#define FOLD(factors, z, spare, from) \
	VPCLMULQDQ $0x00, factors, z, spare \
	VPCLMULQDQ $0x11, factors, z, z     \
	VPTERNLOGQ $0x96, from, spare, z

// AHEAD is how many bytes ahead memory is asked for.
#define AHEAD 2048

// func fold(sum uint32, p []byte, factors *[6]uint64) uint32
TEXT ·fold(SB), NOSPLIT, $0-44
	MOVL sum+0(FP), AX
	MOVQ p_base+8(FP), SI
	MOVQ p_len+16(FP), CX
	MOVQ factors+32(FP), DX
	VBROADCASTI32X4 (DX), Z16
	VBROADCASTI32X4 16(DX), Z17
	VBROADCASTI32X4 32(DX), Z18

	VMOVDQU64 (SI), Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU64 128(SI), Z2
	VMOVDQU64 192(SI), Z3
	VMOVD AX, X4
	VPXORQ Z4, Z0, Z0

next:
	ADDQ $256, SI
	SUBQ $256, CX
	JZ   last
	PREFETCHT0 (AHEAD+0)(SI)
	PREFETCHT0 (AHEAD+64)(SI)
	PREFETCHT0 (AHEAD+128)(SI)
	PREFETCHT0 (AHEAD+192)(SI)
	FOLD(Z16, Z0, Z4, (SI))
	FOLD(Z16, Z1, Z5, 64(SI))
	FOLD(Z16, Z2, Z6, 128(SI))
	FOLD(Z16, Z3, Z7, 192(SI))
	JMP  next

last:
	// Four registers to one.
	FOLD(Z17, Z0, Z4, Z1)
	FOLD(Z17, Z0, Z4, Z2)
	FOLD(Z17, Z0, Z4, Z3)

	// Its four quarters to one.
	VEXTRACTI32X4 $1, Z0, X1
	VEXTRACTI32X4 $2, Z0, X2
	VEXTRACTI32X4 $3, Z0, X3
	FOLD(Z18, Z0, Z4, Z1)
	FOLD(Z18, Z0, Z4, Z2)
	FOLD(Z18, Z0, Z4, Z3)

	// Of the 128 bits that are left the processor takes the remainder.
	VZEROUPPER
	MOVQ   X0, R8
	PSRLDQ $8, X0
	MOVQ   X0, R9
	XORL   AX, AX
	CRC32Q R8, AX
	CRC32Q R9, AX
	MOVL   AX, ret+40(FP)
	RET
