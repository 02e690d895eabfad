package kernel

// portablePath returns the path in plain Go that defines the bits.
func portablePath() *Path {
	return &Path{
		name:  "portable",
		rows:  portableRows,
		lanes: portableLanes,
		panel: [3]panelFunc{
			portablePanel(portableLanes), portablePanel(2 * portableLanes), portablePanel(3 * portableLanes),
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
		peakFlops: 2 * portableLanes,
	}
}
