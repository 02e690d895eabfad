package pool

// pause tells the core that the caller spins (the PAUSE instruction).
func pause()
