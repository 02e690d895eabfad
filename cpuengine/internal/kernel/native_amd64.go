package kernel

import "golang.org/x/sys/cpu"

// nativePaths returns the assembly paths of this machine, fastest first.
func nativePaths() (paths []*Path) {
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasBMI2 {
		paths = append(paths, avx512Path())
	}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		paths = append(paths, avx2Path())
	}
	return paths
}

func avx512Path() *Path {
	return &Path{
		name:        "avx512",
		rows:        8,
		floats:      16,
		panel:       [3]panelFunc{avx512Panel1, avx512Panel2, avx512Panel3},
		lean:        leanFuncs{rows: avx512Rows3, rowsFetch: avx512Rows3Fetch, packed: avx512Packed3},
		packColumns: avx512PackColumns,
		packStrip:   avx512PackStrip,
		transpose:   avx512Transpose,
		packRows:    packRowsBy(16, avx512Transpose),
		wide: blockFuncs{
			vectors: 4,
			more:    blockRows{6, [2][2]blockFunc{{avx512Block6x4, avx512Block6x4Ahead}, {avx512Block6x4T, avx512Block6x4TAhead}}},
			less:    blockRows{5, [2][2]blockFunc{{avx512Block5x4, avx512Block5x4Ahead}, {avx512Block5x4T, avx512Block5x4TAhead}}},
		},
		narrow: blockFuncs{
			vectors: 2,
			more:    blockRows{12, [2][2]blockFunc{{avx512Block12x2}, {avx512Block12x2T}}},
			less:    blockRows{8, [2][2]blockFunc{{avx512Block8x2}, {avx512Block8x2T}}},
		},
		columns: columnFuncs{avx512MaskColumns, avx512LargestColumns, avx512ExpColumns, avx512SumColumns, avx512ScaleColumns},

		max:             avx512Max,
		dot:             avx512Dot,
		expSum:          avx512ExpSum,
		scale:           avx512Scale,
		add:             avx512Add,
		softmaxBackward: avx512SoftmaxBackward,
		normBackward:    avx512NormBackward,
		normBackwardAdd: avx512NormBackwardAdd,
		relu:            avx512Relu,
		reluBackward:    avx512ReluBackward,
		relu2:           avx512Relu2,
		relu2Backward:   avx512Relu2Backward,
		adamW:           avx512AdamW,
		mix:             avx512Mix,
		adamWMix:        avx512AdamWMix,
		sumSquares:      avx512SumSquares,

		scaleRows:           avx512ScaleRows,
		copyRows:            avx512CopyRows,
		dotRows:             avx512DotRows,
		largestTile:         avx512LargestTile,
		softmaxTile:         avx512SoftmaxTile,
		softmaxBackwardTile: avx512SoftmaxBackwardTile,

		peak:      avx512Peak,
		peakFlops: 2 * 16 * 24,
	}
}

func avx2Path() *Path {
	return &Path{
		name:        "avx2",
		rows:        4,
		floats:      8,
		panel:       [3]panelFunc{avx2Panel1, avx2Panel2, avx2Panel3},
		packColumns: avx2PackColumns,
		packStrip:   avx2PackStrip,
		transpose:   avx2Transpose,
		packRows:    packRowsBy(8, avx2Transpose),

		max:             avx2Max,
		dot:             avx2Dot,
		expSum:          avx2ExpSum,
		scale:           avx2Scale,
		add:             avx2Add,
		softmaxBackward: avx2SoftmaxBackward,
		normBackward:    avx2NormBackward,
		normBackwardAdd: avx2NormBackwardAdd,
		relu:            avx2Relu,
		reluBackward:    avx2ReluBackward,
		relu2:           avx2Relu2,
		relu2Backward:   avx2Relu2Backward,
		adamW:           avx2AdamW,
		sumSquares:      avx2SumSquares,

		scaleRows:           avx2ScaleRows,
		copyRows:            avx2CopyRows,
		dotRows:             avx2DotRows,
		largestTile:         avx2LargestTile,
		softmaxTile:         avx2SoftmaxTile,
		softmaxBackwardTile: avx2SoftmaxBackwardTile,

		peak:      avx2Peak,
		peakFlops: 2 * 8 * 12,
	}
}
