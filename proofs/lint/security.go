package main

import (
	"go/ast"
	"go/constant"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

// modes reports files and directories that other users may read or write.
var modes = &analysis.Analyzer{
	Name: "modes",
	Doc:  "report modes of files that give other users access",
	Run: func(pass *analysis.Pass) (any, error) {
		most := map[string]int64{
			"os.Mkdir": 0o700, "os.MkdirAll": 0o700,
			"os.OpenFile": 0o600, "os.WriteFile": 0o600, "os.Chmod": 0o600, "(*os.File).Chmod": 0o600,
			"(*os.Root).Mkdir": 0o700, "(*os.Root).MkdirAll": 0o700,
			"(*os.Root).OpenFile": 0o600, "(*os.Root).WriteFile": 0o600, "(*os.Root).Chmod": 0o600,
		}
		for _, f := range pass.Files {
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				fn := typeutil.StaticCallee(pass.TypesInfo, call)
				if fn == nil || most[fn.FullName()] == 0 {
					return true
				}
				arg := call.Args[len(call.Args)-1]
				if mode := pass.TypesInfo.Types[arg].Value; mode != nil {
					if m, ok := constant.Int64Val(mode); ok && m&0o777&^most[fn.FullName()] != 0 {
						pass.Reportf(arg.Pos(), "mode %#o is more than %#o", m, most[fn.FullName()])
					}
				}
				return true
			})
		}
		return nil, nil
	},
}
