package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// strict decodes one JSON value. Unknown members and trailing data are errors.
func strict(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // keep numbers as text
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

// tree decodes JSON of any shape. Empty input is null.
func tree(raw []byte) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var value any
	err := strict(raw, &value)
	return value, err
}

// expand replaces {"$repeat": x, "$times": n} by the repeated value.
func expand(raw json.RawMessage) (json.RawMessage, error) {
	if !bytes.Contains(raw, []byte(`"$repeat"`)) {
		return raw, nil // keep every byte, including the order of members
	}
	value, err := tree(raw)
	if err != nil {
		return nil, err
	}
	if value, err = repeated(value); err != nil {
		return nil, err
	}
	return rawjson.Must(value), nil
}

// maxRepeat limits repeated values, so a mistake in a file cannot use up the machine's memory.
const maxRepeat = 256 << 20

func repeated(value any) (any, error) {
	var err error
	switch value := value.(type) {
	case []any:
		for i := range value {
			if value[i], err = repeated(value[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		if _, ok := value["$repeat"]; ok {
			var r struct {
				Text  string `json:"$repeat"`
				Times int    `json:"$times"`
			}
			if err := strict(rawjson.Must(value), &r); err != nil {
				return nil, err
			}
			if r.Times < 0 || r.Times > maxRepeat/max(1, len(r.Text)) {
				return nil, fmt.Errorf("$times is %d: from 0 on, and at most %d bytes in all", r.Times, maxRepeat)
			}
			return strings.Repeat(r.Text, r.Times), nil
		}
		for key := range value {
			if value[key], err = repeated(value[key]); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

// unobtainable returns the error that a value, or a part of it, represents, or nil.
func unobtainable(raw json.RawMessage) error {
	if !bytes.Contains(raw, []byte(`"$error"`)) {
		return nil
	}
	value, err := tree(raw)
	if err != nil {
		return err
	}
	return errorIn(value)
}

func errorIn(value any) error {
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			if err := errorIn(v); err != nil {
				return err
			}
		}
	case map[string]any:
		if text, ok := value["$error"].(string); ok && len(value) == 1 {
			return errors.New(text)
		}
		for _, v := range value {
			if err := errorIn(v); err != nil {
				return err
			}
		}
	}
	return nil
}
