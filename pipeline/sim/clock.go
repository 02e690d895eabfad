package sim

// tick is the length of a tick in units of time.
const tick = 1000

// clock holds what will happen, ordered by time and then by when it was planned.
type clock struct {
	now     int64
	planned int
	heap    []event
}

type event struct {
	at    int64
	order int
	do    func()
}

func (e event) before(o event) bool { return e.at < o.at || e.at == o.at && e.order < o.order }

// after plans do in so many units of time.
func (c *clock) after(delay int64, do func()) {
	c.planned++
	c.heap = append(c.heap, event{c.now + delay, c.planned, do})
	i := len(c.heap) - 1
	for i > 0 && c.heap[i].before(c.heap[(i-1)/2]) {
		c.heap[i], c.heap[(i-1)/2] = c.heap[(i-1)/2], c.heap[i]
		i = (i - 1) / 2
	}
}

// advance lets the next thing happen.
func (c *clock) advance() {
	first := c.heap[0]
	last := len(c.heap) - 1
	c.heap[0] = c.heap[last]
	c.heap[last] = event{}
	c.heap = c.heap[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if c.heap[child].before(c.heap[least]) {
				least = child
			}
		}
		if least == i {
			break
		}
		c.heap[i], c.heap[least] = c.heap[least], c.heap[i]
		i = least
	}
	c.now = first.at
	first.do()
}
