package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// comments reports exported names without a comment. One comment is sufficient for a group of
// constants or variables. staticcheck checks how a comment begins.
var comments = &analysis.Analyzer{
	Name: "comments",
	Doc:  "report exported names without a comment",
	Run: func(pass *analysis.Pass) (any, error) {
		for _, f := range pass.Files {
			if strings.HasSuffix(pass.Fset.Position(f.Pos()).Filename, "_test.go") {
				continue
			}
			for _, d := range f.Decls {
				for _, name := range uncommented(d) {
					pass.Reportf(name.Pos(), "%s is exported and needs a comment", name.Name)
				}
			}
		}
		return nil, nil
	},
}

// selfEvident are methods of well-known interfaces.
var selfEvident = []string{"Error", "Is", "Len", "Less", "MarshalJSON", "MarshalText", "Read", "ServeHTTP", "String", "Swap", "UnmarshalJSON", "UnmarshalText", "Unwrap", "Write"}

func uncommented(d ast.Decl) []*ast.Ident {
	var names []*ast.Ident
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && (d.Recv == nil || receiverExported(d.Recv) && !slices.Contains(selfEvident, d.Name.Name)) {
			names = append(names, d.Name)
		}
	case *ast.GenDecl:
		if d.Doc != nil {
			return nil
		}
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Doc == nil {
					names = append(names, s.Name)
				}
			case *ast.ValueSpec:
				if s.Doc == nil && s.Comment == nil {
					names = append(names, s.Names...)
				}
			}
		}
	}
	return slices.DeleteFunc(names, func(n *ast.Ident) bool { return !n.IsExported() })
}

func receiverExported(recv *ast.FieldList) bool {
	exported := false
	ast.Inspect(recv.List[0].Type, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		exported = exported || ok && id.IsExported()
		return !ok
	})
	return exported
}

// builtins reports declarations that hide a built-in function or type. The code has no complex
// numbers, and "real" is a good name for a resolved path.
var builtins = &analysis.Analyzer{
	Name: "builtins",
	Doc:  "report names that hide a built-in function or type",
	Run: func(pass *analysis.Pass) (any, error) {
		for id, obj := range pass.TypesInfo.Defs {
			if obj == nil || id.Name == "real" || types.Universe.Lookup(id.Name) == nil {
				continue
			}
			if v, ok := obj.(*types.Var); ok && v.IsField() {
				continue
			}
			if f, ok := obj.(*types.Func); ok && f.Signature().Recv() != nil {
				continue
			}
			pass.Reportf(id.Pos(), "%s hides the built-in %s", id.Name, id.Name)
		}
		return nil, nil
	},
}

// contexts reports functions with a context that is not their first parameter. Helpers of tests
// may have a *testing.T before it.
var contexts = &analysis.Analyzer{
	Name: "contexts",
	Doc:  "report contexts that are not the first parameter",
	Run: func(pass *analysis.Pass) (any, error) {
		for _, obj := range pass.TypesInfo.Defs {
			f, ok := obj.(*types.Func)
			if !ok {
				continue
			}
			before := false
			for p := range f.Signature().Params().Variables() {
				switch t := strings.TrimPrefix(p.Type().String(), "*"); {
				case t == "context.Context" && before:
					pass.Reportf(p.Pos(), "the context must be the first parameter of %s", f.Name())
				case t != "context.Context" && !strings.HasPrefix(t, "testing."):
					before = true
				}
			}
		}
		return nil, nil
	},
}

// unconvert reports conversions of a value to the type that it has.
var unconvert = &analysis.Analyzer{
	Name: "unconvert",
	Doc:  "report conversions without effect",
	Run: func(pass *analysis.Pass) (any, error) {
		for _, f := range pass.Files {
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) != 1 {
					return true
				}
				to, from := pass.TypesInfo.Types[call.Fun], pass.TypesInfo.Types[call.Args[0]]
				// A constant may get its type from the conversion. A conversion of a float
				// also rounds it.
				if to.IsType() && from.Value == nil && !isFloat(to.Type) && !untyped(pass, call.Args[0]) && types.Identical(to.Type, from.Type) {
					pass.Reportf(call.Pos(), "the value already has the type %s", types.TypeString(to.Type, types.RelativeTo(pass.Pkg)))
				}
				return true
			})
		}
		return nil, nil
	},
}

func isFloat(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&(types.IsFloat|types.IsComplex) != 0
}

// untyped reports whether an expression gets its type from where it is: a comparison, or a
// shift of a constant.
func untyped(pass *analysis.Pass, e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.BinaryExpr:
		switch e.Op {
		case token.SHL, token.SHR:
			return pass.TypesInfo.Types[e.X].Value != nil || untyped(pass, e.X)
		case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
			return true
		default:
			return untyped(pass, e.X) && untyped(pass, e.Y)
		}
	case *ast.UnaryExpr:
		return untyped(pass, e.X)
	case *ast.Ident:
		return pass.TypesInfo.Types[e].IsNil()
	}
	return false
}
