package ledger_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"andrea/model"
	"andrea/pipeline"
)

// uncovered are the fields that nothing else in a journal need contradict when the lines behind are written anew: who
// computed, and what only computing shows. It says when something does.
var uncovered = map[string]func(step int, r *pipeline.Recorded) bool{
	"intent.Leases.Worker": func(_ int, r *pipeline.Recorded) bool {
		return slices.ContainsFunc(r.Intent.Leases, func(l pipeline.LeaseRecord) bool { return l.Worker == "" })
	},
	"intent.Leases.GradDigest": func(_ int, r *pipeline.Recorded) bool { return len(r.Intent.Leases) == 1 }, // it is the root's
	"intent.RootDigest":        func(_ int, r *pipeline.Recorded) bool { return len(r.Intent.Leases) == 1 },
	"intent.Leases.LossSums":   func(_ int, r *pipeline.Recorded) bool { return !samePlain(r.Intent.LossSum, lossSum(r.Intent)) }, // else it is lost in rounding
	"commit.StateDigest":       func(step int, _ *pipeline.Recorded) bool { return step == 6 || step == 7 },                       // step 7 was skipped
	"commit.ValLoss":           func(_ int, r *pipeline.Recorded) bool { return *r.Commit.ValLoss < 0 },
	"commit.Seconds":           func(_ int, r *pipeline.Recorded) bool { return 64/r.Commit.Seconds != r.Commit.TokensPerSecond },
}

// lossSum adds the losses of an intent's lanes.
func lossSum(i pipeline.Intent) (sum pipeline.Float) {
	for _, l := range i.Leases {
		for _, loss := range l.LossSums {
			sum += loss
		}
	}
	return sum
}

func samePlain(a, b pipeline.Float) bool { return a == b || a != a && b != b }

// field is a value inside a record.
type field struct {
	path  string
	value reflect.Value
}

// fieldsOf lists the values inside a record, but for those that writing the line sets.
func fieldsOf(path string, v reflect.Value) (all []field) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			all = fieldsOf(path, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "Kind" && name != "Previous" {
				all = append(all, fieldsOf(path+"."+name, v.Field(i))...)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			all = append(all, fieldsOf(path, v.Index(i))...)
		}
	default:
		all = []field{{path, v}}
	}
	return all
}

// recordFields are those of a step's intent and record.
func recordFields(r *pipeline.Recorded) []field {
	intent := fieldsOf("intent", reflect.ValueOf(&r.Intent).Elem())
	return append(intent, fieldsOf("commit", reflect.ValueOf(r.Commit).Elem())...)
}

// draw gives the field another value of its kind.
func (f field) draw(t *rapid.T) {
	former := fmt.Sprint(f.value)
	floats := rapid.OneOf(rapid.Float64Range(-1e3, 1e3), rapid.SampledFrom([]float64{0, 1, math.Inf(1), math.NaN(), math.Nextafter(f.float(), 9)}))
	switch f.value.Kind() {
	case reflect.String:
		f.value.SetString(rapid.SampledFrom([]string{"apply", "skip", "worker-9", ""}).Draw(t, "text"))
	case reflect.Int, reflect.Int64:
		f.value.SetInt(rapid.OneOf(rapid.Int64Range(-1, 130), rapid.Int64()).Draw(t, "integer"))
	case reflect.Uint64:
		f.value.SetUint(rapid.OneOf(rapid.Uint64Range(0, 9), rapid.Uint64()).Draw(t, "count"))
	case reflect.Float32:
		f.value.SetFloat(float64(rapid.OneOf(rapid.Float32Range(0, 1), rapid.Just(math.Nextafter32(float32(f.value.Float()), 9))).Draw(t, "single")))
	case reflect.Float64:
		f.value.SetFloat(floats.Draw(t, "double"))
	case reflect.Array:
		f.value.Set(reflect.ValueOf(model.Digest{rapid.Uint64().Draw(t, "high"), rapid.Uint64().Draw(t, "low")}))
	default:
		t.Fatalf("%s is of a kind that the test does not know", f.path)
	}
	if fmt.Sprint(f.value) == former {
		t.Skip("the same value")
	}
}

