package main

import "fmt"

// fetchRows writes kernel.fetchFunc for rows that will be read, and for such that will be written.
//
//	SI, R8  row and its stride    AX, CX  rows left, bytes of a row    DX  place in the row
func (e *emitter) fetchRows() {
	for _, write := range []bool{false, true} {
		e.begin(map[bool]string{false: "Fetch", true: "FetchToWrite"}[write], "x []float32, stride, rows, cols int", "")
		for _, p := range [][2]string{{"x_base", "SI"}, {"stride", "R8"}, {"rows", "AX"}, {"cols", "CX"}} {
			e.op("MOVQ", e.param(p[0]), p[1])
		}
		e.op("SHLQ", 2, "R8")
		e.op("SHLQ", 2, "CX")
		row, line := e.label("row"), e.label("line")
		e.place(row)
		e.op("XORL", "DX", "DX")
		e.place(line)
		if write {
			fmt.Fprint(&e.asm, "\tBYTE $0x0F; BYTE $0x0D; BYTE $0x0C; BYTE $0x16 // PREFETCHW (SI)(DX*1)\n")
		} else {
			e.op("PREFETCHT0", "(SI)(DX*1)")
		}
		e.op("ADDQ", lineBytes, "DX")
		e.op("CMPQ", "DX", "CX")
		e.op("JLT", line)
		e.op("ADDQ", "R8", "SI")
		e.op("DECQ", "AX")
		e.op("JNZ", row)
		e.op("RET")
	}
}

// lineBytes is the size of a cache line.
const lineBytes = 64
