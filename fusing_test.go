package andrea

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// Go may compile x*y + z into one fused multiply-add, which rounds once instead of twice, and does so on
// some processors only; in one expression or across statements. Only a conversion of the product,
// float64(x*y) + z, forbids it. Where bits are promised this test finds additions of bare products. It
// sees a product in the addition itself, behind a sign or parentheses, and in a local variable; it does
// not follow products through fields, elements or the results of functions that may be inlined. A line
// that ends in "//fuse:ok reason" is excepted.

// promisedBits are the folders, each with all below it, whose arithmetic must give the same bits
// everywhere.
var promisedBits = []string{"numeric", "model", "pipeline", "cpuengine", "dataset", "generate"}

const fuseOK = "//fuse:ok "

func TestNoFusedProducts(t *testing.T) {
	faults := map[string]bool{}
	for _, arch := range []string{"amd64", "arm64"} {
		m := newTypedModule(arch)
		for _, f := range allFolders(t) {
			if !slices.ContainsFunc(promisedBits, func(folder string) bool { return isIn(f.path, folder) }) {
				continue
			}
			p, err := m.check(f)
			if err != nil {
				t.Fatalf("%s for %s: %v", f.path, arch, err)
			}
			for _, fault := range fusible(p.files, p.info) {
				faults[fault] = true
			}
		}
	}
	for _, fault := range slices.Sorted(maps.Keys(faults)) {
		t.Error(fault)
	}
}

// typedPackage is a package with the types of its expressions.
type typedPackage struct {
	types *types.Package
	files []*ast.File
	info  *types.Info
}

// typedModule finds the types of this module's packages for one architecture. Of the packages outside
// it only math is known, which gives the floats; the rest of what they give has no type here, and an
// expression without a type is taken for no float.
type typedModule struct {
	context build.Context
	math    types.Importer
	checked map[string]*typedPackage // by folder
}

func newTypedModule(arch string) *typedModule {
	m := &typedModule{context: build.Default, math: importer.ForCompiler(fileSet, "source", nil), checked: map[string]*typedPackage{}}
	m.context.GOOS, m.context.GOARCH = "linux", arch
	return m
}

// Import implements types.Importer.
func (m *typedModule) Import(name string) (*types.Package, error) {
	if name == "math" {
		return m.math.Import(name)
	}
	folderPath, ours := strings.CutPrefix(name, modulePath+"/")
	if !ours {
		p := types.NewPackage(name, path.Base(name))
		p.MarkComplete()
		return p, nil
	}
	all, err := folders()
	if err != nil {
		return nil, err
	}
	for _, f := range all {
		if f.path == folderPath {
			p, err := m.check(f)
			if err != nil {
				return nil, err
			}
			return p.types, nil
		}
	}
	return nil, fmt.Errorf("there is no package %s", name)
}

// check finds the types of a folder's package.
func (m *typedModule) check(f folder) (*typedPackage, error) {
	if p := m.checked[f.path]; p != nil {
		return p, nil
	}
	p := &typedPackage{info: newInfo()}
	for _, name := range f.sorted() {
		match, err := m.context.MatchFile(f.path, path.Base(name))
		if err != nil {
			return nil, err
		}
		if match {
			p.files = append(p.files, f.files[name])
		}
	}
	// What comes from packages that are not known is an error each, and no concern of this test.
	config := types.Config{Importer: m, FakeImportC: true, Error: func(error) {}}
	p.types, _ = config.Check(modulePath+"/"+f.path, fileSet, p.files, p.info)
	m.checked[f.path] = p
	return p, nil
}

func newInfo() *types.Info {
	return &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{},
		Defs:  map[*ast.Ident]types.Object{},
		Uses:  map[*ast.Ident]types.Object{},
	}
}

// fusible returns the places where a bare product is added or subtracted.
func fusible(files []*ast.File, info *types.Info) []string {
	var faults []string
	for _, file := range files {
		s := &search{info: info, products: map[types.Object]bool{}, excepted: exceptions(file)}
		ast.Inspect(file, s.collect)
		ast.Inspect(file, s.find)
		faults = append(faults, s.faults...)
	}
	return faults
}

// exceptions are the lines of a file that carry a reason why they may be fused.
func exceptions(file *ast.File) map[int]bool {
	lines := map[int]bool{}
	for _, group := range file.Comments {
		for _, c := range group.List {
			if reason, ok := strings.CutPrefix(c.Text, fuseOK); ok && strings.TrimSpace(reason) != "" {
				lines[fileSet.Position(c.Pos()).Line] = true
			}
		}
	}
	return lines
}

// search looks through one file.
type search struct {
	info     *types.Info
	products map[types.Object]bool // variables that were given a bare product somewhere
	excepted map[int]bool
	faults   []string
}

// collect notes the variables that are given a bare product.
func (s *search) collect(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			name, ok := left.(*ast.Ident)
			if !ok {
				continue
			}
			if object := s.object(name); object != nil && s.givesProduct(n, i) {
				s.products[object] = true
			}
		}
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if len(n.Values) == len(n.Names) && s.isProduct(n.Values[i]) {
				s.products[s.object(name)] = true
			}
		}
	}
	return true
}

// givesProduct reports whether an assignment gives its left side i a bare product.
func (s *search) givesProduct(n *ast.AssignStmt, i int) bool {
	switch n.Tok {
	case token.MUL_ASSIGN:
		return s.isFloat(n.Lhs[0]) && !s.isPower(n.Rhs[0])
	case token.ASSIGN, token.DEFINE:
		return len(n.Lhs) == len(n.Rhs) && s.isProduct(n.Rhs[i])
	}
	return false
}

