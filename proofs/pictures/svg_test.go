package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestSVG(t *testing.T) {
	t.Parallel()
	text := svg("plain \x1b[1mbold\x1b[0m\n\x1b[31mred <&>\x1b[39;7m x \x1b[27m\n", 100)
	for _, want := range []string{
		`>plain </text>`, `font-weight="bold">bold</text>`, `fill="#f47067" xml:space="preserve">red &lt;&amp;&gt;</text>`, `<rect x="72.8" y="32" width="25.2"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the picture lacks %s:\n%s", want, text)
		}
	}
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	}
}
