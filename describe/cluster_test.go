package describe_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"andrea/describe"
	"andrea/model"
)

// clusterOf describes the exchange of a variant with lanes of at least one window for every worker.
func clusterOf(t testing.TB, variant string, workers, tokensPerStep int, nic float64) describe.Cluster {
	t.Helper()
	c, err := model.Variant(variant)
	if err != nil {
		t.Fatal(err)
	}
	s := setting(c)
	s.Microbatch, s.Lanes, s.TokensPerStep = 1, max(8, workers), tokensPerStep
	s.Network = &describe.Network{Workers: workers, NIC: nic, Cores: 8, Kinds: describe.ReferenceWorkers(c)}
	d, err := describe.Of(c, s)
	if err != nil {
		t.Fatal(err)
	}
	return *d.Cluster
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }

// By hand: 120m is a gradient of 394,795,008 bytes; four workers, 10 Gbit/s.
func TestAnExchangeByHand(t *testing.T) {
	c := clusterOf(t, "120m", 4, 262144, 10e9)
	const gigabyte = 0.394795008
	line := 10e9 / 8 * 1448 / 1538
	if c.Gradient != 394_795_008 || c.In != 4*c.Gradient || c.Out != 4*c.Gradient || c.Computing != 4 {
		t.Errorf("%+v", c)
	}
	if want := 4 * gigabyte * 1e9 / line; !near(c.Gather, want) || !near(c.Broadcast, want) || !near(c.Pipelined, want) || c.Bound != "the coordinator's network" {
		t.Errorf("the exchange takes %v, %v, %v bound by %s, want %v", c.Gather, c.Broadcast, c.Pipelined, c.Bound, want)
	}
	// In: transport, CRC, digest, sum; out: transport, CRC; once: digest and squares of the root.
	if want := gigabyte * (4*(0.62+0.13+1.20+0.37) + 4*(0.51+0.13) + 1.20 + 0.39); !near(c.CoreSeconds, want) {
		t.Errorf("%v core-seconds, want %v", c.CoreSeconds, want)
	}
	k := c.Kinds[0]
	speed := 250e9 / 605_164_032.
	compute := 262144 / speed / 4
	exchange := 2 * c.Gather
	if !near(k.TokensPerSecond, speed) || !near(k.Compute, compute) || !near(k.InARow.Share, exchange/(compute+exchange)) || !near(k.Pipelined.Share, c.Pipelined/(compute+c.Pipelined)) ||
		!near(k.InARow.Speedup, 4*compute/(compute+exchange)) {
		t.Errorf("%+v", k)
	}
	// At that many tokens, and not at one unit of 8 windows less, the share is at most 5 %.
	for tokens, good := range map[int64]bool{k.InARow.TokensFor5: true, k.InARow.TokensFor5 - 8*1024: false} {
		if share := clusterOf(t, "120m", 4, int(tokens), 10e9).Kinds[0].InARow.Share; share <= 0.05 != good {
			t.Errorf("at %d tokens a step the share is %v", tokens, share)
		}
	}
	allowed := compute * 0.05 / 0.95
	if !near(k.Needs.NIC, 8*4*gigabyte*1e9/allowed*1538/1448) || !near(k.Needs.Cores, c.CoreSeconds/allowed) || !near(k.Needs.WorkerCores, gigabyte*(0.41+0.13+1.20)/allowed) {
		t.Errorf("%+v", k.Needs)
	}
}

func TestWhatBindsAnExchange(t *testing.T) {
	for _, c := range []struct {
		workers int
		nic     float64
		want    string
	}{
		{1, 1e9, ""}, {2, 1e9, "the coordinator's network"}, {8, 16e9, "the coordinator's network"}, {8, 25e9, "the coordinator's one connection"}, {2, 25e9, "the core that a worker pulls with"},
	} {
		if got := clusterOf(t, "12m", c.workers, 32768, c.nic); got.Bound != c.want {
			t.Errorf("%d workers at %v: %q, want %q", c.workers, c.nic, got.Bound, c.want)
		}
	}
	c, err := model.Variant("12m")
	if err != nil {
		t.Fatal(err)
	}
	s := setting(c)
	s.Network = &describe.Network{Workers: 8, NIC: 100e9, Cores: 1, Kinds: describe.ReferenceWorkers(c)}
	d, err := describe.Of(c, s)
	if err != nil || d.Cluster.Bound != "the coordinator's cores" {
		t.Errorf("%+v, %v", d.Cluster, err)
	}
}

