package launch

import "testing"

// What the system caches of files is no memory in use: a dataset that was just read must not look
// like a full machine.
func TestInactiveFile(t *testing.T) {
	for _, c := range []struct {
		stat string
		want int64
	}{
		{"anon 100\nfile 900\nactive_file 200\ninactive_file 700\nslab 5\n", 700},
		{"total_inactive_file 3\ninactive_file 8192", 8192},
		{"inactive_file x\n", 0},
		{"inactive_file -7\n", 0},
		{"anon 100\n", 0},
		{"", 0},
	} {
		if got := inactiveFile(c.stat); got != c.want {
			t.Errorf("%q: %d, want %d", c.stat, got, c.want)
		}
	}
}