func (f field) float() float64 {
	if f.value.Kind() == reflect.Float64 {
		return f.value.Float()
	}
	return 0
}

// copied is the records again, with that of a step sharing nothing.
func copied(t testing.TB, all []pipeline.Recorded, step int64) []pipeline.Recorded {
	t.Helper()
	from := all[step-1]
	r := pipeline.Recorded{Commit: &pipeline.CommitRecord{}}
	for _, c := range []struct{ from, to any }{{from.Intent, &r.Intent}, {from.Commit, r.Commit}} {
		data, err := json.Marshal(c.from)
		if err == nil {
			err = json.Unmarshal(data, c.to)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	all = slices.Clone(all)
	all[step-1] = r
	return all
}

// Whatever single field of whatever record is changed, with the chain behind it written anew, is found in its step,
// or is listed as not covered; and what is listed is nowhere else to be found.
func TestAnySingleChangeIsFound(t *testing.T) {
	p := planOf(t, 1, 8)
	honestly := honest(t, p, 8)
	skip(honestly, 7)
	_, before := written(t, honestly)
	rapid.Check(t, func(rt *rapid.T) {
		step := rapid.IntRange(1, 8).Draw(rt, "step")
		all := copied(t, honestly, int64(step))
		r := &all[step-1]
		fields := recordFields(r)
		f := fields[rapid.IntRange(0, len(fields)-1).Draw(rt, "field")]
		f.draw(rt)
		if strings.HasSuffix(f.path, ".Step") {
			rt.Skip("a record of another step cannot be written: package pipeline")
		}
		covered := true
		if when, listed := uncovered[f.path]; listed {
			covered = when(step, r)
		}
		if !writable(r) {
			rt.Skip("JSON has no such number: it cannot be written")
		}
		data, j := written(t, all)
		report := verified(t, p, data)
		if report.True() == covered {
			rt.Fatalf("%s of step %d is now %v: covered %v, found %v", f.path, step, f.value, covered, report.Faults)
		}
		at := int64(step)
		if step == 6 && f.path == "commit.StateDigest" {
			at = 7
		}
		if covered && report.Faults[0].Step != at {
			rt.Fatalf("%s of step %d is now %v: found %v", f.path, step, f.value, report.Faults)
		}
		// A checkpoint of the last step pins every line of the journal.
		if report := verified(t, p, data, manifestOf(p, before, 8)); report.True() || j.LastDigest == before.LastDigest {
			rt.Fatalf("%s of step %d is now %v: the checkpoint does not tell", f.path, step, f.value)
		}
	})
}

// writable reports that JSON can write the plain numbers of a record.
func writable(r *pipeline.Recorded) bool {
	for _, x := range []float64{r.Commit.Seconds, r.Commit.TokensPerSecond} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
	}
	return true
}

// Every field of both records is reached by the test above.
func TestTheListOfFieldsIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range honest(t, planOf(t, 1, 12), 4) {
		for _, f := range recordFields(&r) {
			seen[f.path] = true
		}
	}
	for path := range uncovered {
		if !seen[path] {
			t.Errorf("%s is listed as not covered and does not exist", path)
		}
	}
	types := []reflect.Type{reflect.TypeFor[pipeline.Intent](), reflect.TypeFor[pipeline.CommitRecord](), reflect.TypeFor[pipeline.LeaseRecord]()}
	fields := -5 // Kind and Previous of two records, and Leases, whose fields are counted
	for _, typ := range types {
		fields += typ.NumField()
	}
	if len(seen) != fields {
		t.Errorf("%d fields are changed by the test, the records have %d: %v", len(seen), fields, seen)
	}
}
