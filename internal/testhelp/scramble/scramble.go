// Package scramble changes all data that a value refers to. Tests use it to check that an
// exported function returns copies, not parts of its package's tables.
package scramble

import (
	"fmt"
	"reflect"
	"strings"
)

// Value changes the data behind v: every exported field, element and map entry behind a pointer,
// slice, map or interface. A value that was equal to v is different afterwards unless the two
// share all their data.
func Value(v any) { change(reflect.ValueOf(v), map[uintptr]bool{}) }

func change(v reflect.Value, seen map[uintptr]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || seen[v.Pointer()] {
			return
		}
		seen[v.Pointer()] = true
		change(v.Elem(), seen)
	case reflect.Interface:
		change(v.Elem(), seen)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				change(v.Field(i), seen)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			change(v.Index(i), seen)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(key))
			change(value, seen)
			v.SetMapIndex(key, value)
		}
	default:
		scalar(v)
	}
}

func scalar(v reflect.Value) {
	if !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + " scrambled")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.Func, reflect.Chan:
		v.SetZero()
	default: // types that do not occur in tables
	}
}

// Print returns a value as text, including the data behind pointers. For a function, the text
// only shows whether it is nil.
func Print(v any) string {
	var b strings.Builder
	write(&b, reflect.ValueOf(v))
	return b.String()
}

func write(b *strings.Builder, v reflect.Value) {
	switch v.Kind() {
	case reflect.Invalid:
		b.WriteString("nil")
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			b.WriteString("nil")
			return
		}
		write(b, v.Elem())
	case reflect.Struct:
		b.WriteString("{")
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				fmt.Fprintf(b, "%s:", f.Name)
				write(b, v.Field(i))
				b.WriteString(" ")
			}
		}
		b.WriteString("}")
	case reflect.Slice, reflect.Array:
		b.WriteString("[")
		for i := range v.Len() {
			write(b, v.Index(i))
			b.WriteString(" ")
		}
		b.WriteString("]")
	case reflect.Map:
		entries := map[string]string{} // fmt sorts the keys
		for _, key := range v.MapKeys() {
			entries[Print(key.Interface())] = Print(v.MapIndex(key).Interface())
		}
		fmt.Fprint(b, entries)
	case reflect.Func, reflect.Chan:
		fmt.Fprintf(b, "%s nil:%t", v.Type(), v.IsNil())
	default:
		fmt.Fprintf(b, "%#v", v)
	}
}
