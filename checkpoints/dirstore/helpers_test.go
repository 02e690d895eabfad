package dirstore_test

import (
	"math/rand/v2"
	"testing"

	"andrea/checkpoints"
	"andrea/checkpoints/dirstore"
	"andrea/model"
	"andrea/vfs"
)

// tiny has 304 parameters in one bucket.
func tiny() model.Config {
	c := model.DefaultSwitches()
	c.DModel, c.NHead, c.NLayer, c.Context, c.Vocab = 4, 2, 1, 6, 11
	return c
}

// wide has three buckets, whose borders cut tensors.
func wide() model.Config {
	c := tiny()
	c.DModel, c.NHead, c.NLayer, c.Context, c.Vocab = 256, 4, 2, 8, 1025
	return c
}

// state is a whole state: the weights and moments of a model as flat vectors.
type state struct {
	config       model.Config
	layout       model.Layout
	params, m, v []float32
}

// newState draws a state; the seed decides every bit.
func newState(c model.Config, seed uint64) *state {
	s := &state{config: c, layout: model.NewLayout(c)}
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, x := range []*[]float32{&s.params, &s.m, &s.v} {
		*x = make([]float32, s.layout.Size)
		for i := range *x {
			(*x)[i] = rng.Float32() - 0.5
		}
	}
	return s
}

func (s *state) bucket(i int) (params, m, v []float32) {
	lo, hi := s.layout.Bucket(i)
	return s.params[lo:hi], s.m[lo:hi], s.v[lo:hi]
}

func (s *state) digest() model.Digest { return model.StateDigestOf(0, s.params, s.m, s.v) }

const tokenizer = `{"kind":"bytes"}`

// fields is what a caller of Commit gives.
func (s *state) fields(step int) checkpoints.Manifest {
	return checkpoints.Manifest{
		Run: "demo", CreatedBy: "andrea test", EngineClass: "cpu-fp32-n1", Tokenizer: "bytes",
		Data:         checkpoints.DataPosition{Position: int64(8 * step), Fingerprint: "f00d"},
		StateDigest:  s.digest(),
		RecordDigest: checkpoints.SHA256Hex([]byte{byte(step)}),
		Job:          "name: demo\nsteps: 50\n",
	}
}

// save writes the state as the checkpoint of a step.
func (s *state) save(store *dirstore.Store, step int) error {
	w, err := store.Begin(step, s.config)
	if err != nil {
		return err
	}
	for i := range s.layout.Buckets() {
		if err := w.WriteBucket(s.bucket(i)); err != nil {
			_ = w.Abort()
			return err
		}
	}
	_, err = w.Commit(s.fields(step), []byte(tokenizer))
	return err
}

// loaded reads the whole state back.
func loaded(r *dirstore.Reader) (*state, error) {
	s := newState(r.Manifest().Model, 0)
	for i := range s.layout.Buckets() {
		params, m, v := s.bucket(i)
		if err := r.Bucket(i, params, m, v); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func owned(t testing.TB, fsys vfs.FS, dir string) *dirstore.Store {
	t.Helper()
	store, err := dirstore.OpenOwned(fsys, dir)
	must(t, err)
	return store
}
