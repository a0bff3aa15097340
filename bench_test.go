package grapnel_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/grapnel-dev/grapnel"
)

func BenchmarkFireNobodyListens(b *testing.B) {
	engine, _ := grapnel.New(nil, nil)
	ev := &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "bash", Class: grapnel.ClassShell}}
	b.ReportAllocs()
	for b.Loop() {
		engine.Fire(context.Background(), ev)
	}
}

func BenchmarkFireTenFuncs(b *testing.B) {
	var specs []grapnel.Spec
	for i := range 10 {
		specs = append(specs, grapnel.Spec{Name: fmt.Sprint("h", i), On: []grapnel.Kind{grapnel.ToolBefore},
			Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return grapnel.Outcome{}, nil })})
	}
	engine, _ := grapnel.New(specs, nil)
	ev := &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "bash", Class: grapnel.ClassShell}}
	b.ReportAllocs()
	for b.Loop() {
		engine.Fire(context.Background(), ev)
	}
}
