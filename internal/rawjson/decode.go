package rawjson

import "strconv"

// Decode decodes JSON into the same types as encoding/json: map, slice, string, float64, bool and
// nil. It makes one pass over raw. For JSON that is not valid the result is undefined.
func Decode(raw []byte) any {
	i := SkipSpace(raw, 0)
	if i == len(raw) {
		return nil
	}
	v, _ := decodeAt(raw, i)
	return v
}

// decodeAt decodes the value that begins at i and returns the index after it, or -1.
func decodeAt(raw []byte, i int) (value any, end int) {
	switch raw[i] {
	case '{':
		object := map[string]any{}
		end = Inside(raw, i, func(name []byte, begin int) int {
			key, _ := Unquote(name)
			value, end := decodeAt(raw, begin)
			object[key] = value
			return end
		})
		return object, end
	case '[':
		list := []any{}
		end = Inside(raw, i, func(_ []byte, begin int) int {
			value, end := decodeAt(raw, begin)
			list = append(list, value)
			return end
		})
		return list, end
	}
	if end = SkipValue(raw, i); end < 0 {
		return nil, end
	}
	switch word := raw[i:end]; word[0] {
	case '"':
		text, _ := Unquote(word)
		return text, end
	case 't', 'f':
		return word[0] == 't', end
	case 'n':
		return nil, end
	default:
		number, _ := strconv.ParseFloat(string(word), 64)
		return number, end
	}
}
