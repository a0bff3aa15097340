package rapid

import (
	"math"
	"regexp/syntax"
	"slices"
	"strings"
)

// A Generator draws values. Simple values are drawn from small numbers, to which Check shrinks.
type Generator[V any] struct{ draw func(*T) V }

// Draw draws a value. Check reports it with the label.
func (g *Generator[V]) Draw(t *T, label string) V {
	v := g.draw(t)
	if t.verbose {
		t.Logf("%s: %#v", label, v)
	}
	return v
}

// AsAny returns the same generator for values of type any.
func (g *Generator[V]) AsAny() *Generator[any] {
	return Custom(func(t *T) any { return g.draw(t) })
}

// Custom draws values that a function composes of others.
func Custom[V any](draw func(*T) V) *Generator[V] { return &Generator[V]{draw} }

// Deferred calls a function at each draw, so that generators can be recursive.
func Deferred[V any](generator func() *Generator[V]) *Generator[V] {
	return Custom(func(t *T) V { return generator().draw(t) })
}

// Map draws a value and converts it.
func Map[U, V any](g *Generator[U], convert func(U) V) *Generator[V] {
	return Custom(func(t *T) V { return convert(g.draw(t)) })
}

// Just draws always the same value.
func Just[V any](v V) *Generator[V] { return Custom(func(*T) V { return v }) }

// SampledFrom draws one of the values.
func SampledFrom[S ~[]E, E any](values S) *Generator[E] {
	return Custom(func(t *T) E { return values[t.choice(uint64(len(values)))] })
}

// OneOf draws from one of the generators.
func OneOf[V any](generators ...*Generator[V]) *Generator[V] {
	return Custom(func(t *T) V { return generators[t.choice(uint64(len(generators)))].draw(t) })
}

// Permutation draws an order of the values.
func Permutation[S ~[]E, E any](values S) *Generator[S] {
	return Custom(func(t *T) S {
		s := slices.Clone(values)
		for i := range s {
			j := i + int(t.choice(uint64(len(s)-i)))
			s[i], s[j] = s[j], s[i]
		}
		return s
	})
}

// Bool draws false or true.
func Bool() *Generator[bool] { return Custom(func(t *T) bool { return t.choice(2) > 0 }) }

// Uint64 draws any number.
func Uint64() *Generator[uint64] {
	return Custom(func(t *T) uint64 { return t.number(math.MaxUint64) })
}

// Int64Range draws a number from least to most. Small numbers are more frequent in a large range.
func Int64Range(least, most int64) *Generator[int64] {
	return Custom(func(t *T) int64 {
		switch {
		case least <= 0 && most <= 0: // starts with the number next to 0
			return most - int64(t.number(uint64(most)-uint64(least)))
		case least >= 0 || uint64(most)-uint64(least) < 1<<10:
			return least + int64(t.number(uint64(most)-uint64(least)))
		case t.choice(2) > 0:
			return -int64(t.number(-uint64(least)))
		default:
			return int64(t.number(uint64(most)))
		}
	})
}

// Int64 draws any number.
func Int64() *Generator[int64] { return Int64Range(math.MinInt64, math.MaxInt64) }

// IntRange draws a number from least to most.
func IntRange(least, most int) *Generator[int] {
	return Map(Int64Range(int64(least), int64(most)), func(n int64) int { return int(n) })
}

// Int draws any number.
func Int() *Generator[int] { return IntRange(math.MinInt, math.MaxInt) }

// Float64Range draws a finite number from least to most.
func Float64Range(least, most float64) *Generator[float64] {
	return Custom(func(t *T) float64 {
		switch t.choice(4) {
		case 0:
			return min(max(least, 0), most)
		case 1: // a small number
			return min(max(least, float64(Int64Range(-100, 100).draw(t))/4), most)
		case 2:
			return most
		default:
			part := float64(t.choice(1<<53)) / (1<<53 - 1)
			return min(max(least, least*(1-part)+most*part), most)
		}
	})
}

// Float64 draws any finite number.
func Float64() *Generator[float64] {
	return OneOf(Float64Range(-1e6, 1e6), Custom(func(t *T) float64 {
		if f := math.Float64frombits(t.choice(0)); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f
		}
		return math.Copysign(0, -1)
	}))
}

// SliceOf draws a list.
func SliceOf[E any](elem *Generator[E]) *Generator[[]E] { return SliceOfN(elem, 0, -1) }

