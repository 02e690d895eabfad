package kernel

// nativePaths returns the assembly path of this architecture, whose every processor has NEON.
func nativePaths() []*Path { return []*Path{neonPath()} }

func neonPath() *Path {
	return &Path{
		name:        "neon",
		rows:        8,
		floats:      4,
		panel:       [3]panelFunc{neonPanel1, neonPanel2, neonPanel3},
		packColumns: neonPackColumns,
		packStrip:   neonPackStrip,
		transpose:   neonTranspose,
		packRows:    packRowsBy(4, neonTranspose),

		max:             neonMax,
		dot:             neonDot,
		expSum:          neonExpSum,
		scale:           neonScale,
		add:             neonAdd,
		softmaxBackward: neonSoftmaxBackward,
		normBackward:    neonNormBackward,
		normBackwardAdd: neonNormBackwardAdd,
		relu:            neonRelu,
		reluBackward:    neonReluBackward,
		relu2:           neonRelu2,
		relu2Backward:   neonRelu2Backward,
		adamW:           neonAdamW,

		peak:      neonPeak,
		peakFlops: 2 * 4 * 24,
	}
}
