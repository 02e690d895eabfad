package main

import (
	"regexp"
	"testing"
)

// Encodings as LLVM's assembler has them.
func TestEncodings(t *testing.T) {
	for _, c := range []struct {
		what string
		got  uint32
		want uint32
	}{
		{"fadd v1.4s, v2.4s, v3.4s", encode(instructions["FADD"].bits, 1, 2, 3), 0x4e23d441},
		{"fsub v1.4s, v2.4s, v3.4s", encode(instructions["FSUB"].bits, 1, 2, 3), 0x4ea3d441},
		{"fmul v31.4s, v30.4s, v29.4s", encode(instructions["FMUL"].bits, 31, 30, 29), 0x6e3ddfdf},
		{"fdiv v1.4s, v2.4s, v3.4s", encode(instructions["FDIV"].bits, 1, 2, 3), 0x6e23fc41},
		{"fcmeq v1.4s, v2.4s, v3.4s", encode(instructions["FCMEQ"].bits, 1, 2, 3), 0x4e23e441},
		{"fcmge v1.4s, v2.4s, v3.4s", encode(instructions["FCMGE"].bits, 1, 2, 3), 0x6e23e441},
		{"fcmgt v1.4s, v2.4s, v3.4s", encode(instructions["FCMGT"].bits, 1, 2, 3), 0x6ea3e441},
		{"fmax v1.4s, v2.4s, v3.4s", encode(instructions["FMAX"].bits, 1, 2, 3), 0x4e23f441},
		{"bic v1.16b, v2.16b, v3.16b", encode(instructions["BIC"].bits, 1, 2, 3), 0x4e631c41},
		{"fsqrt v1.4s, v2.4s", encode(fsqrt, 1, 2, 0), 0x6ea1f841},
		{"fcmlt v1.4s, v2.4s, #0.0", encode(fcmltZero, 1, 2, 0), 0x4ea0e841},
		{"fcmgt v1.4s, v2.4s, #0.0", encode(fcmgtZero, 1, 2, 0), 0x4ea0c841},
		{"fmla v1.4s, v2.4s, v3.s[0]", encode(fmlaElement0, 1, 2, 3), 0x4f831041},
		{"fmla v23.4s, v26.4s, v31.s[0]", encode(fmlaElement0, 23, 26, 31), 0x4f9f1357},
	} {
		if c.got != c.want {
			t.Errorf("%s is %#08x, want %#08x", c.what, c.got, c.want)
		}
	}
}

func TestEncodeRefusesOtherRegisters(t *testing.T) {
	for _, r := range []int{-1, neonRegs} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("register %d is accepted", r)
				}
			}()
			encode(fsqrt, 0, r, 0)
		}()
	}
}

// Darwin owns R18, and the assembler, the goroutine, the frame and the return address have
// R27 to R30.
func TestNeonKeepsOffReservedRegisters(t *testing.T) {
	asm, _ := generateNeon()
	if found := regexp.MustCompile(`\b(R16|R17|R18|R26|R27|R28|R29|R30|RSP)\b`).FindString(asm); found != "" {
		t.Errorf("the assembly uses %s", found)
	}
}
