package kernel

// portablePath returns the path in plain Go that defines the bits.
func portablePath() *Path {
	return &Path{
		name:   "portable",
		rows:   portableRows,
		floats: portableFloats,
		panel: [3]panelFunc{
			portablePanel(portableFloats), portablePanel(2 * portableFloats), portablePanel(3 * portableFloats),
		},
		packColumns: portablePackColumns,
		packRows:    portablePackRows,
		packStrip:   portablePackStrip,

		max:             portableMax,
		dot:             portableDot,
		expSum:          portableExpSum,
		scale:           portableScale,
		add:             portableAdd,
		softmaxBackward: portableSoftmaxBackward,
		normBackward:    portableNormBackward,
		normBackwardAdd: portableNormBackwardAdd,
		relu:            portableRelu,
		reluBackward:    portableReluBackward,
		relu2:           portableRelu2,
		relu2Backward:   portableRelu2Backward,
		adamW:           portableAdamW,

		peak:      portablePeak,
		peakFlops: 2 * portableFloats,
	}
}