func (s *search) object(name *ast.Ident) types.Object {
	if object := s.info.Defs[name]; object != nil {
		return object
	}
	return s.info.Uses[name]
}

// find notes the additions of bare products.
func (s *search) find(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if n.Op == token.ADD || n.Op == token.SUB {
			s.addition(n.X, n.Y)
		}
	case *ast.AssignStmt:
		if n.Tok == token.ADD_ASSIGN || n.Tok == token.SUB_ASSIGN {
			s.addition(n.Lhs[0], n.Rhs[0])
		}
	}
	return true
}

// addition looks at both sides of a sum.
func (s *search) addition(sides ...ast.Expr) {
	for _, side := range sides {
		if !s.isProduct(side) && !s.holdsProduct(side) {
			continue
		}
		at := fileSet.Position(side.Pos())
		if !s.excepted[at.Line] {
			s.faults = append(s.faults, fmt.Sprintf(
				"%s:%d: the product %s may be fused with the addition: convert it, float64(x*y) + z, or say %sreason",
				at.Filename, at.Line, types.ExprString(side), fuseOK))
		}
	}
}

// isProduct reports whether an expression is a product of floats that is rounded, and by no conversion.
// A constant is none, nor is a product that is exact: with a power of two of 1 or more, or in float64 of
// two float32 values.
func (s *search) isProduct(e ast.Expr) bool {
	e = bare(e)
	b, ok := e.(*ast.BinaryExpr)
	if !ok || b.Op != token.MUL || !s.isFloat(e) || s.info.Types[e].Value != nil {
		return false
	}
	return !s.isPower(b.X) && !s.isPower(b.Y) && !(s.isWidened(b.X) && s.isWidened(b.Y))
}

// isWidened reports whether an expression converts a float32 to float64.
func (s *search) isWidened(e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok || len(call.Args) != 1 || !s.info.Types[call.Fun].IsType() {
		return false
	}
	return s.isBasic(call, types.Float64) && s.isBasic(call.Args[0], types.Float32)
}

func (s *search) isBasic(e ast.Expr, kind types.BasicKind) bool {
	t := s.info.TypeOf(e)
	if t == nil {
		return false
	}
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Kind() == kind
}

// holdsProduct reports whether an expression is a variable that was given a bare product.
func (s *search) holdsProduct(e ast.Expr) bool {
	name, ok := bare(e).(*ast.Ident)
	return ok && s.products[s.object(name)]
}

// isPower reports whether an expression is a constant 1, 2, 4, ...
func (s *search) isPower(e ast.Expr) bool {
	value := s.info.Types[e].Value
	if value == nil {
		return false
	}
	whole := constant.ToInt(value)
	n, ok := constant.Uint64Val(whole)
	return whole.Kind() == constant.Int && ok && n > 0 && n&(n-1) == 0
}

// isFloat reports whether an expression is a float, or may be: a value of a type parameter.
func (s *search) isFloat(e ast.Expr) bool {
	t := s.info.TypeOf(e)
	if t == nil {
		return false
	}
	if b, ok := t.Underlying().(*types.Basic); ok {
		return b.Info()&(types.IsFloat|types.IsComplex) != 0
	}
	_, parameter := types.Unalias(t).(*types.TypeParam)
	return parameter
}

// bare takes away parentheses and signs.
func bare(e ast.Expr) ast.Expr {
	for {
		switch x := e.(type) {
		case *ast.ParenExpr:
			e = x.X
		case *ast.UnaryExpr:
			if x.Op != token.SUB && x.Op != token.ADD {
				return e
			}
			e = x.X
		default:
			return e
		}
	}
}

// The search must find what it is there for, and nothing else.
func TestFusibleProductsAreFound(t *testing.T) {
	const source = `package p
import "math"
type real float64
func f(x, y, z float64, s []float32, i, j int, r real) {
	_ = x*y + z // 1
	_ = z - x*y // 2
	_ = -(x * y) + z // 3
	z += x * y // 4
	s[0] -= s[1] * s[2] // 5
	t := x * y
	z += t // 6
	var u = r * r
	_ = r + u // 7
	v := x
	v *= y
	_ = v - 1 // 8
	_ = x*math.Sqrt(y) + 1 // 9
	_ = x*y + z*x // 10, 11
	_ = 0.5*x + y // 12
	p := float64(s[0]) * x
	_ = p + z // 13

	_ = float64(x*y) + z
	_ = i*j + i
	_ = 2*x + y
	const c = 1.5
	_ = c*c + x
	_ = x*y/z + 1
	q := float64(s[0]) * float64(s[1])
	_ = q + z
	x *= 2
	_ = x + 1
	w := float64(x * y)
	_ = w + z
	_ = x*y + z //fuse:ok it does not matter
}
func g[T float32 | float64](a, b, c T) T { return a*b + c } // 14
`
	file, err := parser.ParseFile(fileSet, "p.go", source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	info := newInfo()
	config := types.Config{Importer: newTypedModule("amd64")}
	if _, err := config.Check("p", fileSet, []*ast.File{file}, info); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(source, "\n")
	want := 0
	for _, line := range lines {
		if _, marks, ok := strings.Cut(line, " // "); ok {
			want += len(strings.Split(marks, ","))
		}
	}
	faults := fusible([]*ast.File{file}, info)
	for _, fault := range faults {
		at := 0
		if _, err := fmt.Sscanf(fault, "p.go:%d:", &at); err != nil || !strings.Contains(lines[at-1], " // ") {
			t.Errorf("this is no fault: %s", fault)
		}
	}
	if len(faults) != want || want != 14 {
		t.Errorf("%d faults, want %d:\n%s", len(faults), want, strings.Join(faults, "\n"))
	}
}
