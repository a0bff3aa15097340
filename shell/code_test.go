package shell

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// An interpreter gets the same program in many ways.
func TestWaysOfCode(t *testing.T) {
	t.Parallel()
	past := &Past{Texts: func(name string) []Text {
		if strings.HasPrefix(strings.TrimPrefix(name, "./"), "tools/") {
			return []Text{{Text: "RUN"}}
		}
		return nil
	}}
	for language, lines := range map[string][]string{
		"python": {
			"python3 -c RUN", "python3 - <<'E'\nRUN\nE", "python3 <<< RUN", "echo RUN | python3", "cat <<'E' | python3\nRUN\nE", "python3 tools/a.py", "python3 < tools/a.py",
			"uv run python -c RUN", "uv run tools/a.py", "poetry run python -c RUN", "pdm run python -c RUN", "docker exec web python -c RUN", "ssh web 'python -c RUN'", "rtk python -c RUN", "ipython -c RUN",
			"python manage.py shell -c RUN", "./manage.py shell --command RUN", "python manage.py shell <<'E'\nRUN\nE", "python manage.py shell < tools/a.py", "uv run manage.py shell -c RUN",
			"django-admin shell -c RUN", "flask shell <<'E'\nRUN\nE",
		},
		"node": {"node -e RUN", "node -p RUN", "node <<'E'\nRUN\nE", "bun -e RUN", "deno eval RUN", "npx tsx -e RUN", "node tools/a.js", "npx tsx tools/a.ts", "deno run -A tools/a.ts", "bun tools/a.ts", "bun run tools/a.ts"},
		"ruby": {"ruby -e RUN", "rails runner RUN", "bin/rails r RUN", "bundle exec rails runner RUN", "rails console <<'E'\nRUN\nE", "rails c <<< RUN", "mix run -e RUN"},
		"php":  {"php -r RUN", "php artisan tinker --execute=RUN", "php artisan tinker <<'E'\nRUN\nE"},
	} {
		for _, line := range lines {
			code := ParseAfter(past, "", line).Code
			if !slices.ContainsFunc(code, func(c Code) bool { return c.Language == language && strings.TrimSpace(c.Text) == "RUN" }) {
				t.Errorf("%q has the code %+v, want RUN in %s", line, code, language)
			}
		}
	}
	// Without a first line "#!", the system gives a file to the shell, whatever its name.
	for _, line := range []string{"./tools/a.py", "sudo ./tools/a.py", "env ./tools/a.py", "./tools/a.ps1"} {
		s := ParseAfter(past, "", line)
		if !slices.ContainsFunc(s.Commands, func(c Command) bool { return c.Name == "RUN" }) {
			t.Errorf("%q runs %+v, want RUN", line, s.Commands)
		}
	}
	for _, line := range []string{"python manage.py migrate", "rails server", "python3 -m http.server", "python3 script.py RUN", "php artisan serve"} {
		if code := ParseAfter(past, "", line).Code; len(code) > 0 {
			t.Errorf("%q has the code %+v, want none", line, code)
		}
	}
}

// TestLongCode checks that long code with few names is read to its end.
func TestLongCode(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	code.WriteString("python3 - <<'PY'\nfrom os import system as s\n")
	for i := range 2000 {
		fmt.Fprintf(&code, "rows.append(compute(%d))\n", i)
	}
	code.WriteString("s('rm -rf /')\nPY")
	s := Parse(code.String())
	if len(s.Unknown) > 0 {
		t.Errorf("unknown: %q", s.Unknown)
	}
	if !slices.ContainsFunc(s.Commands, func(c Command) bool { return c.Name == "rm" }) {
		t.Error("the last call is not seen")
	}
}