// SliceOfN draws a list with at least least and at most most items; most is -1 for any number.
func SliceOfN[E any](elem *Generator[E], least, most int) *Generator[[]E] {
	return Custom(func(t *T) []E {
		list := []E{}
		for t.more(len(list), least, most) {
			list = append(list, elem.draw(t))
		}
		return list
	})
}

// ID returns its argument. It is a key for SliceOfNDistinct.
func ID[V any](v V) V { return v }

// SliceOfNDistinct draws a list of items with different keys. It skips the case if it finds no
// list that is long enough.
func SliceOfNDistinct[E any, K comparable](elem *Generator[E], least, most int, key func(E) K) *Generator[[]E] {
	return Custom(func(t *T) []E {
		list, keys := []E{}, map[K]bool{}
		for misses := 0; t.more(len(list), least, most); {
			e := elem.draw(t)
			if k := key(e); !keys[k] {
				keys[k] = true
				list = append(list, e)
			} else if misses++; misses > 100 {
				if len(list) < least {
					t.Skip("too few different values")
				}
				break
			}
		}
		return list
	})
}

// MapOfN draws a map. It can have fewer than least members if keys repeat.
func MapOfN[K comparable, V any](key *Generator[K], value *Generator[V], least, most int) *Generator[map[K]V] {
	return Custom(func(t *T) map[K]V {
		m := map[K]V{}
		for n := 0; t.more(n, least, most); n++ {
			m[key.draw(t)] = value.draw(t)
		}
		return m
	})
}

// letter draws a rune: a letter, a rune that often makes trouble, or any rune.
var letter = OneOf(
	SampledFrom([]rune("abcXYZ019 _-./")),
	Map(Int64Range(' ', '~'), func(n int64) rune { return rune(n) }),
	SampledFrom([]rune("\"\\'`<>&{}[]$%*?#!:;,|~^=\x00\x01\t\n\r\x1b\x7f\u0085\u00a0éßſİıΣσς\u0301\u200b\u200d\u2028\u2029\u202e\u212a\u3000多한\ufeff\ufffd\uffff😀\U0010ffff")),
	Map(Int64Range(0x80, 0x10ffff-0x800), func(n int64) rune {
		if n >= 0xd800 { // surrogates are not runes
			n += 0x800
		}
		return rune(n)
	}),
)

// String draws a valid text.
func String() *Generator[string] { return StringN(0, -1) }

// StringN draws a valid text with at least least and at most most runes; most is -1 for any number.
func StringN(least, most int) *Generator[string] { return StringOfN(letter, least, most) }

// StringOfN is like StringN, but draws the runes with a generator.
func StringOfN(elem *Generator[rune], least, most int) *Generator[string] {
	return Map(SliceOfN(elem, least, most), func(runes []rune) string { return string(runes) })
}

// StringMatching draws a text that matches a regular expression of literals, classes, groups,
// alternatives and repetitions.
func StringMatching(expr string) *Generator[string] {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		panic(err)
	}
	return Custom(func(t *T) string {
		var b strings.Builder
		match(t, &b, re)
		return b.String()
	})
}

func match(t *T, b *strings.Builder, re *syntax.Regexp) {
	least, most := re.Min, re.Max
	switch re.Op {
	case syntax.OpEmptyMatch:
		return
	case syntax.OpLiteral:
		b.WriteString(string(re.Rune))
		return
	case syntax.OpCharClass:
		i := 2 * t.choice(uint64(len(re.Rune)/2))
		b.WriteRune(re.Rune[i] + rune(t.choice(uint64(re.Rune[i+1]-re.Rune[i])+1)))
		return
	case syntax.OpAlternate:
		match(t, b, re.Sub[t.choice(uint64(len(re.Sub)))])
		return
	case syntax.OpConcat, syntax.OpCapture:
		for _, sub := range re.Sub {
			match(t, b, sub)
		}
		return
	case syntax.OpStar:
		least, most = 0, -1
	case syntax.OpPlus:
		least, most = 1, -1
	case syntax.OpQuest:
		least, most = 0, 1
	case syntax.OpRepeat:
	default:
		panic("rapid: cannot draw a text that matches " + re.String())
	}
	for n := 0; t.more(n, least, most); n++ {
		match(t, b, re.Sub[0])
	}
}
