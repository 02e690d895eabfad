package pool

// pause tells the core that the caller spins (the ISB instruction: it waits for what is under
// way, some ten nanoseconds; YIELD does nothing on most cores).
func pause()
