// Package style has mistakes of style.
package style

import "context"

func Function() {} // want `Function is exported and needs a comment`

type Type struct{} // want `Type is exported and needs a comment`

func (Type) Method() {} // want `Method is exported and needs a comment`

func (Type) String() string { return "" }

type private struct{}

func (private) Method() {}

// The names of a group share a comment.
const (
	One = iota
	Two
)

var len = 0 // want `len hides the built-in len`

type fields struct{ len int }

func late(n int, ctx context.Context) {} // want `the context must be the first parameter of late`

func first(ctx context.Context, n int) {}

func conversions(n int, s string, f float64, shift uint) {
	_ = int(n) // want `the value already has the type int`
	_ = int64(n)
	_ = string(s) // want `the value already has the type string`
	_ = float64(f * f)
	_ = int64(1 << shift)
	_ = bool(n == 1)
}
