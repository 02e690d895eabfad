package dataset

// Computed by an independent program from the formulas of the doc comments.
const (
	goldenTen          = "[0 5 8 2 9 6 3 1 7 4]"
	goldenTenNextEpoch = "[0 8 1 4 6 2 5 9 7 3]"
	goldenHuge         = "[758532726565 226474442108 453152397620 343539067627 910019503639 691158391785 658954030495 313690844270 183361387432 602679028379]"
	goldenSteps        = `step 1 epoch 0: [2 10] [13 7] [6 21] [9 1] [11 14] [16 12] [17 3] [4 22]
step 2 epoch 0: [20 0] [18 15] [5 19] [8 9] [16 14] [5 21] [11 20] [12 2]
step 3 epoch 1: [19 1] [15 3] [8 18] [4 13] [10 6] [0 17] [7 22] [6 7]
`
)
