package andrea

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// Every package says what it is, once, and every exported name says what it means.
func TestDocComments(t *testing.T) {
	for _, f := range allFolders(t) {
		var documented []string
		for _, name := range f.sorted() {
			file := f.files[name]
			if file.Doc != nil && strings.TrimSpace(file.Doc.Text()) != "" {
				documented = append(documented, name)
			}
			for _, fault := range undocumented(file) {
				t.Error(fault)
			}
		}
		if len(documented) != 1 {
			t.Errorf("%s: %d files have a package comment %v: must be one", f.path, len(documented), documented)
		}
	}
}

// selfEvident are the methods of errors, which mean the same everywhere.
var selfEvident = []string{"Error", "Unwrap"}

// undocumented returns the exported names of a file that have no doc comment.
func undocumented(file *ast.File) []string {
	var faults []string
	fault := func(at token.Pos, name string) {
		faults = append(faults, fmt.Sprintf("%s: %s has no doc comment", fileSet.Position(at), name))
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			method := d.Recv != nil
			hidden := method && (!ast.IsExported(receiver(d)) || slices.Contains(selfEvident, d.Name.Name))
			if d.Name.IsExported() && d.Doc == nil && !hidden {
				fault(d.Pos(), d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				undocumentedSpec(spec, d, fault)
			}
		}
	}
	return faults
}

// undocumentedSpec looks at a type, or at constants or variables: these may share the comment of their
// group or have one at the end of the line.
func undocumentedSpec(spec ast.Spec, group *ast.GenDecl, fault func(token.Pos, string)) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && s.Doc == nil && (group.Doc == nil || group.Lparen.IsValid()) {
			fault(s.Pos(), s.Name.Name)
		}
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if name.IsExported() && s.Doc == nil && s.Comment == nil && group.Doc == nil {
				fault(name.Pos(), name.Name)
			}
		}
	}
}

// receiver is the name of a method's type.
func receiver(d *ast.FuncDecl) string {
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// The test must be able to fail.
func TestUndocumentedNamesAreFound(t *testing.T) {
	const source = `package p
type A struct{}
func F() {}
func (A) M() {}
func (a *A) N() {}
func (G[T]) O() {}
const X = 1
var Y, y = 1, 2
type (
	B int
)
// G is documented.
type G[T any] struct{}
func (A) Error() string { return "" }
func (b hidden) M() {}
// Group.
const (
	P = 1
)
const Q = 1 // Q is documented.
`
	file, err := parser.ParseFile(fileSet, "p.go", source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, fault := range undocumented(file) {
		_, rest, _ := strings.Cut(fault, " ")
		names = append(names, strings.Fields(rest)[0])
	}
	if want := []string{"A", "F", "M", "N", "O", "X", "Y", "B"}; !slices.Equal(names, want) {
		t.Errorf("found %v, want %v", names, want)
	}
}