// Whatever the cluster: one worker exchanges nothing, more than the lanes stand by, a better network never makes it
// slower, and what pays, pays.
func TestClustersAreInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := shapes(t)
		s := describe.Setting{Microbatch: rapid.IntRange(1, 4).Draw(t, "microbatch"), Lanes: 1 << rapid.IntRange(0, 6).Draw(t, "lanes"), Threads: 1, GCPercent: 10}
		s.TokensPerStep = s.Lanes * s.Microbatch * c.Context * rapid.IntRange(1, 100).Draw(t, "k")
		n := describe.Network{
			Workers: rapid.IntRange(1, 100).Draw(t, "workers"), NIC: rapid.Float64Range(1e6, 1e12).Draw(t, "nic"), Cores: rapid.IntRange(1, 64).Draw(t, "cores"),
			Kinds: []describe.Worker{{Name: "any", TokensPerSecond: rapid.Float64Range(1, 1e7).Draw(t, "speed")}},
		}
		of := func(n describe.Network) describe.Cluster {
			s.Network = &n
			d, err := describe.Of(c, s)
			if err != nil {
				t.Fatal(err)
			}
			return *d.Cluster
		}
		cl := of(n)
		k := cl.Kinds[0]
		if cl.Computing != min(n.Workers, s.Lanes) || cl.In < cl.Out || cl.In > 2*cl.Out || cl.Pipelined > cl.Gather+cl.Broadcast+1e-12*cl.Gather || (cl.Computing == 1) != (cl.Gather == 0) {
			t.Errorf("%+v", cl)
		}
		for _, v := range []describe.Verdict{k.InARow, k.Pipelined} {
			if !(v.Share >= 0 && v.Share < 1) || v.Speedup <= 0 || v.Speedup > float64(cl.Computing)+1e-9 || v.TokensFor5 < int64(s.Lanes*s.Microbatch*c.Context) || v.MostWorkers < 1 {
				t.Errorf("%+v", v)
			}
		}
		better := n // it need not pay for more workers: what it gains for 4 may be more than for 8
		better.NIC, better.Cores = 2*n.NIC, 2*n.Cores
		if b := of(better); b.Gather > cl.Gather || b.Broadcast > cl.Broadcast || b.Pipelined > cl.Pipelined {
			t.Errorf("a better network: %+v, then %+v", cl, b)
		}
	})
}

// The workers of the tables in docs/scaling.md, and the tokens_per_step of jobs/ with a window for every lane.
var (
	scaledWorkers = []int{2, 8, 32, 64}
	scaledTokens  = map[string]int{"12m": 32768, "120m": 262144, "480m": 524288}
)

// scalingTables are the tables of docs/scaling.md by the comment above them.
func scalingTables(t testing.TB) map[string]string {
	var share, needs strings.Builder
	share.WriteString("| variant | tokens a step | workers | GB each way | core-s | seconds in a row, pipelined | 2 CPU cores | 32 CPU cores | one H200 |\n|---|---|---|---|---|---|---|---|---|\n")
	needs.WriteString("| variant | workers | 2 CPU cores | 32 CPU cores | one H200 |\n|---|---|---|---|---|\n")
	for _, variant := range []string{"12m", "120m", "480m"} {
		for _, workers := range scaledWorkers {
			tokens := max(scaledTokens[variant], 1024*workers)
			c := clusterOf(t, variant, workers, tokens, 25e9)
			fmt.Fprintf(&share, "| %s | %d | %d | %.2f | %.1f | %.2f, %.2f |", variant, tokens, workers, float64(c.In)/1e9, c.CoreSeconds, c.Gather+c.Broadcast, c.Pipelined)
			fmt.Fprintf(&needs, "| %s | %d |", variant, workers)
			for _, k := range c.Kinds {
				fmt.Fprintf(&share, " %.0f %%, %.0f %%; %sx |", 100*k.InARow.Share, 100*k.Pipelined.Share, brief(k.Pipelined.Speedup))
				if k.Needs.NIC > 400e9 {
					needs.WriteString(" more than 400 Gbit/s |")
				} else {
					fmt.Fprintf(&needs, " %s Gbit/s, %s cores |", brief(k.Needs.NIC/1e9), brief(k.Needs.Cores))
				}
			}
			share.WriteByte('\n')
			needs.WriteByte('\n')
		}
	}
	var most strings.Builder
	most.WriteString("| variant | workers | 2 CPU cores | 32 CPU cores | one H200 | pays up to, pipelined: 2 cores, 32 cores, H200 |\n|---|---|---|---|---|---|\n")
	for _, variant := range []string{"12m", "120m", "480m"} {
		c := clusterOf(t, variant, 8, scaledTokens[variant], 25e9)
		fmt.Fprintf(&most, "| %s | 8 |", variant)
		for _, k := range c.Kinds {
			fmt.Fprintf(&most, " %.3g M |", float64(k.Pipelined.TokensFor5)/1e6)
		}
		fmt.Fprintf(&most, " %d, %d, %d |\n", c.Kinds[0].Pipelined.MostWorkers, c.Kinds[1].Pipelined.MostWorkers, c.Kinds[2].Pipelined.MostWorkers)
	}
	return map[string]string{"<!-- shares -->": share.String(), "<!-- needs -->": needs.String(), "<!-- tokens -->": most.String()}
}

// brief writes two digits that count, or all before the point.
func brief(x float64) string {
	switch {
	case x >= 10:
		return fmt.Sprintf("%.0f", x)
	case x >= 1:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

// The document's tables are what the program says.
func TestTheDocumentsTables(t *testing.T) {
	path := filepath.Join("..", "docs", "scaling.md")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for mark, table := range scalingTables(t) {
		before, rest, found := strings.Cut(text, mark+"\n\n")
		there, after, ended := strings.Cut(rest, "\n\n")
		if !found || !ended {
			t.Fatalf("%s has no table behind %s", path, mark)
		}
		if there+"\n" != table && !*update {
			t.Errorf("%s: the table behind %s would be (-update writes it)\n%s", path, mark, table)
		}
		text = before + mark + "\n\n" + table + "\n" + after
	}
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
